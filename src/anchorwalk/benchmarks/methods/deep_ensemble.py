"""Deep ensembles: the members of an anchored ensemble without anchors."""

from anchorwalk.benchmarks.methods.base import Anchored
from anchorwalk.benchmarks.tasks import Case
from anchorwalk.ensembles import Plan
from anchorwalk.ensembles.baselines import AtMean
from anchorwalk.types import Walk


def choose(case: Case, budget: int) -> tuple[Plan, Walk]:
    """As many members as the anchored ensemble, all pulled to the prior's mean."""
    return Plan.paper("ae", budget, case.settings.training("first", 100, case.problem.n)), AtMean()


DEEP_ENSEMBLE = Anchored("deep_ensemble", choose)
