"""Haiku: what is taken and what is refused."""

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput

hk = pytest.importorskip("haiku", exc_type=ImportError)

X = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
KEY = jax.random.key(0)


def linear(x):
    return hk.Linear(2)(x)


def dropped(x, is_training=True):
    x = hk.Linear(2)(x)
    return hk.dropout(hk.next_rng_key(), 0.5, x) if is_training else x


def normed(x):
    return hk.BatchNorm(True, True, 0.9)(x, is_training=True)


def counting(x):
    hk.set_state("calls", hk.get_state("calls", [], init=jax.numpy.zeros) + 1)
    return linear(x)


FORMS = {
    "function": lambda: linear,
    "transform": lambda: hk.transform(linear),
    "without_apply_rng": lambda: hk.without_apply_rng(hk.transform(linear)),
    "transform_with_state": lambda: hk.transform_with_state(linear),
    "both": lambda: hk.without_apply_rng(hk.transform_with_state(linear)),
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_function_is_the_same_network(form):
    network = aw.from_haiku(FORMS[form](), X)
    params = network.init(KEY)
    own = hk.transform(linear)
    assert list(params) == ["linear"]
    np.testing.assert_array_equal(params["linear"]["w"], own.init(KEY, X)["linear"]["w"])
    np.testing.assert_array_equal(network.apply(params, X), own.apply(params, None, X))


def test_the_same_function_shares_its_functions():
    assert aw.from_haiku(linear, X).apply is aw.from_haiku(linear, X[:1]).apply


def test_random_numbers_are_refused_unless_they_are_switched_off():
    with pytest.raises(InvalidInput, match=r"is_training=False"):
        aw.from_haiku(dropped, X)
    network = aw.from_haiku(dropped, X, is_training=False)
    params = network.init(KEY)
    np.testing.assert_array_equal(network.apply(params, X), hk.transform(linear).apply(params, None, X))


@pytest.mark.parametrize("make", [lambda f: f, hk.transform, hk.transform_with_state])
def test_batch_norm_is_refused(make):
    with pytest.raises(InvalidInput, match=r"hk.BatchNorm.*no parameters.*rows.*LayerNorm"):
        aw.from_haiku(make(normed), X)


@pytest.mark.parametrize("make", [lambda f: f, hk.transform, hk.transform_with_state])
def test_other_state_is_refused(make):
    with pytest.raises(InvalidInput, match=r"change nothing.*hk.get_state"):
        aw.from_haiku(make(counting), X)


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (hk.Linear, r"a module.*lambda x"),
        (hk.multi_transform(lambda: (linear, (linear, linear))), "MultiTransformed"),
        (3, "a function of inputs"),
        (lambda x: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_what_is_no_function_is_refused(function, message):
    with pytest.raises(InvalidInput, match=message):
        aw.from_haiku(function, X)
