"""What users of scikit-learn expect: uncertainty through its tools, tables as they come, weights of classes, plots."""

import json
import pickle
from datetime import date

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.integrations.sklearn.encoding import MOST_LEVELS, Encoder

QUICK = {"method": "ae", "budget": 60, "chains": 6, "random_state": 0}
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)
LABELS = np.where(Y > 0, "up", "down")


def table(rows=60):
    """A column of each kind."""
    rng = np.random.default_rng(1)
    found = pd.DataFrame(
        {
            "number": rng.normal(size=rows),
            "gaps": np.where(rng.random(rows) < 0.2, np.nan, rng.normal(size=rows)),
            "whole": pd.array(rng.integers(0, 9, rows), dtype="Int64"),
            "truth": rng.random(rows) > 0.5,
            "text": rng.choice(["x", "y", None], rows),
            "category": pd.Categorical(rng.choice([1, 2, 3], rows)),
            "day": pd.date_range("2024-01-01", periods=rows, freq="3D"),
            "moment": pd.date_range("2024-01-01", periods=rows, freq="7h"),
        }
    )
    return found, found["number"].to_numpy() + 2.0 * found["truth"].to_numpy()


@pytest.fixture(scope="module")
def regressor():
    return SAERegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def of_table():
    return SAERegressor(**QUICK | {"budget": 300}).fit(*table())


def test_one_call_gives_all_that_is_asked_for(regressor):
    mean, std, low, high = regressor.predict(X, return_std=True, return_interval=0.8)
    np.testing.assert_array_equal(mean, regressor.predict(X))
    np.testing.assert_array_equal(std, regressor.predict(X, return_std=True)[1])
    for one, other in zip((low, high), regressor.predict_interval(X, coverage=0.8), strict=True):
        np.testing.assert_array_equal(one, other)
    quantiles = regressor.predict_quantiles(X, [0.1, 0.5, 0.9])
    assert quantiles.shape == (60, 3)
    # Each quantile is within 1e-4 standard deviations.
    np.testing.assert_allclose(quantiles[:, [0, 2]], np.stack([low, high], axis=1), atol=2e-4 * std.max())
    assert np.all(np.diff(quantiles) > 0)
    with pytest.raises(InvalidInput, match="strictly between 0 and 1"):
        regressor.predict_quantiles(X, 95)


def test_uncertainty_through_a_pipeline(regressor):
    pipeline = make_pipeline(StandardScaler(), SAERegressor(**QUICK)).fit(X, Y)
    mean, std, low, high = pipeline.predict(X, return_std=True, return_interval=0.9)
    assert mean.shape == std.shape == low.shape == high.shape == (60,)
    assert np.all((low < mean) & (mean < high))
    with config_context(enable_metadata_routing=True):
        asked = SAERegressor(**QUICK).set_predict_request(return_std=True)
        asked.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scaler = StandardScaler().set_fit_request(sample_weight=True)
        routed = make_pipeline(scaler, asked).fit(X, Y, sample_weight=np.ones(60))
        np.testing.assert_array_equal(routed.predict(X, return_std=True)[1], std)
        scores = cross_val_score(asked, X, Y, cv=2, params={"sample_weight": np.ones(60)})
        assert scores.shape == (2,)


def test_uncertainty_through_a_search_and_cross_validation():
    grid = {"saeregressor__prior": [0.3, 1.0]}
    model = SAERegressor(**QUICK, quantiles=(0.05, 0.5, 0.95))
    search = GridSearchCV(make_pipeline(StandardScaler(), model), grid, cv=2).fit(X, Y)
    assert 0.3 < search.best_score_ <= 1  # of the mean
    median, std = search.best_estimator_.predict(X, return_std=True)
    np.testing.assert_array_equal(median, search.predict(X))
    assert median.shape == (60, 3)
    assert np.all(std > 0)
    quantiles = cross_val_predict(model, X, Y, cv=2)
    assert quantiles.shape == (60, 3)
    assert np.mean((quantiles[:, 0] < Y) & (quantiles[:, 2] > Y)) > 0.6


