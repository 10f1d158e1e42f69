"""The autoregressive (Crank-Nicolson) walk: exact for a normal, so nothing is ever rejected."""

import math
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
class Autoregressive(Settings):
    """x' = sqrt(1 - step_size^2) x + step_size z for each parameter.

    Args:
        step_size: Standard deviation of the new part, in prior standard deviations, at most 1 (at 1 the
            draws are independent).

    Example:
        >>> import anchorwalk as aw
        >>> aw.Autoregressive(step_size=0.6).correlation
        0.8
    """

    step_size: float

    def __post_init__(self) -> None:
        name = "Autoregressive(step_size=)"
        size = checks.positive(name, self.step_size)
        object.__setattr__(self, "step_size", checks.within(name, size, 0, 1))

    @property
    def correlation(self) -> float:
        """Correlation of a parameter's anchor with its next."""
        return math.sqrt(1 - self.step_size**2)

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position."""
        return WalkState(tree.normal_like(key, like), ())

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Move each parameter once."""

        def move(key: Key, x: Array, memory: tuple[()]) -> tuple[Array, tuple[()], Array]:
            new = jax.random.normal(key, x.shape, x.dtype)
            return jnp.sqrt(1 - self.step_size**2) * x + self.step_size * new, (), jnp.ones(x.shape, bool)

        return _each.step(move, key, state)
