"""Layers as pure functions: `init_*` makes a dict of parameters, its namesake applies them.

Arrays are (rows, *space, channels), or with `rows_last` (channels, *space, rows). On a CPU a convolution is a product
of patches and a matrix, since XLA's own is several times slower inside the loops of a CPU program, and slow under vmap
over members; there rows stand last, so that the long axis is the one that is vectorised, however few channels there
are. On other platforms XLA's own convolution is used, rows first.
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
WAYS = ("auto", "patches", "native")
"""How a convolution can be computed."""
FEW = 4
"""Channels up to which patches are made along one axis only."""
FEW_INPUTS = 16
"""Inputs of a dense layer up to which its bias is a row of its kernel."""
NARROW = (2, 3)
"""Outputs of a dense layer that are computed one by one."""


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
    """Inputs times the kernel, plus the bias.

    On a CPU, with two or three outputs each is a product with a vector: XLA is two to five times slower at products and
    gradients with a matrix so narrow (docs/speed.md). With few inputs the bias is one more row of the kernel there, so
    that its gradient comes with the kernel's.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> layers.dense({"bias": jnp.ones(2), "kernel": jnp.eye(2)}, jnp.zeros((3, 2))).shape
        (3, 2)
    """
    kernel, bias = params["kernel"], params["bias"]
    if kernel.shape[1] in NARROW and on_cpu():
        return jnp.stack([x @ kernel[:, i] for i in range(kernel.shape[1])], axis=-1) + bias
    if kernel.shape[0] <= FEW_INPUTS and on_cpu():
        ones = jnp.ones((*x.shape[:-1], 1), x.dtype)
        return jnp.concatenate([x, ones], axis=-1) @ jnp.concatenate([kernel, bias[None]])
    return x @ kernel + bias


def init_conv(key: Key, window: Sequence[int], inputs: int, outputs: int, start: Initializer = lecun_normal) -> Layer:
    """Parameters of a convolution, its kernel of shape (*window, inputs, outputs)."""
    return {"bias": jnp.zeros(outputs), "kernel": start(key, (*window, inputs, outputs))}


def conv(
    params: Layer, x: Array, stride: int = 1, padding: str = "same", way: str = "auto", rows_last: bool = False
) -> Array:
    """A convolution (strictly, a correlation) over as many axes of space as its kernel has.

    Args:
        params: From `init_conv`.
        x: Shape (rows, *space, inputs), or (inputs, *space, rows) with `rows_last`.
        stride: The same along every axis.
        padding: "valid" for none; "same" for zeros such that the output has ceil(space / stride) places. Where
            their number is odd, the one more stands at the end.
        way: "patches", "native" for XLA's own, or "auto": patches on a CPU, native elsewhere.
        rows_last: How the axes of `x` and of the result stand.

    Returns:
        Shape (rows, *places, outputs), or (outputs, *places, rows).

    Example:
        >>> import jax, jax.numpy as jnp
        >>> from anchorwalk.networks import layers
        >>> params = layers.init_conv(jax.random.key(0), (3, 3), 4, 8)
        >>> layers.conv(params, jnp.zeros((2, 9, 9, 4)), stride=2).shape
        (2, 5, 5, 8)
    """
    kernel = params["kernel"]
    window, space = kernel.shape[:-2], x.shape[1:-1]
    channels = x.shape[0 if rows_last else -1]
    if x.ndim != kernel.ndim or channels != kernel.shape[-2]:
        which = "first" if rows_last else "last"
        expected = f"{kernel.ndim} axes, the {which} of {kernel.shape[-2]} channels"
        order = "(channels, *space, rows)" if rows_last else "(rows, *space, channels)"
        checks.reject("conv(x=)", f"shape {x.shape}", expected, f"Pass {order}.")
    pads: Pads = tuple((0, 0) for _ in window)
    if checks.choice("conv(padding=)", padding, ("same", "valid")) == "same":
        missing = [max((-(-n // stride) - 1) * stride + k - n, 0) for n, k in zip(space, window, strict=True)]
        pads = tuple((zeros // 2, zeros - zeros // 2) for zeros in missing)
    native = checks.choice("conv(way=)", way, WAYS) == "native" or (way == "auto" and not on_cpu())
    function = _native if native else _product_rows_last if rows_last else _product
    return function(x, kernel, pads, stride, rows_last) + of_channels(params["bias"], x.ndim, rows_last)


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Sequence[int],
    padding: Any,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    out_sharding: Any = None,
) -> Array:
    """`jax.lax.conv_general_dilated` by way of patches on a CPU, for frameworks that let a convolution be passed in.

    Flax does, in Linen and NNX: `Conv(..., conv_general_dilated=anchorwalk.networks.conv_general_dilated)`. What is not
    a plain convolution of (rows, *space, channels) with a kernel (*window, inputs, outputs), one stride for all axes
    and no dilation or groups goes to `jax.lax`, and so does everything on other platforms.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.networks import conv_general_dilated
        >>> numbers = ("NHWC", "HWIO", "NHWC")
        >>> conv_general_dilated(jnp.ones((1, 5, 5, 2)), jnp.ones((3, 3, 2, 4)), (1, 1), "SAME",
        ...                      dimension_numbers=numbers).shape
        (1, 5, 5, 4)
    """
    space = "DHW"[-(lhs.ndim - 2) :]
    plain = lax.conv_dimension_numbers(lhs.shape, rhs.shape, (f"N{space}C", f"{space}IO", f"N{space}C"))
    given = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    dilated = any(one != 1 for dilation in (lhs_dilation, rhs_dilation) for one in dilation or ())
    grouped = feature_group_count != 1 or batch_group_count != 1
    typed = precision is not None or preferred_element_type is not None or lhs.dtype != rhs.dtype
    placed = out_sharding is not None
    if given != plain or dilated or grouped or typed or placed or len(set(window_strides)) != 1 or not on_cpu():
        return lax.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            dimension_numbers,
            feature_group_count,
            batch_group_count,
            precision,
            preferred_element_type,
            out_sharding,
        )
    pads = padding
    if isinstance(padding, str):
        pads = lax.padtype_to_pads(lhs.shape[1:-1], rhs.shape[:-2], window_strides, padding)
    return _product(lhs, rhs, tuple(map(tuple, pads)), window_strides[0], False)


def on_cpu() -> bool:
    """Whether programs run on a CPU."""
    return jax.default_backend() == "cpu"


def rows_last(way: str = "auto") -> bool:
    """Whether a network's maps should have their rows last: where convolutions are patches."""
    return way == "patches" or (way == "auto" and on_cpu())