def test_quantiles_in_place_of_means_are_saved(tmp_path):
    model = SAERegressor(**QUICK, quantiles=(0.1, 0.9)).fit(X, Y)
    assert model.score(X, Y) == SAERegressor(**QUICK).fit(X, Y).score(X, Y)
    model.save(tmp_path / "run")
    again = SAERegressor.load(tmp_path / "run")
    assert again.get_params() == model.get_params()
    np.testing.assert_array_equal(again.predict(X), model.predict_quantiles(X, (0.1, 0.9)))


def test_a_table_as_it_comes(of_table, tmp_path):
    x, y = table()
    assert of_table.n_features_in_ == 8
    assert of_table.feature_names_in_.tolist() == list(x)
    expected = {"number", "gaps", "gaps is missing", "text = x", "text is missing", "category = 2", "day"}
    assert expected | {"moment: day (sin)"} <= set(of_table.encoder_.names)
    assert "day: day (sin)" not in of_table.encoder_.names
    assert of_table.score(x, y) > 0.5
    of_table.save(tmp_path / "run")
    again = SAERegressor.load(tmp_path / "run")
    np.testing.assert_array_equal(again.predict(x), of_table.predict(x))
    assert again.encoder_ == of_table.encoder_
    new = x.head(3).assign(text="z", number=[np.nan, 1.0, 2.0], day=pd.NaT)
    np.testing.assert_array_equal(again.predict(new), of_table.predict(new))
    assert np.isfinite(again.predict(new)).all()
    remarks = again.encoder_.remarks(new)
    assert "text: not seen in training, and so without effect: 'z'" in remarks
    assert any(one.startswith("number: 1 missing values are taken as the median") for one in remarks)
    with pytest.raises(InvalidInput, match=r"column 'number'.*'one' in row 0.*a number"):
        again.predict(x.assign(number="one"))
    with pytest.raises(ValueError, match="feature names"):
        again.predict(x.rename(columns={"text": "texts"}))
    copied = pickle.loads(pickle.dumps(of_table))  # noqa: S301  # our own
    np.testing.assert_array_equal(copied.predict(x), of_table.predict(x))


def test_what_the_encoder_makes_of_columns():
    """Against the same by hand."""
    x = pd.DataFrame({"a": [1.0, np.nan, 3.0, 8.0], "b": ["u", None, "v", "u"], "c": [True, False, True, True]})
    encoder = Encoder.choose(x, "auto", 0, 0)
    found = encoder.fit_transform(x, np.zeros(4))
    assert encoder.names == ["a", "c", "a is missing", "b is missing", "b = u", "b = v"]
    by_hand = [[1, 1, 0, 0, 1, 0], [3, 0, 1, 1, 0, 0], [3, 1, 0, 0, 0, 1], [8, 1, 0, 0, 1, 0]]
    np.testing.assert_array_equal(found, by_hand)
    year = pd.DataFrame({"day": pd.to_datetime(["2000-01-01", "2001-01-01", "2000-01-08"])})
    encoder = Encoder.choose(year, "auto", 0, 0)
    days, cos, sin, week, _ = encoder.fit_transform(year, np.zeros(3)).T
    np.testing.assert_array_equal(days, [0, 366, 7])
    np.testing.assert_allclose([cos[0], sin[0], cos[1], week[2]], [1, 0, 1, 1], atol=1e-3)


def test_dates_of_any_type_and_time():
    """Python's dates as pandas' own, and from pandas 3 on years beyond 2262, where nanoseconds end."""
    days = [date(2024, 5, 1), None, date(2250 if pd.__version__ < "3" else 9999, 12, 31)]
    features = []
    for column in (pd.Series(days, dtype=object), pd.Series(days, dtype="datetime64[us]")):
        encoder = Encoder.choose(column.to_frame("day"), "auto", 0, 0)
        assert encoder.columns[0].kind == "date"
        features.append(encoder.fit_transform(column.to_frame("day"), np.zeros(3)))
    np.testing.assert_array_equal(features[0], features[1])
    assert features[0][2, 0] - features[0][0, 0] == (days[2] - days[0]).days


