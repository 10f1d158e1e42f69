"""The maximum a posteriori estimate: one network that gets the whole budget."""

from anchorwalk import checks
from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import map as methods
from anchorwalk.plan.plan import Plan


def choose(case: Case, budget: int) -> Plan:
    """One member of all the epochs."""
    epochs = checks.count("budget", budget)
    return Plan(methods.MAP(case.settings.training("first", epochs, case.problem.n)))


MAP = Entry("map", choose)