def turned(x: Array, rows_last: bool) -> Array:
    """Images (rows, *space, channels) in the order of axes of the network's maps, and such maps as they were."""
    return jnp.swapaxes(x, 0, -1) if rows_last else x


def of_channels(vector: Array, ndim: int, rows_last: bool) -> Array:
    """A number for each channel, such that it can be added to maps."""
    return vector.reshape(-1, *(1,) * (ndim - 1)) if rows_last else vector


def _native(x: Array, kernel: Array, pads: Pads, stride: int, rows_last: bool) -> Array:
    space = "DHW"[-(x.ndim - 2) :]
    maps = f"C{space}N" if rows_last else f"N{space}C"
    numbers = (maps, f"{space}IO", maps)
    return lax.conv_general_dilated(x, kernel, (stride,) * len(space), pads, dimension_numbers=numbers)


def _product(x: Array, kernel: Array, pads: Pads, stride: int, rows_last: bool) -> Array:
    inputs, outputs = kernel.shape[-2:]
    x = jnp.pad(x, ((0, 0), *pads, (0, 0))) if any(map(any, pads)) else x
    if outputs < inputs and stride == 1:
        return _gathered(x @ jnp.moveaxis(kernel, -2, 0).reshape(inputs, -1), kernel.shape[:-2], -1)
    return _patches(x, kernel.shape[:-2], stride, -1) @ kernel.reshape(-1, outputs)


def _product_rows_last(x: Array, kernel: Array, pads: Pads, stride: int, rows_last: bool) -> Array:
    """The matrix from the left, so that places and rows together are the long axis of the product.

    With few channels, patches are made along the last axis of space alone and one product is added for each offset
    along the first: less is written for as little work.
    """
    window, outputs = kernel.shape[:-2], kernel.shape[-1]
    x = jnp.pad(x, ((0, 0), *pads, (0, 0))) if any(map(any, pads)) else x
    places = [(n - k) // stride + 1 for n, k in zip(x.shape[1:-1], window, strict=True)]

    def times(matrix: Array, patches: Array) -> Array:
        return matrix.reshape(-1, outputs).T @ patches.reshape(patches.shape[0], -1)

    if len(window) == 2 and stride == 1 and kernel.shape[-2] <= FEW:
        strips = _patches(x, (1, window[1]), 1, 0)
        parts = [times(kernel[i], strips[:, i : i + places[0]]) for i in range(window[0])]
        return sum(parts[1:], parts[0]).reshape(outputs, *places, x.shape[-1])
    if outputs < kernel.shape[-2] and stride == 1:
        spread = jnp.moveaxis(kernel, -2, -1).reshape(-1, kernel.shape[-2]) @ x.reshape(x.shape[0], -1)
        return _gathered(spread.reshape(-1, *x.shape[1:]), window, 0)
    return times(kernel, _patches(x, window, stride, 0)).reshape(outputs, *places, x.shape[-1])


def _gathered(spread: Array, window: tuple[int, ...], axis: int) -> Array:
    """The sum of what every place gives to each of the window's offsets, which stand as channels.

    Where there are fewer outputs than inputs these products are smaller than patches would be.
    """
    parts = jnp.split(spread, math.prod(window), axis=axis)
    shifted = []
    for offsets, part in zip(product(*map(range, window)), parts, strict=True):
        cut = [slice(o, n - k + 1 + o) for o, n, k in zip(offsets, part.shape[1:-1], window, strict=True)]
        shifted.append(part[(slice(None), *cut)])
    return sum(shifted[1:], shifted[0])


def _patches(x: Array, window: tuple[int, ...], stride: int, axis: int) -> Array:
    """What the window sees at each of its places, as channels: the input shifted by each of the window's offsets."""
    places = [(n - k) // stride + 1 for n, k in zip(x.shape[1:-1], window, strict=True)]
    shifted = []
    for offsets in product(*map(range, window)):
        cut = [slice(o, o + (n - 1) * stride + 1, stride) for o, n in zip(offsets, places, strict=True)]
        shifted.append(x[(slice(None), *cut)])
    return jnp.concatenate(shifted, axis=axis) if len(shifted) > 1 else shifted[0]


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


def filter_response_norm(params: Layer, x: Array, rows_last: bool = False) -> Array:
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
    gamma, beta, tau = (of_channels(params[name], x.ndim, rows_last) for name in ("gamma", "beta", "tau"))
    return jnp.maximum(gamma * (x * lax.rsqrt(square + EPSILON)) + beta, tau)


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
