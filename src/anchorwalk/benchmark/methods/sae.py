"""Sequential anchored ensembles (paper, Algorithm 2), planned as in Tables 4 and 5."""

from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.plan.plan import PAPER_CHAINS, Plan
from anchorwalk.walks import GuidedWalk


def choose(case: Case, budget: int) -> Plan:
    """Chains of one long and many short trainings, anchors from the guided walk with the authors' step."""
    settings, rows = case.settings, case.problem.n
    first = settings.training("first", 100, rows)
    then = settings.training("then", settings.later_epochs, rows)
    walk = GuidedWalk(step_size=settings.relative_step)
    return Plan.paper("sae", budget, first, then, later_epochs=settings.later_epochs, walk=walk)


SAE = Entry("sae", choose, tuple(PAPER_CHAINS))
