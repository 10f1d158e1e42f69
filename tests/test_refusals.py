"""What is asked in the wrong place or out of reach is refused in words, before any work."""

from collections import deque

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from helpers import linear_apply, linear_init, posterior_of, small_plan, small_problem

INSIDE = "got a call inside jit, vmap or grad, expected a call with plain arrays"
X = np.linspace(-1, 1, 20)[:, None]


def total(posterior):
    return sum(member.params["out"].sum() for member in posterior)


def of_key(key):
    return total(aw.sample(key, small_problem(), small_plan(), callbacks=[]))


def of_nothing(_):
    return of_key(jax.random.key(0))


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: jax.jit(of_key)(jax.random.key(0)), "sample"),
        (lambda: jax.vmap(of_key)(jax.random.split(jax.random.key(0), 2)), "sample"),
        (lambda: jax.eval_shape(of_key, jax.random.key(0)), "sample"),
        (lambda: jax.jit(of_nothing)(1.0), "sample"),
        (lambda: jax.jit(lambda p: aw.sample(jax.random.key(0), p, small_plan()))(small_problem()), "sample"),
        (lambda: jax.vmap(lambda y: aw.Problem(linear_init, linear_apply, aw.Normal(1.0), aw.Prior(1.0), (X, y)))(
            jnp.ones((2, 20))), "Problem"),
        (lambda: jax.jit(lambda key: len(aw.sample_many(key[None], small_problem(), small_plan())))(jax.random.key(0)),
         "sample_many"),
        (lambda: jax.vmap(lambda keys: len(aw.sample_many(keys, problem, small_plan())))(
            jax.random.split(jax.random.key(0), (2, 2))), "sample_many"),
        (lambda: jax.jit(lambda p: aw.plan_for(jax.random.key(0), p, 50).chains)(problem), "plan_for"),
        (lambda: jax.jit(lambda p: aw.describe(p, small_plan()).members)(problem), "describe"),
        (lambda: jax.jit(lambda x: some().predict(x).mean)(np.ones((2, 3))), "predict"),
        (lambda: jax.grad(lambda x: some().predict(x).mean.sum())(np.ones((2, 3))), "predict"),
    ],
)  # fmt: skip
def test_nothing_works_inside_of_traced_functions(call, name):
    with pytest.raises(InvalidInput, match=f"^{name}: {INSIDE}"):
        call()


@pytest.mark.parametrize("transform", [jax.jit, jax.grad, lambda f: lambda x: jax.vmap(f)(jnp.stack([x, x]))])
def test_settings_are_no_traced_numbers(transform):
    with pytest.raises(InvalidInput, match=r"Normal\(scale=\): got a number inside jit, vmap or grad"):
        transform(lambda scale: aw.Normal(scale=scale).scale)(0.5)


problem = small_problem()


def some():
    return posterior_of([{"w": np.ones(3, np.float32)}], linear_apply, aw.Normal(scale=1.0))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["a", 1] * 10, "numbers such as 1 and texts such as 'a'"),
        (np.array(["a", 1.5] * 10, object), "numbers such as 1.5 and texts such as 'a'"),
        (pd.Series([True, "a"] * 10), "texts such as 'a' and truth values such as True"),
        ([True, 2] * 10, "numbers such as 2 and truth values such as True"),
        (pd.Series(["a", 1] * 10, dtype="category"), "numbers such as 1 and texts such as 'a'"),
        (deque(["a", 1] * 10), "numbers such as 1 and texts such as 'a'"),
        ([b"a", "b"] * 10, "bytes such as b'a' and texts such as 'b'"),
    ],
)
def test_labels_of_several_kinds_are_refused(labels, found):
    with pytest.raises(InvalidInput, match=f"y: got labels of several kinds: {found}"):
        SAEClassifier(budget=4).fit(X, labels)


@pytest.mark.parametrize(
    "labels",
    [
        ["a", None] * 10,
        deque(["a", None] * 10),
        np.array(["a", np.nan] * 10, object),
        [1.0, np.float32("nan")] * 10,
        pd.Series(["a", pd.NA] * 10, dtype="string"),
        pd.Series(["a", None] * 10, dtype="category"),
    ],
)
def test_labels_that_are_missing_are_refused(labels):
    with pytest.raises(InvalidInput, match="y: got no label in row 1, counted from 0"):
        SAEClassifier(budget=4).fit(X, labels)


def test_targets_that_are_missing_are_refused():
    with pytest.raises(InvalidInput, match=r"y: got 10 values that are not finite, the first at index \(1,\)"):
        SAERegressor(budget=4).fit(X, np.array([1.0, None] * 10, object))


def test_labels_of_one_kind_are_taken():
    for labels in ([1, 2.0] * 10, np.array(["a", "b"] * 10, object), [np.str_("a"), "b"] * 10):
        model = SAEClassifier("ae", budget=4, chains=2, hidden=(3,)).fit(X, labels)
        assert len(model.classes_) == 2


@pytest.mark.parametrize("coverage", [1 - 1e-16, 1 - 1e-13, np.nextafter(1, 0)])
def test_coverage_next_to_one(coverage):
    with pytest.raises(InvalidInput, match=r"interval\(coverage=\): got .*, expected a number up to 1 - 2e-12"):
        some().predict(np.ones((2, 3))).interval(coverage)
    with pytest.raises(InvalidInput, match=r"quantile\(q=\): got .*, expected probabilities from 1e-12 to 1 - 1e-12"):
        some().predict(np.ones((2, 3))).quantile([0.5, (1 - coverage) / 2])


@pytest.mark.parametrize("tail", [1e-3, 1e-9, 2e-12])
def test_far_quantiles_are_those_of_the_normal(tail):
    low, high = some().predict(np.zeros((1, 3))).interval(1 - 2 * tail)
    from scipy import stats

    # float64 tells 1 - tail to 1.1e-16: at 2e-12 that is a part in 2e4 of the tail, 7e-6 standard deviations.
    np.testing.assert_allclose([low[0], high[0]], [stats.norm.ppf(tail), stats.norm.isf(tail)], atol=2e-4)


def test_an_estimator_says_the_same():
    model = SAERegressor("ae", budget=4, chains=2, hidden=(3,), random_state=0).fit(X, X[:, 0])
    with pytest.raises(InvalidInput, match="a number up to 1 - 2e-12"):
        model.predict_interval(X, coverage=1 - 1e-16)
