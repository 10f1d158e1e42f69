"""Fast geometric ensembling: most of the budget for modes, the rest for cycles around them."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import fge as methods
from anchorwalk.plan.plan import Plan

MEMBERS = 10


def choose(case: Case, budget: int, chains: int, factor: float) -> Plan:
    """Chains of one training and ten cycles."""
    first, rest = parts(budget, chains, 0.7)
    cycle = training(case, max(1, rest // MEMBERS), factor, end=None)
    return Plan(methods.FGE(training(case, first), cycle), chains, MEMBERS)


FGE = Searched.of("fge", choose, chains=(3, 1), factor=(0.3, 0.03, 0.1, 1.0))
