"""Layers against other libraries' answers, closed forms and slow twins."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from anchorwalk.errors import InvalidInput
from anchorwalk.networks import layers

EPS = float(jnp.finfo(jnp.float32).eps)
WINDOWS = [(1,), (2,), (3,), (5,), (1, 1), (2, 2), (3, 3), (5, 5), (3, 2)]
FORMS = [("patches", False, 6), ("patches", True, 3), ("patches", True, 6), ("native", False, 3), ("native", True, 3)]
CASES = [(window, "patches", False, 3) for window in WINDOWS]
CASES += [(window, *form) for form in FORMS for window in ((5,), (3, 2))]  # six inputs are more than the four outputs
LAYOUT = {1: ("NWC", "WIO", "NWC"), 2: ("NHWC", "HWIO", "NHWC")}


def normal(seed, *shape):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def lax_conv(kernel, x, stride, padding):
    space = x.ndim - 2
    return lax.conv_general_dilated(x, kernel, (stride,) * space, padding.upper(), dimension_numbers=LAYOUT[space])


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize(("window", "way", "rows_last", "inputs"), CASES)
def test_convolution_and_its_gradients_are_lax_s(window, padding, stride, way, rows_last, inputs):
    space = (7, 6)[: len(window)]  # odd and even: with stride 2, valid leaves places out, same pads unequally
    x, kernel = normal(0, 2, *space, inputs), normal(1, *window, inputs, 4)

    def ours(kernel, x):
        x = layers.turned(x, rows_last)
        found = layers.conv({"kernel": kernel, "bias": jnp.zeros(4)}, x, stride, padding, way, rows_last)
        return layers.turned(found, rows_last)

    def twin(kernel, x):
        return lax_conv(kernel, x, stride, padding)

    out = normal(2, *jax.eval_shape(twin, kernel, x).shape)

    @jax.jit
    def both(kernel, x, out):
        def value_and_gradients(function, kernel, x, out):
            value, pull = jax.vjp(function, kernel, x)
            return value, *pull(out)

        # A sum of n products, in any order, errs by n eps times the sum of their sizes, which is the twin on
        # absolute values; here n is at most all places (2 * 7 * 6) or the window times the channels (5 * 5 * 6).
        sizes = value_and_gradients(twin, jnp.abs(kernel), jnp.abs(x), jnp.abs(out))
        return value_and_gradients(ours, kernel, x, out), value_and_gradients(twin, kernel, x, out), sizes

    for got, expected, size in zip(*both(kernel, x, out), strict=True):
        assert got.shape == expected.shape
        assert np.all(np.abs(got - expected) <= 2 * 150 * EPS * np.asarray(size))
        assert np.abs(expected).max() > 0.1


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("padding", ["SAME", "VALID", ((2, 0), (1, 3))])
def test_a_convolution_to_pass_in_is_lax_s(stride, padding):
    x, kernel = normal(0, 2, 7, 6, 3), normal(1, 3, 2, 3, 4)
    arguments = {"window_strides": (stride, stride), "padding": padding, "dimension_numbers": LAYOUT[2]}
    ours = jax.jit(lambda x, k: layers.conv_general_dilated(x, k, **arguments))
    twin = jax.jit(lambda x, k: lax.conv_general_dilated(x, k, **arguments))
    size = twin(np.abs(x), np.abs(kernel))
    assert np.all(np.abs(ours(x, kernel) - twin(x, kernel)) <= 2 * 18 * EPS * np.asarray(size))
    assert "conv_general_dilated" not in str(jax.make_jaxpr(ours)(x, kernel))


@pytest.mark.parametrize(
    "options",
    [
        {"rhs_dilation": (2, 2)},
        {"feature_group_count": 3},
        {"window_strides": (1, 2)},
        {"precision": lax.Precision.HIGHEST},
        {"dimension_numbers": ("NCHW", "HWIO", "NHWC")},
    ],
)
def test_what_is_no_plain_convolution_goes_to_lax(options):
    groups = options.get("feature_group_count", 1)
    first = "dimension_numbers" in options
    x, kernel = normal(0, 2, 3, 7, 6) if first else normal(0, 2, 7, 6, 3), normal(1, 3, 2, 3 // groups, 6)
    arguments = {"window_strides": (1, 1), "padding": "SAME", "dimension_numbers": LAYOUT[2]} | options
    expected = lax.conv_general_dilated(x, kernel, **arguments)
    np.testing.assert_array_equal(layers.conv_general_dilated(x, kernel, **arguments), expected)


@pytest.mark.parametrize("inputs", [6, 20])
@pytest.mark.parametrize("outputs", [1, 2, 3, 4])
def test_dense_and_its_gradients_are_a_product(outputs, inputs):
    """However many outputs, under vmap over members, rows in one stack or two."""
    x, kernel, bias = normal(0, 3, 2, 5, inputs), normal(1, 3, inputs, outputs), normal(2, 3, outputs)
    out = normal(3, 3, 2, 5, outputs)

    def value_and_gradients(function, *arguments):
        def one(kernel, bias, x, out):
            value, pull = jax.vjp(function, kernel, bias, x)
            return value, *pull(out)

        return jax.vmap(one)(*arguments)

    def ours(kernel, bias, x):
        return layers.dense({"kernel": kernel, "bias": bias}, x)

    def twin(kernel, bias, x):
        return jnp.einsum("abi,io->abo", x, kernel) + bias

    sizes = value_and_gradients(twin, *map(np.abs, (kernel, bias, x, out)))
    got, expected = (value_and_gradients(function, kernel, bias, x, out) for function in (ours, twin))
    for one, other, size in zip(got, expected, sizes, strict=True):
        assert np.all(np.abs(one - other) <= 2 * 21 * EPS * np.asarray(size))  # sums of at most 21 terms


def test_convolution_adds_its_bias():
    params = {"kernel": jnp.zeros((2, 2, 3, 2)), "bias": jnp.array([1.0, -2.0])}
    np.testing.assert_array_equal(layers.conv(params, normal(0, 1, 4, 4, 3))[0, 1, 2], [1.0, -2.0])


@pytest.mark.parametrize("shape", [(2, 4, 4, 5), (2, 4, 3)])
def test_convolution_refuses_other_channels_and_axes(shape):
    params = jax.eval_shape(lambda key: layers.init_conv(key, (2, 2), 3, 4), jax.random.key(0))
    with pytest.raises(InvalidInput, match=r"got shape \(2, 4, .*expected 4 axes, the last of 3 channels"):
        jax.eval_shape(layers.conv, params, jax.ShapeDtypeStruct(shape, jnp.float32))


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("space", [(7,), (7, 6)])
def test_pools_are_windows_of_lax(space, size):
    x = normal(0, 2, *space, 3)
    window = (1, *(size,) * len(space), 1)
    greatest = lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
    total = lax.reduce_window(x, 0.0, lax.add, window, window, "VALID")
    np.testing.assert_array_equal(layers.max_pool(x, size), greatest)
    # Means of at most 9 numbers below 4 in size.
    np.testing.assert_allclose(layers.average_pool(x, size), total / size ** len(space), rtol=0, atol=2 * 9 * 4 * EPS)


def test_gradients_of_pools():
    x = jnp.array([[3.0, 1.0], [3.0, 0.0]]).reshape(1, 2, 2, 1)
    greatest = jax.grad(lambda x: layers.max_pool(x, 2).sum())(x)
    np.testing.assert_array_equal(greatest.ravel(), [0.5, 0.0, 0.5, 0.0])  # two that tie: half each
    mean = jax.grad(lambda x: layers.average_pool(x, 2).sum())(x)
    np.testing.assert_array_equal(mean.ravel(), [0.25] * 4)


def test_filter_response_norm_is_its_formula():
    x = normal(0, 3, 5, 4, 2) * np.array([1.0, 1e-3], np.float32)  # in the second channel eps and mean square are alike
    params = {"gamma": np.array([0.7, -1.3]), "beta": np.array([0.2, -0.1]), "tau": np.array([0.1, -0.5])}
    square = (x.astype(np.float64) ** 2).mean((1, 2), keepdims=True)
    expected = np.maximum(params["gamma"] * x / np.sqrt(square + 1e-6) + params["beta"], params["tau"])
    got = layers.filter_response_norm({name: jnp.float32(value) for name, value in params.items()}, x)
    # Values below 8 after some 20 additions and a handful of roundings.
    np.testing.assert_allclose(got, expected, rtol=0, atol=8 * 30 * EPS)
    assert 0 < (got == np.float32([0.1, -0.5])).mean() < 1  # the threshold holds for some, not for all


def test_filter_response_norm_starts_with_threshold_zero():
    got = layers.filter_response_norm(layers.init_filter_response_norm(2), normal(0, 3, 5, 4, 2))
    assert got.min() == 0 < got.max()


def test_lstm_is_a_plain_loop():
    rows, time, inputs, cell = 3, 6, 4, 5
    x, kernel, bias = normal(0, rows, time, inputs), normal(1, inputs + cell, 4 * cell), normal(2, 4 * cell)

    def sigmoid(a):
        return 1 / (1 + np.exp(-a))

    hidden, memory = np.zeros((2, rows, cell))
    for t in range(time):
        gates = np.concatenate([x[:, t], hidden], axis=1) @ kernel.astype(np.float64) + bias
        write, new, keep, show = np.split(gates, 4, axis=1)
        memory = sigmoid(keep + 1) * memory + sigmoid(write) * np.tanh(new)
        hidden = sigmoid(show) * np.tanh(memory)
    got = layers.lstm({"kernel": jnp.asarray(kernel), "bias": jnp.asarray(bias)}, x)
    # A step rounds sums of 10 terms below 4 (1e-5) and may double what it got; 6 steps: below 1e-5 * 2^6.
    np.testing.assert_allclose(got, hidden, rtol=0, atol=6.4e-4)
    assert np.abs(hidden).max() > 0.3


@pytest.mark.parametrize(("start", "variance"), [(layers.lecun_normal, 1.0), (layers.he_normal, 2.0)])
def test_kernels_start_with_their_variance_over_fan_in_and_truncated(start, variance):
    kernel = layers.init_conv(jax.random.key(0), (3, 5), 8, 1000, start)["kernel"].ravel()
    deviation = np.sqrt(variance / (3 * 5 * 8))
    # 120,000 draws: their variance errs by a share of sqrt(2 / n) = 0.4% at most (truncated draws have lighter tails).
    assert np.var(kernel) / deviation**2 == pytest.approx(1.0, abs=5 * 0.0041)
    assert np.abs(kernel).max() <= 2 * deviation / 0.8796 * 1.001  # two of the normal's deviations before truncation
    assert np.abs(kernel).max() > 2 * deviation
