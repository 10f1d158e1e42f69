"""The paper's networks: sizes, shapes, what they refuse, and LeNet against a twin of lax convolutions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.benchmark import networks
from anchorwalk.errors import InvalidInput

EPS = float(jnp.finfo(jnp.float32).eps)
IMAGES = [
    (networks.lenet5, 7, (28, 28, 3)),
    (networks.alexnet, 10, (32, 32, 3)),
    (networks.resnet20, 10, (32, 32, 3)),
]


def params_like(network):
    return jax.eval_shape(network.init, jax.random.key(0))


def size(network):
    return sum(leaf.size for leaf in jax.tree.leaves(params_like(network)))


def conv(window, inputs, outputs):
    return window * inputs * outputs + outputs


def test_sizes():
    assert size(networks.lenet5()) == 61_751
    assert size(networks.alexnet()) == 1_488_202
    assert size(networks.resnet20()) == 274_042


def test_size_of_the_lstm_network_by_hand():
    embedding, gates, last = 20_000 * 128, 4 * 128, 128 * 2 + 2
    lstm = (64 + 128) * gates + gates  # one bias for each gate, not one each for input and state
    assert size(networks.cnn_lstm()) == embedding + conv(5, 128, 64) + lstm + last == 2_700_098


def test_size_of_the_residual_network_by_hand():
    def normed(window, inputs, outputs):
        return conv(window, inputs, outputs) + 3 * outputs

    def stack(inputs, outputs):
        shortcut = normed(1, inputs, outputs) if inputs != outputs else 0
        return normed(9, inputs, outputs) + 5 * normed(9, outputs, outputs) + shortcut

    expected = normed(9, 3, 16) + stack(16, 16) + stack(16, 32) + stack(32, 64) + 64 * 10 + 10
    assert size(networks.resnet20()) == expected


def test_leaves_have_names():
    names = {path for path, _ in tree.named_leaves(params_like(networks.resnet20()))}
    assert {"conv_0/kernel", "norm_0/tau", "block_0/conv_1/bias", "block_3/shortcut/norm_0/gamma"} <= names
    assert not any(name.startswith("block_4/shortcut") for name in names)
    names = {path for path, _ in tree.named_leaves(params_like(networks.cnn_lstm()))}
    assert names == {"embedding", *(f"{k}/{p}" for k in ("conv_0", "lstm", "dense_0") for p in ("kernel", "bias"))}


@pytest.mark.parametrize(("make", "classes", "shape"), IMAGES)
def test_shapes_of_outputs(make, classes, shape):
    for network, outputs in ((make(), classes), (make(classes=4), 4)):
        x = jax.ShapeDtypeStruct((5, *shape), jnp.float32)
        assert jax.eval_shape(network.apply, params_like(network), x).shape == (5, outputs)


@pytest.mark.parametrize("dtype", [jnp.uint16, jnp.int32])
def test_shape_of_the_lstm_networks_output(dtype):
    network = networks.cnn_lstm()
    x = jax.ShapeDtypeStruct((5, 100), dtype)
    assert jax.eval_shape(network.apply, params_like(network), x).shape == (5, 2)


def test_equal_arguments_give_the_same_functions():
    assert networks.alexnet() is networks.alexnet(classes=10)
    assert networks.resnet20() is networks.resnet20(classes=10)
    assert networks.cnn_lstm() is networks.cnn_lstm(words=20_000, classes=2)
    assert networks.lenet5(7, [28, 28, 3]) is networks.lenet5()
    assert networks.lenet5(3) is not networks.lenet5(4)


@pytest.mark.parametrize(("make", "classes", "shape"), IMAGES)
@pytest.mark.parametrize("wrong", [(1, 28, 28, 1), (1, 3, 32, 32), (28, 28, 3), (2, 3072)])
def test_images_of_another_shape_are_refused_while_tracing(make, classes, shape, wrong):
    network = make()
    expected = rf"{make.__name__}.apply\(x=\): got shape \({wrong[0]}, .*expected \(rows, {shape[0]}, {shape[1]}, 3\)"
    with pytest.raises(InvalidInput, match=expected):
        jax.eval_shape(network.apply, params_like(network), jax.ShapeDtypeStruct(wrong, jnp.float32))


@pytest.mark.parametrize(
    ("shape", "dtype", "given"), [((2, 100), jnp.float32, "float32"), ((2, 7), jnp.int32, "7"), ((9,), jnp.int32, "9")]
)
def test_rows_that_are_no_words_are_refused(shape, dtype, given):
    network = networks.cnn_lstm()
    with pytest.raises(InvalidInput, match=rf"got .*{given}.*expected integers of shape \(rows, 8 words or more\)"):
        jax.eval_shape(network.apply, params_like(network), jax.ShapeDtypeStruct(shape, dtype))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: networks.lenet5(0), r"lenet5\(classes=\): got 0"),
        (lambda: networks.lenet5(shape=(11, 28, 3)), r"lenet5\(shape=\): got 11.*at least 12"),
        (lambda: networks.lenet5(shape=(28, 28)), r"expected \(height, width, channels\)"),
        (lambda: networks.alexnet(2.0), r"alexnet\(classes=\).*Pass 2, without the point"),
        (lambda: networks.resnet20(classes=-1), r"resnet20\(classes=\)"),
        (lambda: networks.cnn_lstm(pool=0), r"cnn_lstm\(pool=\): got 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def lenet_twin(params, x):
    """LeNet-5 with the convolutions and windows of lax."""
    for i, padding in enumerate(("SAME", "VALID")):
        layer = params[f"conv_{i}"]
        x = lax.conv_general_dilated(x, layer["kernel"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
        x = jnp.maximum(x + layer["bias"], 0)
        x = lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") / 4
    x = x.reshape(len(x), -1)
    for i in range(3):
        x = x @ params[f"dense_{i}"]["kernel"] + params[f"dense_{i}"]["bias"]
        x = jnp.maximum(x, 0) if i < 2 else x
    return x


@pytest.fixture(scope="module")
def lenet():
    """A network with biases that are not zero, some images, and the outputs."""
    network = networks.lenet5()
    params = network.init(jax.random.key(0))
    params = jax.tree.map(lambda leaf: leaf + 0.1 if leaf.ndim == 1 else leaf, params)
    x = jax.random.uniform(jax.random.key(1), (6, 28, 28, 3))
    return jax.jit(network.apply), params, x, jax.jit(network.apply)(params, x)


# Five layers of sums of up to 400 terms of order one; roundings are random, so a layer adds some sqrt(400) eps.
TOLERANCE = 5 * 20 * EPS


def test_lenet_is_its_twin(lenet):
    _, params, x, outputs = lenet
    np.testing.assert_allclose(outputs, jax.jit(lenet_twin)(params, x), rtol=0, atol=TOLERANCE)
    assert np.ptp(np.asarray(outputs), axis=0).max() > 100 * TOLERANCE  # rows differ by far more than that


@pytest.mark.parametrize(("convolution", "recorded"), [("native", "native"), ("auto", "patches or none")])
def test_the_way_of_convolving_is_recorded_with_the_run(convolution, recorded):
    network = networks.lenet5(2, (12, 12, 1), convolution)
    data = (np.zeros((2, 12, 12, 1), np.float32), np.zeros(2, int))
    problem = aw.Problem(network.init, network.apply, aw.Categorical(), aw.Prior(scale=0.1), data=data)
    plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.1), epochs=1, batch_size=2, evaluate=False)))
    assert aw.sample(jax.random.key(0), problem, plan, callbacks=[]).settings["convolution"] == recorded


def test_rows_do_not_see_each_other(lenet):
    apply, params, x, outputs = lenet
    halves = [apply(params, half) for half in jnp.split(x, 2)]
    np.testing.assert_allclose(outputs, jnp.concatenate(halves), rtol=0, atol=TOLERANCE)


def test_members_side_by_side_are_members_alone(lenet):
    apply, params, x, outputs = lenet
    two = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf * 0.5]), params)
    both = jax.jit(jax.vmap(apply, in_axes=(0, None)))(two, x)
    np.testing.assert_allclose(both[0], outputs, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(both[1], apply(tree.lane(two, 1), x), rtol=0, atol=TOLERANCE)


def lax_conv(layer, x, stride=1):
    layout = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, layer["kernel"], (stride,) * 2, "SAME", dimension_numbers=layout) + layer["bias"]


def swish(x):
    return x / (1 + jnp.exp(-x))


def alexnet_twin(params, x):
    for i in range(5):
        x = swish(lax_conv(params[f"conv_{i}"], x))
        if i < 2:
            x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = x.reshape(len(x), -1)
    for i in range(3):
        x = x @ params[f"dense_{i}"]["kernel"] + params[f"dense_{i}"]["bias"]
        x = swish(x) if i < 2 else x
    return x


def resnet_twin(params, x):
    def normed(params, i, x, stride=1):
        y, norm = lax_conv(params[f"conv_{i}"], x, stride), params[f"norm_{i}"]
        y = y / jnp.sqrt((y**2).mean((1, 2), keepdims=True) + 1e-6)
        return jnp.maximum(norm["gamma"] * y + norm["beta"], norm["tau"])

    x = swish(normed(params, 0, x))
    for i in range(9):
        block, stride = params[f"block_{i}"], 2 if i in (3, 6) else 1
        y = normed(block, 1, swish(normed(block, 0, x, stride)))
        x = swish(y + (normed(block["shortcut"], 0, x, 2) if stride == 2 else x))
    return x.mean((1, 2)) @ params["dense_0"]["kernel"] + params["dense_0"]["bias"]


@pytest.mark.parametrize(
    ("network", "twin"),
    [
        pytest.param(networks.alexnet(), alexnet_twin, id="alex"),
        pytest.param(networks.resnet20(), resnet_twin, id="res", marks=pytest.mark.slow),
    ],
)
def test_deeper_networks_are_their_twins_and_every_parameter_counts(network, twin):
    start = network.init(jax.random.key(0))
    # Away from the start, where biases, shifts and thresholds are zero.
    params = jax.tree.map(lambda leaf, noise: leaf + 0.1 * noise, start, tree.normal_like(jax.random.key(2), start))
    x = jax.random.normal(jax.random.key(1), (2, 32, 32, 3))

    def loss(params):
        outputs = network.apply(params, x)
        return jnp.sum(jnp.sin(outputs)), outputs

    (_, outputs), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(params)
    expected = jax.jit(twin)(params, x)
    # Up to 20 layers of sums of up to 4096 terms; roundings are random, so a layer adds some sqrt(4096) eps.
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=20 * 64 * EPS * float(np.abs(expected).max()))
    for path, leaf in tree.named_leaves(gradient):
        assert np.isfinite(leaf).all(), path
        assert np.abs(leaf).max() > 0, path


@pytest.fixture(scope="module")
def sentences():
    """A small network over words, some sentences, its outputs and their gradient."""
    network = networks.cnn_lstm(words=30, embedding=4, filters=3, width=2, pool=2, cell=5)
    params = network.init(jax.random.key(0))
    x = jax.random.randint(jax.random.key(1), (3, 9), 0, 20)

    @jax.jit
    def run(params, x):
        return network.apply(params, x), jax.grad(lambda p: jnp.sum(network.apply(p, x) ** 2))(params)

    return run, params, x


def test_only_words_that_occur_get_a_gradient(sentences):
    run, params, x = sentences
    _, gradient = run(params, x)
    assert all(np.abs(leaf).max() > 0 for leaf in jax.tree.leaves(gradient))
    touched = np.flatnonzero(np.abs(gradient["embedding"]).sum(1))
    assert set(touched) <= set(np.unique(x))


def test_outputs_of_words_follow_from_the_layers(sentences):
    run, params, x = sentences
    outputs, _ = run(params, x)
    words = np.asarray(params["embedding"], np.float64)[np.asarray(x)]
    kernel = np.asarray(params["conv_0"]["kernel"], np.float64)
    seen = np.maximum(words[:, :-1] @ kernel[0] + words[:, 1:] @ kernel[1], 0)  # 8 places
    pooled = np.maximum(seen[:, ::2], seen[:, 1::2])
    hidden = aw.networks.layers.lstm(params["lstm"], jnp.float32(pooled))
    expected = hidden @ params["dense_0"]["kernel"] + params["dense_0"]["bias"]
    # Outputs below 2 of sums of at most 8 terms, in three layers and four steps.
    np.testing.assert_allclose(outputs, expected, rtol=0, atol=2 * 8 * 7 * EPS)


@pytest.mark.parametrize("word", [30, -1])
def test_a_number_that_is_no_word_is_not_read_as_another(sentences, word):
    run, params, x = sentences
    outputs, _ = run(params, x.at[1, 4].set(word))
    assert np.isnan(outputs).tolist() == [[False, False], [True, True], [False, False]]


def test_the_embedding_starts_as_a_truncated_standard_normal():
    embedding = networks.cnn_lstm(words=1000).init(jax.random.key(0))["embedding"]
    assert 1.9 < np.abs(embedding).max() <= 2
    # The variance of a standard normal cut off at two is 1 - 4 phi(2) / (2 Phi(2) - 1) = 0.7737; of 128,000 draws' it
    # errs by a share of 0.4% at most.
    assert np.var(embedding) == pytest.approx(0.7737, rel=5 * 0.004)
