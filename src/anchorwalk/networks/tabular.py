"""Perceptrons for the columns of tables, which learn how much each column counts and how smooth they are."""

from collections.abc import Sequence
from functools import lru_cache

import jax
import jax.numpy as jnp

from anchorwalk.networks import layers
from anchorwalk.networks.mlp import mlp
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key, Params


def tabular(inputs: int, hidden: Sequence[int], outputs: int) -> Network:
    """A multilayer perceptron whose inputs are weighed and whose units are as smooth as the data ask for.

    Beside the layers of `mlp` it has a `gate` for each input, which is multiplied by exp(gate / 2), and a `sharpness`
    for each hidden layer, whose units are h * sigmoid(exp(sharpness) * h): SiLU at 0, nearly ReLU from 3 on. The prior
    decides how much is learned of both: with a small scale around 0 they stay there. Equal arguments give the same
    functions, and so the same compiled programs.

    Args:
        inputs: Number of features.
        hidden: Units of each hidden layer.
        outputs: Number of outputs.

    Example:
        >>> import anchorwalk as aw, jax
        >>> network = aw.networks.tabular(8, (50,), 2)
        >>> sum(leaf.size for leaf in jax.tree.leaves(network.init(jax.random.key(0))))
        561
    """
    return _tabular(mlp(inputs, hidden, outputs), inputs, len(hidden))


@lru_cache
def _tabular(perceptron: Network, inputs: int, hidden: int) -> Network:
    def init(key: Key) -> Params:
        start = {**perceptron.init(key), "gate": jnp.zeros(inputs)}
        return start | {"sharpness": jnp.zeros(hidden)} if hidden else start

    def apply(params: Params, x: Array) -> Array:
        x = layers.dense(params["dense_0"], x * jnp.exp(params["gate"] / 2))
        for i in range(hidden):
            x = x * jax.nn.sigmoid(jnp.exp(params["sharpness"][i]) * x)
            x = layers.dense(params[f"dense_{i + 1}"], x)
        return x

    return Network(init, apply)
