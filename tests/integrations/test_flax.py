"""Linen and NNX: what is taken, what is switched off and what is refused; convolutions that are passed in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import DropoutWarning, InvalidInput
from helpers import leaves_equal

pytest.importorskip("flax", exc_type=ImportError)
from flax import linen as nn
from flax import nnx

EPS = np.finfo(np.float32).eps
X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
KEY = jax.random.key(0)


def shape_of(network, x):
    return jax.eval_shape(network.apply, jax.eval_shape(network.init, KEY), x).shape


class Plain(nn.Module):
    width: int = 4
    others: tuple | list = ()

    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.tanh(nn.Dense(self.width)(x)))


class Dropped(nn.Module):
    deterministic: bool | None = False

    @nn.compact
    def __call__(self, x, train=True):
        deterministic = self.deterministic if train else True
        return nn.Dense(2)(nn.Dropout(0.5)(nn.Dense(4)(x), deterministic=deterministic))


class Attentive(nn.Module):
    @nn.compact
    def __call__(self, x, deterministic=False):
        attention = nn.MultiHeadDotProductAttention(2, dropout_rate=0.3, qkv_features=4)
        return attention(x[:, None], deterministic=deterministic)[:, 0]


class Normed(nn.Module):
    running: bool | None = None

    @nn.compact
    def __call__(self, x):
        return nn.BatchNorm(use_running_average=self.running)(nn.Dense(2)(x))


class Counting(nn.Module):
    @nn.compact
    def __call__(self, x):
        count = self.variable("counts", "calls", lambda: jnp.zeros(()))
        return nn.Dense(2)(x) + count.value


class TestLinen:
    def test_equal_modules_share_their_functions(self):
        one, other = (aw.from_flax(Plain(4), X[:n]) for n in (1, 5))
        assert one.init is other.init
        assert one.apply is other.apply
        assert aw.from_flax(Plain(5), X).apply is not one.apply

    def test_modules_that_cannot_be_compared_are_taken_too(self):
        network = aw.from_flax(Plain(4, [nn.relu]), X)
        assert shape_of(network, X) == (5, 1)

    @pytest.mark.parametrize("deterministic", [False, None])
    def test_dropout_is_off(self, deterministic):
        with pytest.warns(DropoutWarning, match="dropout is switched off"):
            network = aw.from_flax(Dropped(deterministic), X)
        params = network.init(KEY)
        assert leaves_equal(params, Dropped(True).init(KEY, X)["params"])
        np.testing.assert_array_equal(network.apply(params, X), Dropped(True).apply({"params": params}, X))
        with pytest.warns(DropoutWarning):  # each time, though the functions are kept
            assert aw.from_flax(Dropped(deterministic), X).apply is network.apply

    def test_dropout_that_is_off_already_is_no_matter(self):
        assert aw.from_flax(Dropped(True), X).apply is not aw.from_flax(Dropped(), X, train=False).apply

    def test_random_numbers_are_refused_unless_they_are_switched_off(self):
        with pytest.raises(InvalidInput, match=r"dropout.*deterministic=True"):
            aw.from_flax(Attentive(), np.zeros((2, 4)))
        network = aw.from_flax(Attentive(), np.zeros((2, 4)), deterministic=True)
        assert shape_of(network, np.ones((3, 4))) == (3, 4)

    @pytest.mark.parametrize("running", [True, False, None])
    def test_batch_norm_is_refused(self, running):
        with pytest.raises(InvalidInput, match=r"batch normalisation in Normed.*no parameters.*rows.*LayerNorm"):
            aw.from_flax(Normed(running), X)

    def test_batch_statistics_of_other_layers_are_refused(self):
        class Spectral(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.SpectralNorm(nn.Dense(2))(x, update_stats=False)

        with pytest.raises(InvalidInput, match=r"'batch_stats' in Spectral.*GroupNorm"):
            aw.from_flax(Spectral(), X)

    def test_other_state_is_refused(self):
        with pytest.raises(InvalidInput, match=r"'counts' in Counting.*change nothing"):
            aw.from_flax(Counting(), X)

    def test_partitioned_parameters_are_plain(self):
        boxed = nn.Dense(2, kernel_init=nn.with_partitioning(nn.initializers.lecun_normal(), (None, "model")))
        network = aw.from_flax(boxed, X)
        params = network.init(KEY)
        assert leaves_equal(params, nn.Dense(2).init(KEY, X)["params"])
        np.testing.assert_array_equal(network.apply(params, X), nn.Dense(2).apply({"params": params}, X))

    def test_inputs_that_are_trees(self):
        class Two(nn.Module):
            @nn.compact
            def __call__(self, x):
                return nn.Dense(1)(x["a"]) + nn.Embed(5, 1)(x["b"])

        x = {"a": X, "b": np.arange(5)}
        network = aw.from_flax(Two(), x)
        assert sorted(jax.eval_shape(network.init, KEY)) == ["Dense_0", "Embed_0"]
        assert shape_of(network, x) == (5, 1)


class Tower(nnx.Module):
    """Layers in a list, more than ten of them: places are numbers, whose order is not that of text."""

    def __init__(self, rngs, depth=11):
        self.layers = nnx.List([nnx.Linear(3, 3, rngs=rngs) for _ in range(depth)])

    def __call__(self, x):
        for layer in self.layers:
            x = nnx.tanh(layer(x))
        return x


class DroppedX(nnx.Module):
    def __init__(self, rngs, deterministic=False):
        self.linear = nnx.Linear(3, 4, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, deterministic=deterministic, rngs=rngs)

    def __call__(self, x):
        return self.dropout(self.linear(x))


class NoisyX(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.rngs = nnx.Linear(3, 4, rngs=rngs), rngs.fork()

    def __call__(self, x):
        return self.linear(x) + jax.random.normal(self.rngs.noise(), (4,))


class NormedX(nnx.Module):
    def __init__(self, rngs):
        self.norm = nnx.BatchNorm(3, rngs=rngs)

    def __call__(self, x):
        return self.norm(x)


class CountingX(nnx.Module):
    def __init__(self, rngs):
        self.linear, self.count = nnx.Linear(3, 4, rngs=rngs), nnx.Variable(jnp.zeros(()))

    def __call__(self, x):
        return self.linear(x) + self.count[...]


class NamedX(nnx.Module):
    def __init__(self, *, rngs):
        self.linear = nnx.Linear(3, 2, rngs=rngs)

    def __call__(self, x):
        return self.linear(x)


class TestNNX:
    def test_the_same_maker_shares_its_functions(self):
        assert aw.from_flax(Tower, X).apply is aw.from_flax(Tower, X[:1]).apply

    def test_layers_in_a_list_keep_their_order(self):
        network = aw.from_flax(Tower, X)
        params = network.init(KEY)
        model = Tower(nnx.Rngs(KEY))
        for i, layer in enumerate(model.layers):
            np.testing.assert_array_equal(params["layers"][str(i)]["kernel"], layer.kernel[...])
        np.testing.assert_array_equal(network.apply(params, X), model(X))

    def test_arguments_by_name_only(self):
        params = jax.eval_shape(aw.from_flax(NamedX, X).init, KEY)
        assert params["linear"]["kernel"].shape == (3, 2)

    def test_shared_parameters_are_there_once(self):
        class Tied(nnx.Module):
            def __init__(self, rngs):
                self.one = nnx.Linear(3, 3, rngs=rngs)
                self.other = self.one

            def __call__(self, x):
                return self.other(nnx.tanh(self.one(x)))

        network = aw.from_flax(Tied, X)
        params = network.init(KEY)
        assert list(params) == ["one"]
        expected = jnp.tanh(X @ params["one"]["kernel"]) @ params["one"]["kernel"]
        np.testing.assert_allclose(network.apply(params, X), expected, rtol=0, atol=1e-5)

    def test_dropout_is_off(self):
        with pytest.warns(DropoutWarning, match="dropout is switched off"):
            network = aw.from_flax(DroppedX, X)
        params = network.init(KEY)
        assert list(params) == ["linear"]
        model = DroppedX(nnx.Rngs(KEY))
        model.eval()
        np.testing.assert_array_equal(network.apply(params, X), model(X))

    def test_dropout_that_is_off_already_is_no_matter(self):
        network = aw.from_flax(lambda rngs: DroppedX(rngs, deterministic=True), X)
        assert shape_of(network, X) == (5, 4)

    def test_random_numbers_are_refused(self):
        with pytest.raises(InvalidInput, match="draws random numbers"):
            aw.from_flax(NoisyX, X)

    def test_batch_norm_is_refused(self):
        with pytest.raises(InvalidInput, match=r"batch statistics at 'norm/mean', 'norm/var'.*LayerNorm"):
            aw.from_flax(NormedX, X)

    def test_other_state_is_refused(self):
        with pytest.raises(InvalidInput, match=r"no nnx.Param at 'count'.*Make it nnx.Param"):
            aw.from_flax(CountingX, X)

    def test_an_instance_is_refused_with_the_remedy(self):
        with pytest.raises(InvalidInput, match=r"made already, of type Tower.*own initialisation.*lambda rngs"):
            aw.from_flax(Tower(nnx.Rngs(0)), X)


@pytest.mark.parametrize(
    ("module", "x", "message"),
    [
        (Plain, X, r"the class Plain.*Plain\(\.\.\.\), with brackets"),
        (3, X, "a Linen module, or a function"),
        (lambda rngs: 3, X, "returns int"),
        (lambda rngs: 1 / 0, X, "ZeroDivisionError"),
        (Plain(), 1.0, "leading axis of rows"),
        (Plain(), [[1.0, 2.0]], "leading axis of rows"),
        (lambda rngs: nnx.Linear(7, 2, rngs=rngs), X, r"works on one row.*take rows of shape \(3,\)"),
    ],
)
def test_what_is_no_model_is_refused(module, x, message):
    with pytest.raises(InvalidInput, match=message):
        aw.from_flax(module, x)


def linen_conv(passed):
    return nn.Conv(4, (3, 2), **passed)


def nnx_conv(passed):
    return lambda rngs: nnx.Conv(3, 4, (3, 2), rngs=rngs, **passed)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (linen_conv, {}),
        (linen_conv, {"strides": 2}),
        (linen_conv, {"padding": "CIRCULAR"}),
        (nnx_conv, {}),
        (nnx_conv, {"padding": "VALID", "strides": 2}),
    ],
)
def test_a_convolution_that_is_passed_in_is_flax_s_own(make, options):
    """Outputs and gradients, for each of three members side by side."""
    x, like = np.random.default_rng(0).normal(size=(2, 7, 6, 3)).astype(np.float32), np.zeros((1, 7, 6, 3))
    own = aw.from_flax(make(options), like)
    ours = aw.from_flax(make(options | {"conv_general_dilated": aw.networks.conv_general_dilated}), like)

    def value_and_gradients(apply, params, x):
        value, pull = jax.vjp(apply, params, x)
        # Any numbers do for the cotangents; these are of both signs.
        return value, *pull(jnp.sign(jnp.sum(x)) * jnp.cos(jnp.arange(value.size)).reshape(value.shape))

    def sizes(params, x):
        """Sums of the sizes of all products: Flax's own on absolute values."""
        params, x = jax.tree.map(jnp.abs, (params, x))
        value, pull = jax.vjp(own.apply, params, x)
        return value, *pull(jnp.ones_like(value))

    @jax.jit
    @jax.vmap
    def all_three(key):
        params = own.init(key)
        return value_and_gradients(ours.apply, params, x), value_and_gradients(own.apply, params, x), sizes(params, x)

    # A sum of n products in any order errs by n eps times the sum of their sizes; n is at most all places and rows.
    found, expected, size = map(jax.tree.leaves, all_three(jax.random.split(KEY, 3)))
    for one, other, bound in zip(found, expected, size, strict=True):
        assert one.shape[0] == 3
        assert np.all(np.abs(one - other) <= 2 * 84 * EPS * np.asarray(bound))
    assert len(found) == 4
    params = jax.eval_shape(own.init, KEY)
    traced = [str(jax.make_jaxpr(network.apply)(params, x)) for network in (ours, own)]
    assert ["conv_general_dilated" in text for text in traced] == [False, True]
