"""Random-walk Metropolis-Hastings with normal proposals, the classical form (paper, section 2)."""

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
class RandomWalk(Settings):
    """Propose y = x + step_size * z for each parameter; accept with probability min(p(y) / p(x), 1).

    Args:
        step_size: Standard deviation of the proposal, in prior standard deviations.

    Example:
        >>> import anchorwalk as aw
        >>> aw.RandomWalk(step_size=0.5)
        RandomWalk(step_size=0.5)
    """

    step_size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checks.positive("RandomWalk(step_size=)", self.step_size))

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position."""
        return WalkState(tree.normal_like(key, like), ())

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Move each parameter once."""

        def move(key: Key, x: Array, memory: tuple[()]) -> tuple[Array, tuple[()], Array]:
            proposal_key, accept_key = jax.random.split(key)
            y = x + self.step_size * jax.random.normal(proposal_key, x.shape, x.dtype)
            accepted = _each.accept(accept_key, x, y)
            return jnp.where(accepted, y, x), (), accepted

        return _each.step(move, key, state)
