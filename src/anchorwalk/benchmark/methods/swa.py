"""Stochastic weight averaging: an ensemble of means."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import swa as methods
from anchorwalk.plan.plan import Plan

POINTS = 10


def choose(case: Case, budget: int, chains: int, factor: float) -> Plan:
    """Chains of one training, and ten places after it at a constant rate."""
    first, rest = parts(budget, chains, 0.75, least=POINTS)
    later = rest // POINTS
    start, then = training(case, first + rest % POINTS), training(case, later, factor, end=None)
    return Plan(methods.SWA(start, then, POINTS), chains)


SWA = Searched.of("swa", choose, chains=(3, 5), factor=(0.3, 0.03, 0.1, 1.0))
