"""Draws from normal distributions over all parameters, for the methods that fit one around a mode."""

from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.types import Array, Key, Params


def flat(values: Any, like: Any, dtype: Any) -> Array:
    """A tree of numbers or arrays, such as a prior's scales, as a vector with an element for each of `like`'s."""
    wide = jax.tree.map(lambda value, leaf: jnp.broadcast_to(value, leaf.shape), values, like)
    return tree.ravel(wide).astype(dtype)


def draw(key: Key, mean: Params, scale: Any = 0.0, factors: Array | None = None) -> Params:
    """A draw from N(mean, diag(scale²) + F Fᵀ).

    Args:
        key: For the draw.
        mean: The mean.
        scale: One number, or a vector of one for each parameter, in the order of `tree.ravel`.
        factors: F, of the shape (parameters, rank), or None for a diagonal covariance.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from anchorwalk.methods.gaussian import draw
        >>> found = draw(jax.random.key(0), {"w": jnp.ones(2)}, factors=jnp.ones((2, 1)))["w"]
        >>> bool(found[0] == found[1])
        True
    """
    plain_key, low_key = jax.random.split(key)
    vector = tree.ravel(jax.tree.map(lambda leaf: leaf.astype(tree.precise(leaf.dtype)), mean))
    vector = vector + scale * jax.random.normal(plain_key, vector.shape, vector.dtype)
    if factors is not None:
        vector = vector + factors @ jax.random.normal(low_key, factors.shape[1:], factors.dtype)
    return tree.unravel(vector, mean, tree.precise)