def test_tables_that_cannot_be_features():
    with pytest.raises(ValueError, match="0 feature"):
        SAERegressor(**QUICK).fit(pd.DataFrame(index=range(60)), Y)
    with pytest.raises(InvalidInput, match="5 rows at least"):
        SAERegressor(**QUICK, encoding="target").fit(pd.DataFrame({"a": ["u", "v", "u"]}), Y[:3])


def test_many_texts_become_means_of_the_target():
    """Training rows see means over other rows; new rows those over all, drawn towards the overall mean."""
    people = np.repeat([f"p{i}" for i in range(MOST_LEVELS + 10)], 6)
    effect = np.repeat(RNG.normal(size=MOST_LEVELS + 10), 6) + 0.1 * RNG.normal(size=people.size)
    x = pd.DataFrame({"person": people})
    encoder = Encoder.choose(x, "auto", 0, 0)
    own, other = encoder.fit_transform(x, effect), encoder.transform(x)
    assert own.shape == other.shape == (len(x), 1)
    assert np.corrcoef(other[:, 0], effect)[0, 1] > 0.9
    assert np.abs(own - other).max() > 0.01
    np.testing.assert_allclose(encoder.transform(pd.DataFrame({"person": ["new"]})), effect.mean())
    again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
    np.testing.assert_array_equal(again.transform(x), other)
    for classes, y in ((2, effect > 0), (3, np.digitize(effect, [-0.5, 0.5]))):
        encoder = Encoder.choose(x, "target", classes, 0)
        encoder.fit_transform(x, y)
        again = Encoder.from_json(json.loads(json.dumps(encoder.to_json())))
        np.testing.assert_array_equal(again.transform(x), encoder.transform(x))
        assert len(again.names) == (1 if classes == 2 else 3)
    assert len(Encoder.choose(x, "one_hot", 0, 0)._names()[2]) == 1
    with pytest.raises(InvalidInput, match="one target"):
        SAERegressor(**QUICK).fit(x, np.stack([effect, effect], axis=1))
    with pytest.raises(InvalidInput, match="encoding"):
        SAERegressor(encoding="sum").fit(x, effect)


def test_a_table_in_cross_validation_and_with_classes():
    x, y = table()
    assert cross_val_score(SAERegressor(**QUICK), x, y, cv=2).shape == (2,)
    model = SAEClassifier(**QUICK).fit(x, np.where(y > 1, "up", "down"))
    assert model.predict_proba(x).shape == (60, 2)


def test_a_table_goes_on_with_the_same_data_alone():
    x, y = table()
    model = SAERegressor(**{**QUICK, "budget": 30, "chains": 3}, warm_start=True).fit(x, y)
    model.set_params(budget=60, chains=6).fit(x, y)
    assert len(model.posterior_) == 6
    with pytest.raises(InvalidInput, match="other data"):
        model.fit(x.assign(text="z"), y)


def test_early_stopping_keeps_the_best_epoch_by_rows_that_are_held_back():
    options = {**QUICK, "budget": 600, "chains": 2, "perturb_targets": False}
    noise = RNG.normal(size=60)  # nothing to learn, and much to learn by heart
    last, best = (SAERegressor(**options, early_stopping=stop).fit(X, noise) for stop in (False, True))
    assert best.plan_.method.training.keep == "best"
    assert best.posterior_.about["rows"] == 54
    assert np.abs(best.predict(X)).mean() < np.abs(last.predict(X)).mean()
    for share in (0, 1.5):
        with pytest.raises(InvalidInput, match="validation_fraction"):
            SAERegressor(**options, early_stopping=True, validation_fraction=share).fit(X, Y)


