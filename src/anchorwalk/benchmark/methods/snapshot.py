"""Snapshot ensembles: cycles of one length."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import snapshot as methods
from anchorwalk.plan.plan import Plan


def choose(case: Case, budget: int, chains: int, members: int, factor: float) -> Plan:
    """Chains of so many cycles, whose first rate is so many times that of a training of that length."""
    cycle = max(1, sum(parts(budget, chains, 0.5)) // members)
    return Plan(methods.Snapshot(training(case, cycle, factor)), chains, members)


SNAPSHOT = Searched.of("snapshot", choose, chains=(1, 2), members=(3, 6), factor=(1.0, 2.0))
