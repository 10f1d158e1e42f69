"""ResNet-20 with filter response norm and swish: the paper's network for CIFAR-10 (Table 3)."""

from functools import lru_cache
from typing import Any

import jax

from anchorwalk import checks
from anchorwalk.networks import layers
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Key

SHAPE = (32, 32, 3)
"""Height, width and channels of an image of CIFAR-10."""
CHANNELS = (16, 16, 16, 32, 32, 32, 64, 64, 64)
"""Channels of each residual block; where they grow, a block has stride 2 and a convolution on its shortcut."""


def resnet20(classes: int = 10, convolution: str = "auto") -> Network:
    """ResNet-20 for images of 32 x 32 x 3, with no batch statistics; equal arguments give the same functions.

    A convolution 3x3x16; nine residual blocks of two 3x3 convolutions, three each with 16, 32 and 64 channels; the
    mean over space; a dense layer. Blocks 3 and 6 have stride 2 and a 1x1 convolution on the shortcut. Every
    convolution has a bias and a filter response norm after it; swish stands after the norm of the first convolution
    and of each block's first, and after each block's sum. Convolutions start truncated-normal with variance
    2 / fan-in, the dense layer with 1 / fan-in, biases at zero.

    Args:
        classes: Number of outputs.
        convolution: "patches", "native", or "auto": see `layers.conv`.

    Raises:
        InvalidInput: No number of classes. `apply` refuses images of another shape.

    Example:
        >>> import jax
        >>> from anchorwalk.benchmark.networks import resnet20
        >>> params = jax.eval_shape(resnet20().init, jax.random.key(0))
        >>> sum(leaf.size for leaf in jax.tree.leaves(params))
        274042
    """
    way = checks.choice("resnet20(convolution=)", convolution, layers.WAYS)
    return _resnet20(checks.count("resnet20(classes=)", classes), way)


@lru_cache
def _resnet20(classes: int, way: str) -> Network:
    before = (CHANNELS[0], *CHANNELS[:-1])

    def init(key: Key) -> dict[str, Any]:
        first, last, *keys = jax.random.split(key, len(CHANNELS) + 2)
        params: dict[str, Any] = _init_layer(first, 0, 3, SHAPE[2], CHANNELS[0])
        for i, (inputs, outputs) in enumerate(zip(before, CHANNELS, strict=True)):
            params[f"block_{i}"] = _init_block(keys[i], inputs, outputs)
        params["dense_0"] = layers.init_dense(last, CHANNELS[-1], classes)
        return params

    def apply(params: dict[str, Any], x: Array) -> Array:
        layers.check_rows("resnet20", x, SHAPE)
        last = layers.rows_last(way)
        x = jax.nn.swish(_layer(params, 0, layers.turned(x, last), 1, way, last))
        for i, (inputs, outputs) in enumerate(zip(before, CHANNELS, strict=True)):
            x = _block(params[f"block_{i}"], x, 1 if inputs == outputs else 2, way, last)
        return layers.dense(params["dense_0"], layers.turned(x.mean((1, 2)), last))

    return Network(init, apply)


def _init_layer(key: Key, index: int, window: int, inputs: int, outputs: int) -> dict[str, Any]:
    return {
        f"conv_{index}": layers.init_conv(key, (window, window), inputs, outputs, layers.he_normal),
        f"norm_{index}": layers.init_filter_response_norm(outputs),
    }


def _layer(params: dict[str, Any], index: int, x: Array, stride: int, way: str, last: bool) -> Array:
    x = layers.conv(params[f"conv_{index}"], x, stride, "same", way, last)
    return layers.filter_response_norm(params[f"norm_{index}"], x, last)


def _init_block(key: Key, inputs: int, outputs: int) -> dict[str, Any]:
    keys = jax.random.split(key, 3)
    params = _init_layer(keys[0], 0, 3, inputs, outputs) | _init_layer(keys[1], 1, 3, outputs, outputs)
    return params if inputs == outputs else params | {"shortcut": _init_layer(keys[2], 0, 1, inputs, outputs)}


def _block(params: dict[str, Any], x: Array, stride: int, way: str, last: bool) -> Array:
    y = jax.nn.swish(_layer(params, 0, x, stride, way, last))
    y = _layer(params, 1, y, 1, way, last)
    return jax.nn.swish((_layer(params["shortcut"], 0, x, stride, way, last) if "shortcut" in params else x) + y)
