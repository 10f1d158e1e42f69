"""The rotation walk: the exact Hamiltonian flow of a normal turns (position, momentum) by an angle."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks import _each
from anchorwalk.walks.base import WalkInfo, WalkState


@tree.node()
@dataclass(frozen=True)
class Rotation(Settings):
    """Turn each (position, momentum) by `step_size` radians; now and then draw a new momentum.

    Without new momenta a parameter goes round on one circle for ever: its mean is explored at once,
    its spread never. `diagnostics.effective_anchors` sees that.

    Args:
        step_size: Angle of a step in radians, which is its typical length in prior standard deviations.
        refresh: Probability that a parameter's momentum is drawn anew at a step.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Rotation(step_size=0.1, refresh=0.05)
        Rotation(step_size=0.1, refresh=0.05)
    """

    step_size: float
    refresh: float = 0.05

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checks.positive("Rotation(step_size=)", self.step_size))
        object.__setattr__(self, "refresh", checks.within("Rotation(refresh=)", self.refresh, 0, 1))

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position and the first momentum."""
        position_key, momentum_key = jax.random.split(key)
        return WalkState(tree.normal_like(position_key, like), tree.normal_like(momentum_key, like))

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Move each parameter once."""
        cosine, sine = jnp.cos(self.step_size), jnp.sin(self.step_size)

        def move(key: Key, x: Array, p: Array) -> tuple[Array, Array, Array]:
            refresh_key, momentum_key = jax.random.split(key)
            renewed = jax.random.uniform(refresh_key, x.shape, x.dtype) < self.refresh
            p = jnp.where(renewed, jax.random.normal(momentum_key, x.shape, x.dtype), p)
            return cosine * x + sine * p, cosine * p - sine * x, jnp.ones(x.shape, bool)

        return _each.step(move, key, state)
