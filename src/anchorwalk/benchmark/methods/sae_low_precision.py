"""Sequential anchored ensembles, with later trainings in bfloat16."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import low_precision_sae as methods
from anchorwalk.plan.plan import Plan
from anchorwalk.walks import GuidedWalk

LATER = 8


def choose(case: Case, budget: int, chains: int, step: float, points: int) -> Plan:
    """Chains of one long training and eight later members, each the mean of so many ends."""
    first, rest = parts(budget, chains, 0.3)
    then = training(case, max(1, rest // (LATER * points)))
    method = methods.LowPrecisionSAE(training(case, first), then, GuidedWalk(step), shift_start=True, points=points)
    return Plan(method, chains, 1 + LATER)


SAE_LOW_PRECISION = Searched.of("sae_low_precision", choose, chains=(2, 1), step=(1.0, 0.3), points=(2, 4))
