"""Sequential anchored ensembles as `plan_for` plans them, trials paid from the budget."""

from functools import lru_cache

import jax

from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.planner import Planned, plan_for


@lru_cache(maxsize=4)
def planned(case: Case, budget: int) -> Planned:
    """The plan for one key, the same for all runs of a case, and what its trials have spent."""
    return plan_for(jax.random.key(0), case.problem, budget)


def choose(case: Case, budget: int) -> Plan:
    """The plan alone."""
    plan = planned(case, budget).plan
    assert isinstance(plan.method, SAE)
    return Plan(plan.method.evaluating(False), plan.chains, plan.members)


PLANNED = Entry("planned", choose)
