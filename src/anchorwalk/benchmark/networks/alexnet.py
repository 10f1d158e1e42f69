"""A small AlexNet: the paper's network for CIFAR-10-C (Table 3)."""

from functools import lru_cache

import jax

from anchorwalk import checks
from anchorwalk.networks import layers
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key

SHAPE = (32, 32, 3)
"""Height, width and channels of an image of CIFAR-10."""
CONVOLUTIONS = ((3, 64), (3, 128), (2, 256), (2, 128), (2, 64))
"""Window and channels of each convolution; a max pool follows the first two."""
POOLED = 2


def alexnet(classes: int = 10, convolution: str = "auto") -> Network:
    """A small AlexNet with swish for images of 32 x 32 x 3; equal arguments give the same functions.

    Convolutions 3x3x64 and 3x3x128, each with a max pool of 2 after its swish; convolutions 2x2x256, 2x2x128 and
    2x2x64; all same; dense 256, 256 and `classes`. Weights start truncated-normal with variance 1 / fan-in, biases
    at zero.

    Args:
        classes: Number of outputs.
        convolution: "patches", "native", or "auto": see `layers.conv`.

    Raises:
        InvalidInput: No number of classes. `apply` refuses images of another shape.

    Example:
        >>> import jax
        >>> from anchorwalk.benchmark.networks import alexnet
        >>> params = jax.eval_shape(alexnet().init, jax.random.key(0))
        >>> sum(leaf.size for leaf in jax.tree.leaves(params))
        1488202
    """
    way = checks.choice("alexnet(convolution=)", convolution, layers.WAYS)
    return _alexnet(checks.count("alexnet(classes=)", classes), way)


@lru_cache
def _alexnet(classes: int, way: str) -> Network:
    side = SHAPE[0] // 2**POOLED
    widths = (side * side * CONVOLUTIONS[-1][1], 256, 256, classes)

    def init(key: Key) -> dict[str, layers.Layer]:
        keys = iter(jax.random.split(key, len(CONVOLUTIONS) + len(widths) - 1))
        params, channels = {}, SHAPE[2]
        for i, (window, filters) in enumerate(CONVOLUTIONS):
            params[f"conv_{i}"] = layers.init_conv(next(keys), (window, window), channels, filters)
            channels = filters
        for i in range(len(widths) - 1):
            params[f"dense_{i}"] = layers.init_dense(next(keys), widths[i], widths[i + 1])
        return params

    def apply(params: dict[str, layers.Layer], x: Array) -> Array:
        layers.check_rows("alexnet", x, SHAPE)
        last = layers.rows_last(way)
        x = layers.turned(x, last)
        for i in range(len(CONVOLUTIONS)):
            x = jax.nn.swish(layers.conv(params[f"conv_{i}"], x, way=way, rows_last=last))
            x = layers.max_pool(x, 2) if i < POOLED else x
        x = layers.flatten(layers.turned(x, last))
        for i in range(len(widths) - 2):
            x = jax.nn.swish(layers.dense(params[f"dense_{i}"], x))
        return layers.dense(params[f"dense_{len(widths) - 2}"], x)

    return Network(init, apply)
