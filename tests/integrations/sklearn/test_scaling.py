"""Scales of features and targets: whatever the unit, the same fit; where that cannot be, words."""

import re
import warnings

import numpy as np
import pytest

from anchorwalk.errors import InvalidInput, ScaleWarning
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.integrations.sklearn.scaling import Scaling

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=40)
ONES = np.ones(40)
QUICK = {"method": "ae", "budget": 20, "chains": 2, "hidden": (3,), "random_state": 0}


def test_a_scaling_is_that_of_the_definition():
    weights = RNG.uniform(0.1, 2, size=40)
    found = Scaling.of("X", 3 * X + 5, weights)
    mean = np.average(3 * X + 5, axis=0, weights=weights)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-14)
    variance = np.average((3 * X + 5 - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(found.scale, np.sqrt(variance), rtol=1e-14)
    assert Scaling.of("y", Y, ONES).mean.shape == ()


@pytest.mark.parametrize("exponent", [-990, -560, -1, 1, 530, 990])
def test_powers_of_two_carry_over_exactly(exponent):
    factor = 2.0**exponent
    one, other = Scaling.of("X", X, ONES), Scaling.of("X", X * factor, ONES)
    np.testing.assert_array_equal(other.scale, one.scale * factor)
    np.testing.assert_array_equal(other(X * factor), one(X))
    weighted = Scaling.of("X", X, ONES * factor)
    np.testing.assert_array_equal(weighted.scale, one.scale)


@pytest.fixture(scope="module")
def plain():
    return SAERegressor(**QUICK).fit(X, Y).predict(X, return_std=True)


@pytest.mark.parametrize(("of_x", "of_y"), [(2.0**-560, 2.0**-560), (2.0**530, 2.0**530), (2.0**900, 2.0**-900)])
def test_fits_do_not_depend_on_units(plain, of_x, of_y):
    """1e-170 and 1e160: their squares vanish or overflow."""
    model = SAERegressor(**QUICK).fit(X * of_x, Y * of_y)
    for one, other in zip(model.predict(X * of_x, return_std=True), plain, strict=True):
        np.testing.assert_array_equal(one, other * of_y)
        assert len(np.unique(one)) > 1


@pytest.mark.parametrize("number", [1e301, 1e-310])
def test_numbers_that_cannot_be_scaled_are_refused(number):
    for x, y, name in ((X * number, Y, "X, column 0"), (X, Y * number, "y")):
        with pytest.raises(InvalidInput, match=f"{name}.*: got .*by a constant"):
            SAERegressor(**QUICK).fit(x, y)
    with pytest.raises(InvalidInput, match=r"X, column 0.*by a constant"):
        SAEClassifier(**QUICK).fit(X * number, Y > 0)


def test_large_constants_become_zero():
    weights = np.linspace(0.1, 1, 40)
    x = np.stack([X[:, 0], np.full(40, 2.99170361e20)], axis=1)
    assert not Scaling.of("X", x, weights)(x)[:, 1].any()
    plain, large = (SAEClassifier(**QUICK).fit(one, Y > 0, weights) for one in (x * [1, 0], x))
    np.testing.assert_array_equal(plain.predict_proba(x * [1, 0]), large.predict_proba(x))


def test_a_target_that_is_constant_is_told():
    for y in (np.zeros(40), np.full(40, 0.1), np.stack([Y, np.ones(40)], axis=1)):
        with pytest.warns(ScaleWarning, match="a target is the same in every row"):
            SAERegressor(**QUICK).fit(X, y)


@pytest.mark.filterwarnings(
    "ignore::anchorwalk.errors.NotConvergedWarning"
)  # far-out features: it explodes, and says so
def test_what_differs_in_its_last_digits_is_told():
    x = np.stack([X[:, 0], 1e17 + np.arange(40.0) * 16], axis=1)
    with pytest.warns(ScaleWarning, match="columns 1 of X, from 0, differ in their last digits only"):
        SAERegressor(**QUICK).fit(x, Y)
    with pytest.warns(ScaleWarning, match="the values of y differ in their last digits only"):
        SAERegressor(**QUICK).fit(X, 1e17 + np.arange(40.0) * 16)


def test_a_feature_that_an_outlier_mutes_is_told():
    muted = X.copy()
    muted[7, 1] = 1e6
    with pytest.warns(ScaleWarning, match="columns 1 of X, from 0, have a few values so far out"):
        SAERegressor(**QUICK).fit(muted, Y)
    with pytest.warns(ScaleWarning, match="columns 1 of X"):
        SAEClassifier(**QUICK).fit(muted, Y > 0)
    with pytest.warns(ScaleWarning, match="the values of y have a few values so far out"):
        SAERegressor(**QUICK).fit(X, muted[:, 1])


@pytest.mark.parametrize(
    "column",
    [
        np.eye(40)[3],  # a rare level
        np.zeros(40),
        np.full(40, 0.1),
        RNG.lognormal(size=40),
        RNG.standard_t(3, size=40),
        RNG.poisson(0.1, size=40),
    ],
    ids=["rare", "zero", "constant", "lognormal", "heavy tails", "counts"],
)
def test_common_features_are_not_complained_of(column):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = Scaling.of("X", np.stack([X[:, 0], column], axis=1), ONES)
    assert np.isfinite(found(X)).all()


def test_rows_that_weigh_nothing_do_not_decide_the_scale():
    more = np.concatenate([X, [[1e9, -1e9]]])
    found, one = Scaling.of("X", more, np.append(ONES, 0.0)), Scaling.of("X", X, ONES)
    np.testing.assert_array_equal(found.scale, one.scale)
    with pytest.raises(InvalidInput, match=r"X, column 0.*expected values within 1e\+30 standard deviations"):
        Scaling.of("X", np.concatenate([X, [[1e200, 0.0]]]), np.append(ONES, 0.0))


def test_weights_that_leave_a_few_rows_are_told():
    weights = np.where(np.arange(40) < 2, 1e12, 1.0)
    with pytest.warns(ScaleWarning, match="the values of y depend on a few rows of large weight"):
        SAERegressor(**QUICK).fit(X, np.arange(40.0) % 39 + 1e-6 * X[:, 0], sample_weight=weights)


def test_rows_far_from_training_are_told_in_prediction():
    model = SAERegressor(**QUICK).fit(X * 1e-200, Y)
    with pytest.raises(InvalidInput, match=r"X, row 1, column 0: got 1e\+200, expected .* scaled as in training"):
        model.predict(np.array([[0.0, 0.0], [1e200, 0.0]]))


@pytest.mark.parametrize("noise", [1e-40, 1e40])
def test_a_noise_of_another_scale_is_refused(noise):
    given = re.escape(f"{noise:g}")
    with pytest.raises(InvalidInput, match=f"noise: got {given} for targets with a standard deviation of"):
        SAERegressor(noise=noise, **QUICK).fit(X, Y)
