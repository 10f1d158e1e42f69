"""Layers as pure functions: `init_*` makes a dict of parameters, its namesake applies them.

Arrays are (rows, *space, channels). A convolution is written as one product of patches and a matrix, since XLA's own
is several times slower inside the loops of a CPU program, and slow under vmap over members.
"""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from anchorwalk import checks
from anchorwalk.types import Array, Key

Layer = dict[str, Array]
Initializer = Callable[[Key, tuple[int, ...]], Array]
Pads = tuple[tuple[int, int], ...]
"""Zeros before and after, along each axis of space."""

EPSILON = 1e-6
"""What filter response norm adds to the mean square."""


def lecun_normal(key: Key, shape: tuple[int, ...]) -> Array:
    """Truncated-normal with variance 1 / fan-in; the fan-in of a convolution is its window times its channels."""
    return jax.nn.initializers.lecun_normal()(key, shape)


def he_normal(key: Key, shape: tuple[int, ...]) -> Array:
    """Truncated-normal with variance 2 / fan-in."""
    return jax.nn.initializers.he_normal()(key, shape)


def init_dense(key: Key, inputs: int, outputs: int) -> Layer:
    """Parameters of a dense layer."""
    return {"bias": jnp.zeros(outputs), "kernel": lecun_normal(key, (inputs, outputs))}


def dense(params: Layer, x: Array) -> Array:
    """Inputs times the kernel, plus the bias."""
    return x @ params["kernel"] + params["bias"]


def init_conv(key: Key, window: Sequence[int], inputs: int, outputs: int, start: Initializer = lecun_normal) -> Layer:
    """Parameters of a convolution, its kernel of shape (*window, inputs, outputs)."""
    return {"bias": jnp.zeros(outputs), "kernel": start(key, (*window, inputs, outputs))}


