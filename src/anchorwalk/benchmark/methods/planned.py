"""Entry or sequential anchored ensembles as `plan_for` plans them, pilots paid from the budget."""

from dataclasses import replace
from functools import lru_cache, partial

import jax

from anchorwalk.benchmark.methods.base import Entry
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.pilots import CHAINS
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.planner import plan_for
from anchorwalk.run.runners import Local
from anchorwalk.walks import GuidedWalk


@lru_cache(maxsize=4)
def choose(case: Case, budget: int, given: bool) -> Plan:
    """The plan of pilots with an optimiser of their own and the authors' walk, the same for all runs of a case."""
    walk = GuidedWalk(step_size=case.settings.relative_step)
    runner = Local(lanes=min(CHAINS, case.side_by_side))
    at = case.x_test if given else None
    planned = plan_for(jax.random.key(0), case.problem, budget, walk, runner=runner, at=at)
    assert isinstance(planned.plan.method, SAE)
    return replace(planned.plan, method=planned.plan.method.evaluating(False))


PLANNED = Entry("planned", partial(choose, given=False))
PLANNED_AT = Entry("planned_at", partial(choose, given=True))
"""Told the test inputs, not their targets."""
