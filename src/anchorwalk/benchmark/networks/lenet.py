"""LeNet-5: the paper's network for DermaMNIST (Table 3)."""

from functools import lru_cache

import jax

from anchorwalk import checks
from anchorwalk.networks import layers
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key

LEAST = 12
"""Pixels along an axis from which something is left after both convolutions and pools."""


def lenet5(classes: int = 7, shape: tuple[int, int, int] = (28, 28, 3), convolution: str = "auto") -> Network:
    """LeNet-5 with ReLU; equal arguments give the same functions, and so the same compiled programs.

    Convolution 5x5x6 same, average pool 2, convolution 5x5x16 valid, average pool 2, dense 120, 84 and `classes`.
    Weights start truncated-normal with variance 1 / fan-in, biases at zero.

    Args:
        classes: Number of outputs.
        shape: Height, width and channels of an image.
        convolution: "patches", "native", or "auto": see `layers.conv`.

    Raises:
        InvalidInput: A shape that is no image of at least 12 x 12 pixels. `apply` refuses images of another shape.

    Example:
        >>> import jax
        >>> from anchorwalk.benchmark.networks import lenet5
        >>> network = lenet5(classes=7)
        >>> sum(leaf.size for leaf in jax.tree.leaves(network.init(jax.random.key(0))))
        61751
    """
    if not isinstance(shape, tuple | list) or len(shape) != 3:
        checks.reject("lenet5(shape=)", repr(shape), "(height, width, channels)", "Pass (28, 28, 3).")
    height, width = (checks.count("lenet5(shape=)", pixels, least=LEAST) for pixels in shape[:2])
    channels = checks.count("lenet5(shape=)", shape[2])
    way = checks.choice("lenet5(convolution=)", convolution, layers.WAYS)
    return _lenet5(checks.count("lenet5(classes=)", classes), (height, width, channels), way)


@lru_cache
def _lenet5(classes: int, shape: tuple[int, int, int], way: str) -> Network:
    height, width = ((pixels // 2 - 4) // 2 for pixels in shape[:2])

    def init(key: Key) -> dict[str, layers.Layer]:
        keys = jax.random.split(key, 5)
        return {
            "conv_0": layers.init_conv(keys[0], (5, 5), shape[2], 6),
            "conv_1": layers.init_conv(keys[1], (5, 5), 6, 16),
            "dense_0": layers.init_dense(keys[2], height * width * 16, 120),
            "dense_1": layers.init_dense(keys[3], 120, 84),
            "dense_2": layers.init_dense(keys[4], 84, classes),
        }

    def apply(params: dict[str, layers.Layer], x: Array) -> Array:
        layers.check_rows("lenet5", x, shape)
        last = layers.rows_last(way)
        x = layers.turned(x, last)
        x = layers.average_pool(jax.nn.relu(layers.conv(params["conv_0"], x, 1, "same", way, last)), 2)
        x = layers.average_pool(jax.nn.relu(layers.conv(params["conv_1"], x, 1, "valid", way, last)), 2)
        x = layers.flatten(layers.turned(x, last))
        x = jax.nn.relu(layers.dense(params["dense_0"], x))
        x = jax.nn.relu(layers.dense(params["dense_1"], x))
        return layers.dense(params["dense_2"], x)

    return Network(init, apply)
