"""Anchored ensembles (paper, Algorithm 1), planned as in Tables 4 and 5."""

from anchorwalk.benchmark.methods.base import Anchored
from anchorwalk.benchmark.tasks import Case
from anchorwalk.plan.plan import Plan
from anchorwalk.walks import Independent
from anchorwalk.walks.base import Walk


def choose(case: Case, budget: int) -> tuple[Plan, Walk]:
    """Members of 100 epochs, independent anchors."""
    return Plan.paper("ae", budget, case.settings.training("first", 100, case.problem.n)), Independent()


AE = Anchored("ae", choose)
