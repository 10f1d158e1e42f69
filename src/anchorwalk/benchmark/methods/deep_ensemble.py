"""Deep ensembles: the members of an anchored ensemble without anchors."""

from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.deep_ensemble import DeepEnsemble
from anchorwalk.plan.plan import PAPER_CHAINS, Plan


def choose(case: Case, budget: int) -> Plan:
    """As many members as the anchored ensemble, all pulled to the prior's mean."""
    training = case.settings.training("first", 100, case.problem.n)
    return Plan(DeepEnsemble(training), chains=Plan.paper("ae", budget, training).chains)


DEEP_ENSEMBLE = Entry("deep_ensemble", choose, tuple(PAPER_CHAINS))
