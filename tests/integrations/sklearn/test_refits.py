"""Fits that fail half-way, on top of another: no prediction is made with parts of both."""

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor, base, planning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = X[:, 0] + 0.1 * RNG.normal(size=60)
LABELS = np.where(Y > 0, "up", "down")
QUICK = {"method": "ae", "chains": 2, "budget": 4, "hidden": (3,), "random_state": 0}


def interrupted(*_, **__):
    raise KeyboardInterrupt


@pytest.mark.parametrize(("kind", "y"), [(SAERegressor, Y), (SAEClassifier, LABELS)])
def test_a_fit_that_fails_leaves_none(kind, y, monkeypatch):
    model = kind(**QUICK).fit(X, y)
    with pytest.raises(InvalidInput, match="batch_size"):
        model.set_params(batch_size=-1).fit(100 * X + 5, y[::-1])
    with pytest.raises(NotFittedError):
        model.predict(X)
    model.set_params(batch_size="auto").fit(X, y)
    with monkeypatch.context() as patch:
        patch.setattr(base, "sample", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(100 * X + 5, y)
    for use in (lambda: model.predict(X), lambda: model.save("nowhere"), lambda: model.loss_curve_):
        with pytest.raises(NotFittedError):
            use()
    assert not hasattr(model, "diagnosis_")
    expected = kind(**QUICK).fit(X, y).predict(X)
    np.testing.assert_array_equal(model.set_params(warm_start=True).fit(X, y).predict(X), expected)


@pytest.mark.parametrize(
    ("x", "y", "error", "message"),
    [
        (X[:, :1], LABELS, ValueError, "X has 1 features, but SAEClassifier is expecting 2"),
        (X, np.where(Y > 0, "left", "right"), InvalidInput, "fit with warm_start: got other classes"),
        (100 * X + 5, LABELS, InvalidInput, "a run of other arguments: data was"),
        (X, np.where(np.arange(60) < 20, "new", LABELS), InvalidInput, "fit with warm_start: got other classes"),
    ],
)
def test_a_warm_start_that_is_refused_changes_nothing(x, y, error, message):
    model = SAEClassifier(warm_start=True, **QUICK).fit(X, LABELS)
    before = model.predict_proba(X), model.predict(X)
    with pytest.raises(error, match=message):
        model.fit(x, y)
    np.testing.assert_array_equal(model.predict_proba(X), before[0])
    np.testing.assert_array_equal(model.predict(X), before[1])


def test_intervals_are_never_those_of_another_calibration(monkeypatch):
    model = SAERegressor(calibrate="conformal", warm_start=True, **QUICK).fit(X, Y)
    model.set_params(budget=8)
    with monkeypatch.context() as patch:
        patch.setattr(SAERegressor, "_scores", interrupted)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, Y)
    with pytest.raises(NotFittedError):
        model.predict_interval(X)
    whole = SAERegressor(calibrate="conformal", warm_start=True, **QUICK).fit(X, Y).set_params(budget=8).fit(X, Y)
    np.testing.assert_array_equal(model.fit(X, Y).predict_interval(X), whole.predict_interval(X))
    with pytest.raises(InvalidInput, match=r"quantiles: got \[1.2\], expected probabilities strictly between 0 and 1"):
        model.predict_quantiles(X, [1.2])


def test_ctrl_c_ends_a_fit_by_seconds():
    runs = []

    def run(plan):
        runs.append(plan)
        return SimpleNamespace(complete=len(runs) < 2)

    plan = aw.Plan(aw.AE(aw.Training(aw.Adam(0.01), 2, 8)), 2)
    assert not planning.until(100.0, plan, run).complete
    assert len(runs) == 2


def test_a_pickle_predicts_with_the_noise_of_its_fit():
    model = SAERegressor(noise=0.5, **QUICK).fit(X, Y)
    before = model.predict(X, return_std=True)
    again = pickle.loads(pickle.dumps(model.set_params(noise=5.0)))  # noqa: S301  # our own bytes
    np.testing.assert_array_equal(again.predict(X, return_std=True), before)
