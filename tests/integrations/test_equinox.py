"""Equinox: what is taken, what is switched off and what is refused."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import DropoutWarning, InvalidInput

eqx = pytest.importorskip("equinox", exc_type=ImportError)

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
KEY = jax.random.key(0)


def linear(key):
    return eqx.nn.Linear(3, 2, key=key)


class Dropped(eqx.Module):
    linear: eqx.nn.Linear
    dropout: eqx.nn.Dropout

    def __init__(self, key, inference=False):
        self.linear = eqx.nn.Linear(3, 2, key=key)
        self.dropout = eqx.nn.Dropout(0.5, inference=inference)

    def __call__(self, x, *, key=None):
        return self.dropout(self.linear(x), key=key)


class Numbered(eqx.Module):
    weight: jax.Array
    order: jax.Array

    def __call__(self, x):
        return x[self.order] @ self.weight


def test_the_same_maker_shares_its_functions():
    assert aw.from_equinox(linear).apply is aw.from_equinox(linear).apply
    assert aw.from_equinox(linear).apply is not aw.from_equinox(linear, vmap=False).apply


def test_a_maker_may_take_its_key_by_name():
    network = aw.from_equinox(functools.partial(eqx.nn.Linear, 3, 2))
    np.testing.assert_array_equal(network.init(KEY)["weight"], linear(KEY).weight)


def test_rows_are_mapped_over_unless_that_is_switched_off():
    class Rows(eqx.Module):
        weight: jax.Array

        def __call__(self, x):
            assert x.ndim == 2
            return x @ self.weight

    network = aw.from_equinox(lambda key: Rows(jax.random.normal(key, (3, 2))), vmap=False)
    params = network.init(KEY)
    np.testing.assert_array_equal(network.apply(params, X), X @ params["weight"])
    single = aw.from_equinox(linear)
    params = single.init(KEY)
    one_by_one = np.stack([linear(KEY)(row) for row in X])
    # Sums of four numbers of order one, in any order.
    np.testing.assert_allclose(single.apply(params, X), one_by_one, rtol=0, atol=8 * np.finfo(np.float32).eps)


def test_dropout_is_off():
    with pytest.warns(DropoutWarning, match="dropout is switched off"):
        network = aw.from_equinox(Dropped)
    params = network.init(KEY)
    assert list(params) == ["linear"]
    np.testing.assert_array_equal(network.apply(params, X), jax.vmap(Dropped(KEY, inference=True))(X))


def test_dropout_that_does_nothing_is_no_matter():
    network = aw.from_equinox(lambda key: Dropped(key, inference=True))
    assert jax.eval_shape(network.apply, jax.eval_shape(network.init, KEY), X).shape == (5, 2)
    attention = aw.from_equinox(lambda key: eqx.nn.MultiheadAttention(1, 3, key=key), vmap=False)
    assert len(jax.eval_shape(attention.init, KEY)) == 4


def test_further_arguments_are_passed_on():
    class Keyed(eqx.Module):
        weight: jax.Array

        def __call__(self, x, *, key):
            assert key is None
            return x @ self.weight

    network = aw.from_equinox(lambda key: Keyed(jax.random.normal(key, (3,))), key=None)
    assert network.apply(network.init(KEY), X).shape == (5,)


def test_whole_numbers_are_constants():
    network = aw.from_equinox(lambda key: Numbered(jax.random.normal(key, (3,)), jnp.array([2, 0, 1])))
    params = network.init(KEY)
    assert list(params) == ["weight"]
    np.testing.assert_allclose(network.apply(params, X), X[:, [2, 0, 1]] @ params["weight"], rtol=1e-5, atol=1e-6)


def test_numpy_arrays_are_constants():
    network = aw.from_equinox(lambda key: Numbered(jax.random.normal(key, (3,)), np.array([2, 0, 1])))
    assert list(network.init(KEY)) == ["weight"]
    table = np.arange(3.0, dtype=np.float32)
    network = aw.from_equinox(lambda key: Numbered(table, jnp.arange(3)))
    assert network.init(KEY) == {}
    np.testing.assert_allclose(network.apply({}, X), X @ table, rtol=0, atol=1e-5)


def test_random_whole_numbers_are_refused():
    with pytest.raises(InvalidInput, match="random arrays that are not of floats"):
        aw.from_equinox(lambda key: Numbered(jnp.ones(3), jax.random.permutation(key, 3)))


def with_batch_norm(key):
    return eqx.nn.Sequential([linear(key), eqx.nn.BatchNorm(2, axis_name="batch", mode="ema")])


def with_spectral_norm(key):
    return eqx.nn.SpectralNorm(linear(key), "weight", key=key)


@pytest.mark.parametrize(
    ("maker", "message"),
    [
        (with_batch_norm, r"BatchNorm.*no parameters.*rows.*LayerNorm"),
        (lambda key: eqx.nn.make_with_state(with_batch_norm)(key), r"BatchNorm.*LayerNorm"),
        (with_spectral_norm, r"eqx.nn.State.*change nothing"),
        (linear(KEY), r"made already, of type Linear.*own initialisation.*lambda key"),
        (3, "a function from a key to a model"),
        (lambda key: 3, "returns int"),
        (lambda key: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_cannot_be_taken_is_refused(maker, message):
    with pytest.raises(InvalidInput, match=message):
        aw.from_equinox(maker)


def test_vmap_is_true_or_false():
    with pytest.raises(InvalidInput, match="True or False"):
        aw.from_equinox(linear, vmap=0)


def test_scales_by_fan_in_as_the_docstring_says():
    import math

    params = aw.from_equinox(linear).init(KEY)
    prior = aw.Prior(scale=lambda path, leaf: math.prod(leaf.shape[1:]) ** -0.5).resolve(params)
    assert float(prior.scale["weight"]) == pytest.approx(3**-0.5)
    assert float(prior.scale["bias"]) == 1.0
