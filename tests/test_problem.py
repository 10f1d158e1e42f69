"""Checks at the door: each names the argument, the value and the remedy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from helpers import linear_apply, linear_init

X, Y = np.ones((6, 3)), np.arange(6.0)


def make(**changes):
    arguments = {
        "init": linear_init,
        "apply": linear_apply,
        "likelihood": aw.Normal(scale=1.0),
        "prior": aw.Prior(scale=1.0),
        "data": (X, Y),
    }
    return aw.Problem(**(arguments | changes))


def column_apply(params, x):
    return (x @ params["w"])[:, None]


def logits_apply(params, x):
    return jnp.stack([x @ params["w"], -x @ params["w"]], axis=1)


def with_nan(array):
    array = np.array(array)
    array.flat[2] = np.nan
    return array


CATEGORICAL = {"apply": logits_apply, "likelihood": aw.Categorical()}
HETEROSCEDASTIC = {"apply": logits_apply, "likelihood": aw.HeteroscedasticNormal()}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"data": (X, Y[:, None])}, r"y of shape \(6, 1\), expected targets y of shape \(6,\).*y\[\.\.\., 0\]"),
        (
            {"apply": column_apply},
            r"y of shape \(6,\), expected targets y of shape \(6, 1\).*y\[:, None\].*\[\.\.\., 0\]",
        ),
        ({**CATEGORICAL, "data": (X, np.zeros((6, 1), int))}, r"\(6, 1\).*Drop the last axis of the targets"),
        (
            {**CATEGORICAL, "data": (X, np.array([0, 1, 2, 0, 1, 0]))},
            r"a target y of 2, expected values from 0 to 1.*2 logits",
        ),
        ({**CATEGORICAL, "data": (X, np.array([0, 1, -1, 0, 1, 0]))}, r"a target y of -1.*Renumber the labels from 0"),
        ({**CATEGORICAL, "data": (X, np.full(6, 0.5))}, r"a target y of .*0\.5.*whole numbers"),
        (
            {**CATEGORICAL, "data": (X, np.array(list("abcdef")))},
            r"targets y: got values of type <U1, expected real numbers",
        ),
        ({"likelihood": aw.Categorical()}, r"outputs of shape \(6,\), expected \(N, classes\).*Bernoulli"),
        ({"likelihood": aw.Bernoulli(), "data": (X, np.full(6, 2))}, r"a target y of 2, expected values from 0 to 1"),
        ({"likelihood": aw.Poisson(), "data": (X, -np.ones(6))}, r"a target y of -1.*values from 0 to 2147483647"),
        ({"likelihood": aw.Poisson(), "data": (X, Y + 0.5)}, r"whole numbers for Poisson"),
        ({"likelihood": aw.HeteroscedasticNormal()}, r"outputs of shape \(6,\), expected \(6, 2\).*inverse-softplus"),
        ({**HETEROSCEDASTIC, "data": (X, Y[:, None])}, r"y of shape \(6, 1\), expected targets y of shape \(6,\)"),
        ({"data": (X[:0], Y[:0])}, r"data: got 0 rows, expected at least one row"),
        ({"data": (X, Y[:5])}, r"targets y of shape \(5,\) for 6 rows of x"),
        ({"data": (with_nan(X), Y)}, r"inputs x: got 1 values that are not finite, the first at index \(0, 2\)"),
        ({"data": (X, with_nan(Y))}, r"targets y: got 1 values that are not finite.*Remove or impute"),
        ({"data": X}, r"data: got ndarray, expected a pair \(x, y\)"),
        ({"data": ((), Y)}, r"inputs x without arrays"),
        ({"data": ({"a": X, "b": X[:4]}, Y)}, r"inputs with \[4, 6\] rows"),
        (
            {"data": (np.array([["a"] * 3] * 6, dtype=object), Y)},
            r"inputs x: got values of type object, expected real numbers",
        ),
        (
            {"data": (np.ones((6, 4)), Y)},
            r"apply: got TypeError from apply\(params, x\) on inputs x of float32\(6, 4\)",
        ),
        ({"apply": lambda params, x: jnp.sum(x @ params["w"])}, r"one array with 6 rows"),
        ({"data": (X, Y, Y)}, r"data: got tuple of 3, expected a pair \(x, y\).*weights="),
        ({"data": ([[1.0, 2.0, 3.0]] * 6, Y)}, r"inputs x at '0/0': got the single number 1.0.*np.asarray\(x\)"),
        ({"init": lambda: 0}, r"init: got TypeError from init\(key\)"),
        ({"prior": aw.Prior}, r"prior: got the class Prior, expected an instance"),
        ({**CATEGORICAL, "data": (X, np.eye(6, 2))}, r"y.argmax\(-1\) for one-hot rows"),
        (
            {"likelihood": aw.Bernoulli(), "data": (X, np.full(6, -1))},
            r"a target y of -1.*Number the two classes 0 and 1",
        ),
        ({"weights": np.ones(5)}, r"weights: got shape \(5,\), expected shape \(6,\)"),
        ({"weights": -np.ones(6)}, r"weights: got values from -1"),
        ({"weights": np.zeros(6)}, r"not all 0"),
        ({"init": 3}, r"init: got int, expected a function of a key"),
        ({"init": lambda key: {}}, r"returns no arrays"),
        ({"init": lambda key: {"w": jnp.zeros(3), "n": jnp.zeros(2, int)}}, r"int32 at 'n', expected floating-point"),
        ({"prior": 0.1}, r"prior: got 0.1, expected a Prior"),
        ({"validation": (X, Y[:, None])}, r"validation: got targets y of shape \(6, 1\)"),
        (
            {"data": (np.full((6, 3), 2**33), Y)},
            r"integers from 8589934592 to 8589934592, expected integers that fit into int32",
        ),
        ({"data": (X * 1e39, Y)}, r"inputs x, as float32: got 18 values that are not finite.*Scale the values down"),
        ({"data": (X, Y * 1e39)}, r"targets y, as float32: got 5 values"),
        ({"data": (X * 1j, Y)}, r"inputs x: got values of type complex128, expected real numbers"),
        ({"data": (np.array([["a"] * 3] * 6), Y)}, r"inputs x: got values of type <U1"),
        ({"data": (X, np.array(["2020-01-01"] * 6, "datetime64[D]"))}, r"targets y: got values of type datetime64"),
        ({"data": (1.0, Y)}, r"got the single number 1.0"),
        (
            {"likelihood": aw.Poisson(), "data": (X, np.full(6, 2**32 - 1))},
            r"a target y of 4294967295, expected values",
        ),
        ({"weights": np.full(6, 1e-60)}, r"not all 0"),
        ({"weights": ["a"] * 6}, r"weights: got values of type <U1"),
        ({"weights": np.full(6, np.nan)}, r"weights: got 6 values that are not finite"),
        ({"likelihood": aw.Categorical}, r"likelihood: got the class Categorical, expected an instance of it"),
        ({"likelihood": "normal"}, r"likelihood: got 'normal', expected a Likelihood"),
        ({"apply": lambda params, x: params["v"]}, r"apply: got KeyError from apply"),
        ({"prior": aw.Prior(scale={"w": "wide"})}, r"Prior\(scale=\) at 'w': got 'wide', expected a number"),
        ({"prior": aw.Prior(scale=lambda path, leaf: np.ones((5, 1)))}, r"Prior\(scale=\) at 'w': got shape \(5, 1\)"),
    ],
)
def test_bad_input_is_refused(changes, message):
    with pytest.raises(InvalidInput, match=message):
        make(**changes)


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), None])
def test_noise_must_be_above_zero(scale):
    with pytest.raises(InvalidInput, match=r"Normal\(scale=\).*standard deviation"):
        aw.Normal(scale=scale)


def test_a_problem_prints_short_and_so_do_messages():
    assert repr(make()) == "Problem(6 rows, 3 parameters, Normal(scale=1.0))"
    with pytest.raises(InvalidInput) as caught:
        aw.sample(list(range(10_000)), make(), None)
    assert len(str(caught.value)) < 1000
    assert "Pass jax.random.key(seed)" in str(caught.value)


def test_an_error_is_a_value_error_and_ours():
    with pytest.raises(ValueError, match="expected") as caught:
        make(weights=np.ones(5))
    assert isinstance(caught.value, aw.errors.AnchorwalkError)


def test_floats_are_cast_and_integers_kept():
    problem = aw.Problem(
        init=lambda key: jnp.zeros(3, jnp.bfloat16),
        apply=lambda w, x: x["a"] @ w + x["b"],
        likelihood=aw.Normal(scale=1.0),
        prior=aw.Prior(),
        data=({"a": X, "b": np.arange(6, dtype=np.uint8)}, Y),
    )
    assert problem.data.x["a"].dtype == jnp.bfloat16
    assert problem.data.x["b"].dtype == jnp.uint8
    assert problem.data.y.dtype == jnp.float32  # sums over rows want it
    assert problem.data.weights.dtype == jnp.float32


def test_problem_is_a_tree_of_numbers():
    problem = make(prior=aw.Prior(scale=0.25), likelihood=aw.Normal(scale=0.5))
    doubled = jax.tree.map(lambda leaf: leaf * 2, problem)
    assert doubled.likelihood.scale == 1.0
    assert doubled.prior.scale["w"] == 0.5
    np.testing.assert_array_equal(doubled.data.y, 2 * Y)
    assert doubled.apply is problem.apply


def test_hold_back_splits_the_rows():
    problem = make(data=(np.arange(60.0).reshape(20, 3), np.arange(20.0)), weights=np.arange(1.0, 21.0))
    split = problem.hold_back(jax.random.key(0), share=0.25)
    assert (split.data.n, split.validation.n) == (15, 5)
    assert sorted([*split.data.y.tolist(), *split.validation.y.tolist()]) == list(range(20))
    np.testing.assert_array_equal(split.data.x[:, 0], 3 * split.data.y)  # rows stay together
    np.testing.assert_array_equal(split.data.weights, split.data.y + 1)
    assert problem.n == 20  # the problem itself is as it was
    other = problem.hold_back(jax.random.key(1), share=0.25)
    assert other.validation.y.tolist() != split.validation.y.tolist()
    with pytest.raises(InvalidInput, match="1 rows"):
        make(data=(X[:1], Y[:1])).hold_back(jax.random.key(0))
    with pytest.raises(InvalidInput, match="hold_back: got a problem with validation rows"):
        split.hold_back(jax.random.key(0))
    with pytest.raises(InvalidInput, match=r"hold_back\(share=\): got -1"):
        problem.hold_back(jax.random.key(0), share=-1)


def test_targets_are_kept_as_what_they_are():
    labels = np.array([0, 1, 1, 0, 1, 0])
    for y in (labels, labels.astype(bool), labels.astype(np.uint8), labels.astype(np.float64)):
        problem = make(**CATEGORICAL, data=(X, y))
        assert problem.data.y.dtype == jnp.int32
        assert problem.data.y.tolist() == labels.tolist()
    many = aw.Problem(
        lambda key: jnp.zeros((3, 600), jnp.bfloat16), lambda w, x: x @ w, aw.Categorical(), aw.Prior(),
        data=(X, np.arange(594.0, 600.0)),
    )  # fmt: skip
    assert many.data.y.tolist() == [594, 595, 596, 597, 598, 599]  # not rounded to half precision
    assert make(data=(X, np.full(6, 2**33 + 1024))).data.y.tolist() == [2**33 + 1024] * 6  # a number, not a remainder


def test_rows_held_back_are_chosen_on_the_host_without_compiling_a_gather():
    problem = aw.Problem(
        lambda key: jnp.zeros(()), lambda w, x: x + w, aw.Normal(scale=1.0), aw.Prior(), data=(np.arange(20.0),) * 2
    )
    split = problem.hold_back(jax.random.key(0))
    for data in (split.data, split.validation):
        assert all(isinstance(leaf, np.ndarray) for leaf in (data.x, data.y, data.weights))
        np.testing.assert_array_equal(data.x, data.y)  # rows stay together, in their order
        assert (np.diff(data.x) > 0).all()
    np.testing.assert_array_equal(np.sort(np.concatenate([split.data.x, split.validation.x])), np.arange(20.0))


def test_another_prior_leaves_all_else_as_it_is():
    data = np.zeros((6, 2), np.float32), np.zeros(6, np.float32)
    one = aw.Problem(lambda key: {"w": jnp.zeros(2)}, lambda p, x: x @ p["w"], aw.Normal(scale=1.0), aw.Prior(), data)
    filled = one.filled(8, {"w": np.array([False, True])})
    other = filled.with_prior(aw.Prior(scale=2.0, mean=0.5))
    np.testing.assert_array_equal(other.prior.scale["w"], [2.0, 0.0])  # what only fills up stays unused
    np.testing.assert_array_equal(np.broadcast_to(other.prior.mean["w"], 2), [0.5, 0.5])
    assert other.data is filled.data
    assert jax.tree.structure(other) == jax.tree.structure(filled)
    with pytest.raises(InvalidInput, match=r"with_prior: got 2\.0"):
        one.with_prior(2.0)


def test_rows_held_back_of_filled_problems_are_as_many_and_others():
    x = np.arange(50.0)[:, None]
    problem = aw.Problem(
        lambda key: jnp.zeros(()), lambda w, x: x[:, 0] * w, aw.Normal(scale=1.0), aw.Prior(), (x, x[:, 0])
    )
    split = problem.filled(64).hold_back(jax.random.key(0), 0.2)
    assert (split.data.n, split.validation.n, split.data.room) == (40, 10, 64)
    kept = np.asarray(split.data.x)[:40, 0]
    assert sorted([*kept, *np.asarray(split.validation.x)[:, 0]]) == list(range(50))
    assert split.without_validation().validation is None
