"""Anchored or sequential anchored ensembles as `plan_for` plans them, pilots paid from the budget."""

from functools import lru_cache, partial

import jax

from anchorwalk.benchmark.methods.base import Anchored
from anchorwalk.benchmark.tasks import Case
from anchorwalk.plan.pilots import CHAINS
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.planner import plan_for
from anchorwalk.run.runners import Sequential, Vectorized
from anchorwalk.walks import GuidedWalk
from anchorwalk.walks.base import Walk


@lru_cache(maxsize=4)
def choose(case: Case, budget: int, given: bool) -> tuple[Plan, Walk]:
    """The plan of pilots with an optimiser of their own and the authors' walk, the same for all runs of a case."""
    walk = GuidedWalk(step_size=case.settings.relative_step)
    runner = Sequential() if case.side_by_side == 1 else Vectorized(CHAINS)
    at = case.x_test if given else None
    planned = plan_for(jax.random.key(0), case.problem, budget, walk, runner=runner, at=at)
    return planned.plan.evaluating(False), walk


PLANNED = Anchored("planned", partial(choose, given=False))
PLANNED_AT = Anchored("planned_at", partial(choose, given=True))
"""Told the test inputs, not their targets."""
