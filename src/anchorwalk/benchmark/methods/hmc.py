"""Hamiltonian Monte Carlo from trained starts."""

from anchorwalk import checks
from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import hmc as methods
from anchorwalk.plan.plan import Plan

BLOCKS = 6
"""Of iterations, of which the first two are warm-up."""
LOOKS = 3
"""Passes of a block beside its leapfrogs, and one more where a chain begins."""


def choose(case: Case, budget: int, chains: int, leapfrogs: int, share: float) -> Plan:
    """Chains that begin at a mode with a share of the budget, and as many trajectories as the rest holds.

    Where that is none there are fewer chains.

    Raises:
        InvalidInput: A budget too small for one chain.
    """
    for fewer in range(chains, 0, -1):
        _, rest = parts(budget, fewer, share)
        block = (rest - 1 - BLOCKS * LOOKS) // (BLOCKS * leapfrogs)
        if block > 0:
            start = training(case, budget // fewer - 1 - BLOCKS * (block * leapfrogs + LOOKS))
            method = methods.HMC((block, block), 1, leapfrogs, block, block, training=start)
            return Plan(method, fewer, (BLOCKS - 2) * block)
    expected = f"more than {BLOCKS} trajectories of {leapfrogs} leapfrogs and a training"
    return checks.reject("budget", budget, expected, "Set a larger budget, or fewer leapfrogs.")


HMC = Searched.of("hmc", choose, chains=(4, 1), leapfrogs=(10, 20), share=(0.5, 0.25))
