"""What a walk must offer, looked at before anything runs."""

import jax
import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.types import Walk, WalkInfo, WalkState


def check_walk(walk: Walk) -> Walk:
    """Refuse what cannot be a walk; whether it keeps the normal invariant is for `testing.check_walk`.

    Raises:
        InvalidInput: Something without `init` and `step`, that is no pytree, or that returns something else.
    """
    checks.instance(
        "walk", walk, Walk, "GuidedWalk(step_size=0.1), or your own with init(key, like) and step(key, state)"
    )
    if jax.tree_util.all_leaves([walk]):
        remedy = "Register its class, for example with jax.tree_util.register_dataclass."
        checks.reject("walk", f"a {type(walk).__name__} that is no pytree", "a walk whose numbers are leaves", remedy)
    key, like = jax.random.key(0), {"a": jnp.zeros(2), "b": jnp.zeros((1, 3))}
    state = jax.eval_shape(walk.init, key, like)
    if not isinstance(state, WalkState):
        checks.reject("walk.init", f"a {type(state).__name__}", "a WalkState", "Return WalkState(position, memory).")
    result = jax.eval_shape(walk.step, key, state)
    right = isinstance(result, tuple) and len(result) == 2
    right = right and isinstance(result[0], WalkState) and isinstance(result[1], WalkInfo)
    if not right or getattr(result[1].acceptance, "shape", None) != ():
        expected = "(WalkState, WalkInfo), with one number as the acceptance"
        checks.reject("walk.step", repr(result), expected, "Return WalkState(...), WalkInfo(acceptance).")
    return walk
