"""Multilayer perceptrons; one hidden layer of 50 is the paper's network for UCI-Gap (Table 3)."""

from collections.abc import Callable, Sequence
from functools import lru_cache

import jax

from anchorwalk import checks
from anchorwalk.networks import layers
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key


def mlp(
    inputs: int, hidden: Sequence[int], outputs: int, activation: Callable[[Array], Array] = jax.nn.relu
) -> Network:
    """A fully connected network; equal arguments give the same functions, and so the same compiled programs.

    Weights start truncated-normal with variance 1 / fan-in, biases at zero.

    Args:
        inputs: Number of features.
        hidden: Units of each hidden layer.
        outputs: Number of outputs.
        activation: Applied after each hidden layer.

    Example:
        >>> import anchorwalk as aw, jax
        >>> network = aw.networks.mlp(8, (50,), 2)
        >>> sum(leaf.size for leaf in jax.tree.leaves(network.init(jax.random.key(0))))
        552
    """
    if not isinstance(hidden, Sequence):
        checks.reject("mlp(hidden=)", repr(hidden), "the units of each hidden layer", "Pass (50,) for one layer of 50.")
    widths = [checks.count("mlp(inputs=)", inputs)]
    widths += [checks.count("mlp(hidden=)", width) for width in hidden]
    widths.append(checks.count("mlp(outputs=)", outputs))
    return _mlp(tuple(widths), activation)


@lru_cache
def _mlp(widths: tuple[int, ...], activation: Callable[[Array], Array]) -> Network:
    def init(key: Key) -> dict[str, layers.Layer]:
        keys = jax.random.split(key, len(widths) - 1)
        return {f"dense_{i}": layers.init_dense(keys[i], widths[i], widths[i + 1]) for i in range(len(widths) - 1)}

    def apply(params: dict[str, layers.Layer], x: Array) -> Array:
        for i in range(len(widths) - 1):
            x = layers.dense(params[f"dense_{i}"], x)
            x = activation(x) if i < len(widths) - 2 else x
        return x

    return Network(init, apply)
