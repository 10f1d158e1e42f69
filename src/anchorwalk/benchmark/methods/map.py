"""The maximum a posteriori estimate: one network that gets the whole budget."""

from anchorwalk import checks
from anchorwalk.benchmark.methods.base import Anchored
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.deep_ensemble import AtMean
from anchorwalk.plan.plan import Plan
from anchorwalk.walks.base import Walk


def choose(case: Case, budget: int) -> tuple[Plan, Walk]:
    """One member of all the epochs."""
    epochs = checks.count("budget", budget)
    return Plan(chains=1, members=1, first=case.settings.training("first", epochs, case.problem.n)), AtMean()


MAP = Anchored("map", choose)
