"""Independent draws: every anchor is a new draw from the prior, as in Algorithm 1."""

from dataclasses import dataclass

import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.serial import Settings
from anchorwalk.types import Key, Params
from anchorwalk.walks.base import WalkInfo, WalkState


@tree.node()
@dataclass(frozen=True)
class Independent(Settings):
    """No walk at all: the next anchor is independent of the last.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Independent()
        Independent()
    """

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position."""
        return WalkState(tree.normal_like(key, like), ())

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Draw anew."""
        return WalkState(tree.normal_like(key, state.position), ()), WalkInfo(jnp.ones(()))
