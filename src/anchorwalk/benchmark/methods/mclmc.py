"""Microcanonical Langevin Monte Carlo from trained starts."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import mclmc as methods
from anchorwalk.plan.plan import Plan

MEMBERS = 50


def choose(case: Case, budget: int, chains: int, energy_variance: float) -> Plan:
    """Chains that begin at a mode with half of the budget; a third of the rest is warm-up."""
    first, rest = parts(budget, chains, 0.5, least=24)
    warmup = max(3, rest // 20)  # it takes twice 3.3 of these steps
    left = rest - 1 - 2 * (3 * warmup + round(warmup / 3))
    thin = max(1, (left // MEMBERS - 1) // 2)
    method = methods.MCLMC(training(case, first), warmup, thin, energy_variance)
    return Plan(method, chains, max(1, left // (1 + 2 * thin)))


MCLMC = Searched.of("mclmc", choose, chains=(2, 4), energy_variance=(5e-4, 5e-5, 5e-3, 5e-2))