def test_weights_of_classes(tmp_path):
    labels = (np.arange(60) < 6).astype(int)  # a tenth of them, and no feature tells which
    x = np.zeros((60, 1))
    plain, balanced, own = (
        SAEClassifier(**{**QUICK, "budget": 600}, class_weight=weight).fit(x, labels)
        for weight in (None, "balanced", {0: 1.0, 1: 9.0})
    )
    assert plain.predict_proba(x[:1])[0, 1] < 0.2
    assert balanced.predict_proba(x[:1])[0, 1] == pytest.approx(0.5, abs=0.1)
    np.testing.assert_allclose(balanced.predict_proba(x), own.predict_proba(x), atol=0.05)
    own.save(tmp_path / "own")
    assert SAEClassifier.load(tmp_path / "own").class_weight == {0: 1.0, 1: 9.0}


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"up": -1, "down": 1}, r"class_weight\['up'\]: got -1"),
        ({"up": float("nan"), "down": 1}, r"class_weight\['up'\]: got nan"),
        ("even", "'balanced', a dictionary of weights, or None"),
        ({"up": 0, "down": 1}, "one class alone, 'down', with a weight above zero"),
    ],
)
def test_weights_of_classes_that_are_none_are_refused(weights, words):
    with pytest.raises(InvalidInput, match=words):
        SAEClassifier(**QUICK, class_weight=weights).fit(X, LABELS)


@pytest.mark.parametrize("kind", ["list", "object", "str", "string", "category"])
def test_labels_that_are_missing_are_refused(kind):
    labels = [None, *LABELS[1:].tolist()]
    with pytest.raises(InvalidInput, match="no label in row 0"):
        SAEClassifier(**QUICK).fit(X, labels if kind == "list" else pd.Series(labels, dtype=kind))


@pytest.mark.parametrize("quantiles", [(), (0.5, 1.0), "many", [[0.1], [0.9]]])
def test_quantiles_that_are_none_are_refused_before_training(quantiles):
    with pytest.raises(InvalidInput, match="quantiles: got"):
        SAERegressor(budget=10**9, quantiles=quantiles).fit(X, Y)


def test_the_curve_of_losses(regressor):
    curve = regressor.loss_curve_
    assert curve.shape == (10,)
    expected = np.mean([member.trace for member in regressor.posterior_], axis=0)
    np.testing.assert_allclose(curve, expected, rtol=1e-6)
    assert curve[-1] < curve[0]
    assert not hasattr(SAERegressor(), "loss_curve_")


def test_plots(regressor):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    assert regressor.plot().get_ylabel() == "loss (nats a row)"
    ax = regressor.plot(X, Y)
    low, high = regressor.predict_interval(X)
    outside = int(((low > Y) | (high < Y)).sum())
    drawn = {line.get_label(): len(line.get_xdata()) for line in ax.lines}
    assert drawn == {"mean": 60, "truth, inside": 60 - outside, "truth, outside": outside}
    assert regressor.plot(X, ax=ax) is ax
    line = SAERegressor(**QUICK).fit(X[:, :1], Y).plot(X[:, :1], Y)
    np.testing.assert_array_equal(line.lines[0].get_xdata(), np.sort(X[:, 0]))
    with pytest.raises(InvalidInput, match=r"plot\(y=\)"):
        regressor.plot(X, Y[:3])
    towns = pd.DataFrame({"town": ["Ulm", None, "Bonn"] * 20})
    assert "rows" in SAERegressor(**QUICK).fit(towns, Y).plot(towns, Y).get_xlabel()  # texts are not along a line
    days = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=60)})
    drawn = SAERegressor(**QUICK).fit(days, Y).plot(days, Y)
    assert drawn.get_xlabel() == "day"
    drawn.figure.canvas.draw()
    assert "Feb" in [tick.get_text() for tick in drawn.get_xticklabels()]  # short, so that dates do not overlap
    classifier = SAEClassifier(**QUICK).fit(X, LABELS)
    for wrong in (LABELS[:3], np.arange(60)):
        with pytest.raises(InvalidInput, match=r"plot\(y=\)"):
            classifier.plot(X, wrong)
    assert classifier.plot(X, LABELS).get_ylabel() == "share that is right"
    assert classifier.plot(X).get_ylabel() == "rows"
    assert classifier.plot().get_xlabel() == "epoch of a chain"
    assert log_loss(LABELS, classifier.predict_proba(X)) < 0.7
    pyplot.close("all")
