"""Calibrated intervals: their rule against its exact coverage, and who sees which rows."""

import json
import pickle

import numpy as np
import pytest

from anchorwalk.errors import InvalidInput, StoreDamaged
from anchorwalk.integrations.sklearn import SAERegressor, conformal

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)
QUICK = {"method": "ae", "chains": 2, "budget": 20, "hidden": (5,), "random_state": 0}
HELD = conformal.LEAST  # of 60 rows


@pytest.fixture(scope="module")
def model():
    return SAERegressor(calibrate="conformal", **QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def several():
    return SAERegressor(calibrate="conformal", **QUICK).fit(X, np.stack([Y, 100 * np.exp(Y)], axis=1))


@pytest.mark.parametrize("coverage", [0.03, 0.5, 0.77, 0.9, 0.95])
def test_intervals_of_a_poor_model_cover_what_they_say(coverage):
    """A model whose mean is off and whose deviations are too small: coverage is ceil((n + 1) c) / (n + 1), exactly.

    Each of 20,000 repeats has rows of its own, and one new row; to five binomial standard errors.
    """
    n, repeats = HELD, 20_000
    rng = np.random.default_rng(1)
    x = rng.uniform(1, 2, (n + 1, repeats))
    y, mean, std = x * rng.normal(size=x.shape), 0.3 * x, 0.1 * x**2
    scores = conformal.scores_of(y[:n], mean[:n], std[:n])
    away = conformal.distance(scores, coverage)
    covered = np.mean(np.abs(y[n] - mean[n]) <= away * std[n])
    exact = np.ceil((n + 1) * coverage - 1e-9) / (n + 1)
    assert coverage - 1e-9 <= exact <= coverage + 1 / (n + 1)
    assert abs(covered - exact) < 5 * np.sqrt(exact * (1 - exact) / repeats)


def test_held_back_rows_are_seen_by_no_member_and_score(model):
    held = conformal.held_back("conformal", np.ones(60), model._seed)
    assert held.sum() == HELD
    plain = SAERegressor(**QUICK).fit(X[~held], Y[~held])
    np.testing.assert_array_equal(model.predict(X), plain.predict(X))
    mean, std = plain.predict(X[held], return_std=True)
    scores = np.sort(np.abs(Y[held] - mean) / std)
    np.testing.assert_array_equal(model.calibration_scores_, scores)
    assert plain.calibration_scores_ is None


def test_an_interval_ends_at_its_score(model):
    mean, std, low, high = model.predict(X, return_std=True, return_interval=0.9)
    away = model.calibration_scores_[17]  # the 18th of 19: 20 * 0.9
    np.testing.assert_allclose(high - mean, away * std, rtol=1e-9)
    np.testing.assert_allclose(mean - low, away * std, rtol=1e-9)
    held = conformal.held_back("conformal", np.ones(60), model._seed)
    assert np.sum((low <= Y)[held] & (high >= Y)[held]) == 18
    quantiles = model.predict_quantiles(X, (0.05, 0.5, 0.95))
    np.testing.assert_allclose(quantiles, np.stack([low, mean, high], axis=-1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict_interval(X, 0)[0], mean)


def test_a_coverage_that_so_few_rows_cannot_give_is_refused(model):
    model.predict_interval(X, 0.95)
    with pytest.raises(InvalidInput, match=r"coverage: got 0.96, expected at most 0.95, for the 19 rows"):
        model.predict_interval(X, 0.96)
    with pytest.raises(InvalidInput, match=r"at most 0\.95"):
        model.predict_quantiles(X, (0.01,))
    for wrong in (-0.1, 1.0, np.nan):
        with pytest.raises(InvalidInput, match="coverage"):
            model.predict_interval(X, wrong)


def test_each_target_has_its_scores(several):
    both = np.stack([Y, 100 * np.exp(Y)], axis=1)
    assert several.calibration_scores_.shape == (HELD, 2)
    low, high = several.predict_interval(X, 0.8)
    held = conformal.held_back("conformal", np.ones(60), several._seed)
    assert np.sum((low <= both)[held] & (both <= high)[held], axis=0).tolist() == [16, 16]  # 20 * 0.8
    assert several.predict_quantiles(X, (0.1, 0.9)).shape == (60, 2, 2)


def test_it_is_saved_loaded_and_pickled(tmp_path, model, several):
    for name, one in (("one", model), ("two", several)):
        one.save(tmp_path / name)
        for again in (SAERegressor.load(tmp_path / name), pickle.loads(pickle.dumps(one))):  # noqa: S301
            np.testing.assert_array_equal(again.calibration_scores_, one.calibration_scores_)
            np.testing.assert_array_equal(again.predict_interval(X), one.predict_interval(X))
            assert again.calibrate == "conformal"


def test_infinite_scores_are_saved_and_others_refused(tmp_path, model):
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    again.calibration_scores_[-1] = np.inf
    again.save(tmp_path / "run")
    assert SAERegressor.load(tmp_path / "run").calibration_scores_[-1] == np.inf
    path = tmp_path / "run" / "estimator.json"
    about = json.loads(path.read_text())
    for wrong in ([2.0, 1.0], [-1.0, 1.0], [], [[1.0]]):
        about["fitted"]["calibration_scores"] = wrong
        path.write_text(json.dumps(about))
        with pytest.raises(StoreDamaged):
            SAERegressor.load(tmp_path / "run")


def test_which_rows_are_held_back():
    weights = np.ones(1000)
    weights[:500] = 0
    held = conformal.held_back("auto", weights, 0)
    assert held.sum() == 100
    assert not held[:500].any()
    assert (held != conformal.held_back("auto", weights, 1)).any()
    assert conformal.held_back("auto", weights[1:] * 0 + (np.arange(999) < 499), 0) is None
    assert conformal.held_back("none", weights, 0) is None
    assert conformal.held_back("conformal", np.ones(100_000), 0).sum() == conformal.MOST
    assert conformal.held_back("conformal", np.ones(38), 0).sum() == 19
    conformal.distance(np.arange(100.0), 0.99)  # what "auto" promises


@pytest.mark.parametrize(
    ("change", "rows", "message"),
    [({"calibrate": "yes"}, 60, "calibrate"), ({"calibrate": "conformal"}, 37, "got 37 rows, expected at least 38")],
)
def test_what_cannot_be_calibrated_is_refused(change, rows, message):
    with pytest.raises(InvalidInput, match=message):
        SAERegressor(**{**QUICK, **change}).fit(X[:rows], Y[:rows])


def test_bad_rows_are_refused_before_training():
    y = Y.copy()
    y[conformal.held_back("conformal", np.ones(60), SAERegressor(random_state=0)._next_seed())] = np.nan
    one = SAERegressor(calibrate="conformal", **QUICK)
    with pytest.raises(ValueError, match="NaN"):
        one.fit(X, y)
    assert not hasattr(one, "plan_")


def test_warm_start_keeps_the_rows_and_refuses_others():
    one = SAERegressor(calibrate="conformal", warm_start=True, **QUICK).fit(X, Y)
    count, scores = len(one.posterior_), one.calibration_scores_
    one.set_params(budget=40).fit(X, Y)
    assert len(one.posterior_) > count
    assert one.calibration_scores_.shape == scores.shape
    assert (one.calibration_scores_ != scores).any()
    with pytest.raises(InvalidInput, match="calibrate='none', with other rows"):
        one.set_params(calibrate="none").fit(X, Y)


def test_tables_and_weights():
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "u", "v")}, index=np.arange(60)[::-1])
    weights = np.ones(60)
    weights[:5] = 0
    one = SAERegressor(calibrate="conformal", **QUICK).fit(table, pd.Series(Y), sample_weight=weights)
    held = conformal.held_back("conformal", weights, one._seed)
    assert not held[:5].any()
    low, high = one.predict_interval(table, 0.95)
    assert ((low <= Y) & (high >= Y))[held].all()
    with pytest.raises(ValueError, match="inconsistent"):
        one.fit(table, Y[:50])
