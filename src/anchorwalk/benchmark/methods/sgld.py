"""Stochastic gradient Langevin dynamics from trained starts."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import batch_of, parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import sgld as methods
from anchorwalk.plan.plan import Plan

MEMBERS = 50


def choose(case: Case, budget: int, chains: int, step_size: float) -> Plan:
    """Chains that begin at a mode, for which they have 0.7 of the budget."""
    first, rest = parts(budget, chains, 0.7)
    thin = max(1, rest // MEMBERS)
    method = methods.SGLD(training(case, first), step_size, thin=thin, batch_size=batch_of(case))
    return Plan(method, chains, rest // thin)


SGLD = Searched.of("sgld", choose, chains=(2, 4), step_size=(1e-7, 1e-8, 1e-6, 1e-5))
