"""Anchored ensembles (paper, Algorithm 1), planned as in Tables 4 and 5."""

from anchorwalk.benchmarks.methods.base import Anchored
from anchorwalk.benchmarks.tasks import Case
from anchorwalk.ensembles import Plan
from anchorwalk.types import Walk
from anchorwalk.walks import Independent


def choose(case: Case, budget: int) -> tuple[Plan, Walk]:
    """Members of 100 epochs, independent anchors."""
    return Plan.paper("ae", budget, case.settings.training("first", 100, case.problem.n)), Independent()


AE = Anchored("ae", choose)
