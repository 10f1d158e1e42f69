"""The guided walk (paper, Algorithm 3): keep the direction until a rejection, then turn round."""

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
class GuidedWalk(Settings):
    """Guided-walk Metropolis-Hastings, one chain and one direction d for each parameter.

    Since the prior is normal, no rejection can occur before the mode is passed, so that small steps
    span the prior in few of them.

    Args:
        step_size: σ_step in prior standard deviations (the paper's is absolute: divide by the prior's scale).

    Raises:
        InvalidInput: A step size that is not above zero.

    Example:
        >>> import anchorwalk as aw
        >>> aw.GuidedWalk(step_size=0.1)
        GuidedWalk(step_size=0.1)
    """

    step_size: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "step_size", checks.positive("GuidedWalk(step_size=)", self.step_size))

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position and the first directions."""
        position_key, direction_key = jax.random.split(key)
        position = tree.normal_like(position_key, like)
        directions = jax.random.rademacher(direction_key, (tree.size(like),))  # Alg. 2, line 3
        return WalkState(position, tree.unravel(directions, position))

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """MH_update of Algorithm 3, for all parameters at once."""

        def move(key: Key, x: Array, d: Array) -> tuple[Array, Array, Array]:
            proposal_key, accept_key = jax.random.split(key)
            z = self.step_size * jax.random.normal(proposal_key, x.shape, x.dtype)
            y = x + d * jnp.abs(z)  # Alg. 3, line 4: transition
            accepted = _each.accept(accept_key, x, y)  # Alg. 3, lines 5-7
            return jnp.where(accepted, y, x), jnp.where(accepted, d, -d), accepted  # Alg. 3, lines 8-10

        return _each.step(move, key, state)


DEFAULT_WALK = GuidedWalk(step_size=0.1)
"""The default walk."""
