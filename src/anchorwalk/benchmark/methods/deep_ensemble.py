"""Deep ensembles: the members of an anchored ensemble without anchors."""

from anchorwalk.benchmark.methods.base import Anchored
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.deep_ensemble import AtMean
from anchorwalk.plan.plan import Plan
from anchorwalk.walks.base import Walk


def choose(case: Case, budget: int) -> tuple[Plan, Walk]:
    """As many members as the anchored ensemble, all pulled to the prior's mean."""
    return Plan.paper("ae", budget, case.settings.training("first", 100, case.problem.n)), AtMean()


DEEP_ENSEMBLE = Anchored("deep_ensemble", choose)