def conv(params: Layer, x: Array, stride: int = 1, padding: str = "same") -> Array:
    """A convolution (strictly, a correlation) over as many axes of space as its kernel has.

    Args:
        params: From `init_conv`.
        x: Shape (rows, *space, inputs).
        stride: The same along every axis.
        padding: "valid" for none; "same" for zeros such that the output has ceil(space / stride) places. Where
            their number is odd, the one more stands at the end.

    Returns:
        Shape (rows, *places, outputs).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> params = layers.init_conv(jax.random.key(0), (3, 3), 4, 8)
        >>> layers.conv(params, jnp.zeros((2, 9, 9, 4)), stride=2).shape
        (2, 5, 5, 8)
    """
    kernel = params["kernel"]
    window, space = kernel.shape[:-2], x.shape[1:-1]
    if x.ndim != kernel.ndim or x.shape[-1] != kernel.shape[-2]:
        expected = f"{kernel.ndim} axes, the last of {kernel.shape[-2]} channels"
        checks.reject("conv(x=)", f"shape {x.shape}", expected, "Pass (rows, *space, channels).")
    pads: Pads = tuple((0, 0) for _ in window)
    if checks.choice("conv(padding=)", padding, ("same", "valid")) == "same":
        missing = [max((-(-n // stride) - 1) * stride + k - n, 0) for n, k in zip(space, window, strict=True)]
        pads = tuple((zeros // 2, zeros - zeros // 2) for zeros in missing)
    patches = _patches(x, window, pads, stride)
    return patches @ kernel.reshape(-1, kernel.shape[-1]) + params["bias"]


def _patches(x: Array, window: tuple[int, ...], pads: Pads, stride: int) -> Array:
    """What the window sees at each of its places, as channels: the padded input shifted by each of its offsets."""
    x = jnp.pad(x, ((0, 0), *pads, (0, 0)))
    places = [(n - k) // stride + 1 for n, k in zip(x.shape[1:-1], window, strict=True)]
    shifted = []
    for offsets in product(*map(range, window)):
        cut = [slice(o, o + (n - 1) * stride + 1, stride) for o, n in zip(offsets, places, strict=True)]
        shifted.append(x[(slice(None), *cut)])
    return jnp.concatenate(shifted, axis=-1)


def average_pool(x: Array, size: int) -> Array:
    """Means over windows that do not overlap, along every axis of space; what fills no window is left out.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> layers.average_pool(jnp.arange(5.0).reshape(1, 5, 1), 2).ravel().tolist()
        [0.5, 2.5]
    """
    return _windows(x, size).mean(tuple(range(2, 2 * x.ndim - 3, 2)))


def max_pool(x: Array, size: int) -> Array:
    """Greatest values over windows that do not overlap; values that tie share the gradient in equal parts.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> layers.max_pool(jnp.arange(5.0).reshape(1, 5, 1), 2).ravel().tolist()
        [1.0, 3.0]
    """
    return _windows(x, size).max(tuple(range(2, 2 * x.ndim - 3, 2)))


def _windows(x: Array, size: int) -> Array:
    """Each axis of space as two: which window, and where in it."""
    counts = [n // size for n in x.shape[1:-1]]
    x = x[(slice(None), *(slice(n * size) for n in counts))]
    return x.reshape(x.shape[0], *(part for n in counts for part in (n, size)), x.shape[-1])


def init_filter_response_norm(channels: int) -> Layer:
    """Parameters of a filter response norm: scale one, shift and threshold zero."""
    return {"beta": jnp.zeros(channels), "gamma": jnp.ones(channels), "tau": jnp.zeros(channels)}


def filter_response_norm(params: Layer, x: Array) -> Array:
    """Filter response norm with its threshold (Singh and Krishnan, 2020).

    For each row and channel, y = max(gamma x / sqrt(mean(x^2) + 1e-6) + beta, tau), the mean over space.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> x = jnp.array([3.0, -3.0]).reshape(1, 2, 1, 1)
        >>> layers.filter_response_norm(layers.init_filter_response_norm(1), x).ravel().round(3).tolist()
        [1.0, 0.0]
    """
    square = jnp.mean(jnp.square(x), axis=tuple(range(1, x.ndim - 1)), keepdims=True)
    return jnp.maximum(params["gamma"] * (x * lax.rsqrt(square + EPSILON)) + params["beta"], params["tau"])


def init_lstm(key: Key, inputs: int, cell: int) -> Layer:
    """Parameters of an LSTM: one matrix on input and state together, one bias for each of the four gates."""
    return {"bias": jnp.zeros(4 * cell), "kernel": lecun_normal(key, (inputs + cell, 4 * cell))}


def lstm(params: Layer, x: Array) -> Array:
    """The last hidden state of an LSTM that starts from zeros.

    With (i, g, f, o) = [x_t, h_(t-1)] W + b and s the logistic function,
    c_t = s(f + 1) c_(t-1) + s(i) tanh(g) and h_t = s(o) tanh(c_t). The 1 lets a fresh cell remember.

    Args:
        params: From `init_lstm`.
        x: Shape (rows, time, inputs).

    Returns:
        Shape (rows, cell).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> params = layers.init_lstm(jax.random.key(0), 3, 5)
        >>> layers.lstm(params, jnp.ones((2, 7, 3))).shape
        (2, 5)
    """
    inputs, cell = x.shape[-1], params["bias"].size // 4
    # All time steps' share of the inputs in one product, before the loop.
    driven = jnp.moveaxis(x @ params["kernel"][:inputs] + params["bias"], 1, 0)
    recurrent = params["kernel"][inputs:]

    def step(state: tuple[Array, Array], drive: Array) -> tuple[tuple[Array, Array], None]:
        hidden, memory = state
        i, g, f, o = jnp.split(drive + hidden @ recurrent, 4, axis=-1)
        memory = jax.nn.sigmoid(f + 1) * memory + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(memory), memory), None

    start = jnp.zeros((x.shape[0], cell), driven.dtype)
    (hidden, _), _ = lax.scan(step, (start, start), driven)
    return hidden


def flatten(x: Array) -> Array:
    """One vector a row."""
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def check_rows(network: str, x: Any, shape: tuple[int, ...]) -> None:
    """Refuse inputs whose rows have another shape; shapes are known while tracing."""
    if x.ndim != len(shape) + 1 or x.shape[1:] != shape:
        expected = f"({', '.join(['rows', *map(str, shape)])})"
        checks.reject(
            f"{network}.apply(x=)", f"shape {x.shape}", expected, "Images are (rows, height, width, channels)."
        )
