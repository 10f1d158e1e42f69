"""A walk is a move of one number, made for each parameter by itself and for all at once (paper, section 2)."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.types import Array, Key
from anchorwalk.walks.base import WalkInfo, WalkState

Move = Callable[[Key, Array, Any], tuple[Array, Any, Array]]
"""From key, a vector of positions and their memory to new positions, new memory, and which were accepted."""


def step(move: Move, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
    """Make `move` on all parameters as one vector, which compiles faster than leaf by leaf.

    The memory is either `()` or a tree that matches the positions.
    """
    stateless = not jax.tree.leaves(state.memory)
    memory = () if stateless else tree.ravel(state.memory)
    position, memory, accepted = move(key, tree.ravel(state.position), memory)
    after = WalkState(tree.unravel(position, state.position), () if stateless else tree.unravel(memory, state.memory))
    return after, WalkInfo(jnp.mean(accepted, dtype=jnp.float32))


def accept(key: Key, position: Array, proposal: Array) -> Array:
    """Metropolis-Hastings on the standard normal: u < p(y) / p(x), for each parameter.

    Where |y| <= |x| the exponent is not negative, also in floating point, and u < 1 always accepts.
    """
    ratio = jnp.exp(0.5 * (position - proposal) * (position + proposal))
    return jax.random.uniform(key, position.shape, position.dtype) < ratio
