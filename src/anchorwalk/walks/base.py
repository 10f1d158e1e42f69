"""What a walk is, and the check that something is one before anything runs."""

from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.types import Array, Key, Params


class WalkState(NamedTuple):
    """Where a walk stands.

    Attributes:
        position: (anchor - prior mean) / prior scale; every walk lives on the standard normal.
        memory: Directions, momentum, or `()`.
    """

    position: Params
    memory: Any


class WalkInfo(NamedTuple):
    """What a reader wants to know of a step: the share of parameters whose proposal was accepted."""

    acceptance: Array


@runtime_checkable
class Walk(Protocol):
    """A Markov chain for each parameter that leaves the standard normal invariant.

    A walk is a pytree: its step sizes are leaves, so that another step size compiles nothing. Positions are
    float32 at least, whatever the parameters are. `anchorwalk.testing.check_walk` runs the contract on your own.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, anchorwalk as aw
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Mixing:
        ...     share: float
        ...
        ...     def init(self, key, like):
        ...         leaves, structure = jax.tree.flatten(like)
        ...         keys = jax.random.split(key, len(leaves))
        ...         drawn = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves)]
        ...         return aw.WalkState(jax.tree.unflatten(structure, drawn), ())
        ...
        ...     def step(self, key, state):
        ...         new = self.init(key, state.position).position
        ...         mix = lambda old, new: jnp.sqrt(1 - self.share) * old + jnp.sqrt(self.share) * new
        ...         position = jax.tree.map(mix, state.position, new)
        ...         return aw.WalkState(position, ()), aw.WalkInfo(jnp.ones(()))
        >>> aw.testing.check_walk(Mixing(share=0.1))
    """

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position from the standard normal, shaped like `like`, which may be shapes alone."""
        ...

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Move each parameter once."""
        ...


def validate_walk(walk: Walk) -> Walk:
    """Refuse what cannot be a walk; whether it keeps the normal invariant is for `testing.check_walk`.

    Raises:
        InvalidInput: Something without `init` and `step`, that is no pytree, or that returns something else.
    """
    checks.instance(
        "walk", walk, Walk, "GuidedWalk(step_size=0.1), or your own with init(key, like) and step(key, state)"
    )
    checks.pytree("walk", walk, "a walk")
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
