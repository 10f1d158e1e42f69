"""IVON with several starts."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import batch_of
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import ivon as methods
from anchorwalk.plan.plan import Plan

MEMBERS = 20


def choose(case: Case, budget: int, chains: int, rate: float, b2: float) -> Plan:
    """Chains that share the budget, and draws from each; second derivatives are learned in 1 / (1 - b2) steps."""
    method = methods.IVON(rate, max(1, budget // chains), batch_of(case), b2=b2)
    return Plan(method, chains, MEMBERS)


IVON = Searched.of("ivon", choose, chains=(5, 2), rate=(0.02, 0.1), b2=(0.999, 0.99995))
