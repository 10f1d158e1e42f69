"""Crafted numbers through both estimators: a finite answer, a warning or a clear refusal, never a wrong answer.

What is wrong is judged by what must carry over: a power of two in y or in a feature exactly, a y + b up to rounding.
"""

import os
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anchorwalk.errors import AnchorwalkError
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor

COUNT = int(os.environ.get("ANCHORWALK_CRAFTED", "1000"))
QUICK = {"method": "ae", "budget": 10, "chains": 2, "hidden": (3,), "random_state": 0}
SHARE = 0.01  # of a predictive standard deviation, by which a y + b may differ: rounding of y, over ten epochs
EPS = np.finfo(np.float64).eps

numbers = st.one_of(
    st.floats(-10, 10),
    st.integers(-3, 3).map(float),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 5e-324, 2.3e-308, 1e-170, 1e160, 1e300, -1.7e308, 1e16, 16777217.0]),
)
exponents = st.integers(-1000, 1000)


@st.composite
def columns(draw, rows):
    """A column: of one size, of wild numbers, constant, or with an outlier."""
    kind = draw(st.sampled_from(["plain", "plain", "plain", "wild", "constant", "outlier", "far"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    plain = rng.normal(size=rows) * draw(st.sampled_from([1.0, 1.0, 1e-3, 1e5, 1e160, 1e-170, 1e-305, 1e299]))
    if kind == "wild":
        return np.array(draw(st.lists(numbers, min_size=rows, max_size=rows)))
    if kind == "constant":
        return np.full(rows, draw(numbers))
    if kind == "outlier":
        plain[draw(st.integers(0, rows - 1))] = draw(numbers)
    if kind == "far":
        with np.errstate(over="ignore"):
            plain = plain + np.nan_to_num(draw(st.sampled_from([1e3, 1e9, 1e15])) * np.abs(plain).max())
    return plain


@st.composite
def tables(draw):
    """Features, a target, weights or none, and powers of two for the target and the first feature."""
    rows = draw(st.sampled_from([4, 9, 16]))
    x = np.stack([draw(columns(rows)) for _ in range(draw(st.integers(1, 3)))], axis=1)
    weights = draw(st.sampled_from([None, None, np.linspace(0, 1, rows), np.geomspace(1e-30, 1e30, rows)]))
    return x, draw(columns(rows)), weights, draw(exponents), draw(exponents)


def answer(model, x, y, weights):
    """What a model predicts, and whether anything was told; None where it is refused."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model.fit(x, y, sample_weight=weights)
            found = model.predict(x, return_std=True) if isinstance(model, SAERegressor) else (model.predict_proba(x),)
        except (AnchorwalkError, ValueError):  # the second kind is scikit-learn's, such as for infinity
            return None, True
    for one in caught:  # NumPy's own warnings say nothing to a user
        assert not issubclass(one.category, RuntimeWarning), one.message
    return found, bool(caught)


def check_numbers(table):
    x, y, weights, of_y, of_x = table
    first, told = answer(SAERegressor(**QUICK), x, y, weights)
    if first is not None:
        assert told or all(np.isfinite(one).all() for one in first)
    with np.errstate(over="ignore", under="ignore"):
        scaled, other = np.ldexp(y, of_y), x.copy()
        other[:, 0] = np.ldexp(x[:, 0], of_x)
        exact = (np.ldexp(scaled, -of_y) == y).all() and (np.ldexp(other, -of_x)[:, 0] == x[:, 0]).all()
    used = x[:, 0] if weights is None else x[weights > 0, 0]
    exact = exact and ((used != used[0]).any() or (x[:, 0] == used[0]).all())  # what never varied has no scale
    if exact and first is not None:
        second, told_too = answer(SAERegressor(**QUICK), other, scaled, weights)
        if second is not None:
            assert told == told_too
            for one, two in zip(first, second, strict=True) if not told else ():
                with np.errstate(over="ignore", under="ignore"):
                    np.testing.assert_array_equal(np.ldexp(one, of_y), two)
    if first is not None and not told:
        moved(x, y, weights, first)
    labels = y > np.sort(y)[(len(y) - 1) // 2]
    classes, told = answer(SAEClassifier(**QUICK), x, labels, weights)
    if classes is not None:
        assert told or np.isfinite(classes[0]).all()
        second, told_too = answer(SAEClassifier(**QUICK), other, labels, weights) if exact else (None, True)
        if second is not None:
            assert told == told_too
            np.testing.assert_array_equal(classes[0], second[0])


def moved(x, y, weights, first):
    """Compare with the fit of a y + b, a no power of two."""
    used = y if weights is None else y[weights > 0]
    factor, shift = 3.0, 7 * np.abs(y).max()
    size = factor * np.abs(y).max() + shift
    if not size < 1e300:
        return
    spread = factor * np.std(used / np.abs(y).max()) * np.abs(y).max()
    rounding = EPS * size / spread if spread > 0 else np.inf
    if rounding > 1e-9:  # little is left of what y was
        return
    second, told = answer(SAERegressor(**QUICK), x, factor * y + shift, weights)
    if second is not None and not told:
        (mean, std), (other_mean, other_std) = first, second
        assert (np.abs(other_mean - (factor * mean + shift)) <= SHARE * other_std).all()
        np.testing.assert_allclose(other_std, factor * std, rtol=SHARE)


def options(count):
    checks = [HealthCheck.too_slow, HealthCheck.data_too_large]
    # Failures are shown as they were found: each example costs several fits, and smaller ones would cost minutes.
    phases = (Phase.explicit, Phase.generate)
    few = count < 100
    return settings(max_examples=count, deadline=None, suppress_health_check=checks, derandomize=few, phases=phases)


@options(12)
@given(tables())
def test_crafted_numbers(table):
    check_numbers(table)


@pytest.mark.slow
@options(COUNT)
@given(tables())
def test_a_thousand_crafted_numbers(table):
    check_numbers(table)
