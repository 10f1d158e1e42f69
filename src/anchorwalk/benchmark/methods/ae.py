"""Anchored ensembles (paper, Algorithm 1), planned as in Tables 4 and 5."""

from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.plan.plan import PAPER_CHAINS, Plan


def choose(case: Case, budget: int) -> Plan:
    """Members of 100 epochs, independent anchors."""
    return Plan.paper("ae", budget, case.settings.training("first", 100, case.problem.n))


AE = Entry("ae", choose, tuple(PAPER_CHAINS))
