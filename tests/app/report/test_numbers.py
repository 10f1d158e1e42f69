"""What the report computes itself: coverage from one pass, error bars, words that follow from the numbers."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import anchorwalk as aw
from anchorwalk.app.report import ReportData, classes, formatting, numbers, run
from helpers import posterior_of

pytestmark = pytest.mark.slow

POSITIONS = np.array([-0.6, 0.1, 0.8])


def moved(w, x):
    return x + w


def targets_of(likelihood, x, y, positions=POSITIONS, **options):
    posterior = posterior_of([jnp.asarray(w, jnp.float32) for w in positions], moved, likelihood)
    data = ReportData(x, y, **options)
    prediction = posterior.predict(x)
    scale, shift = numbers.units(prediction, data, isinstance(likelihood, aw.Normal))
    return posterior, prediction, numbers.split(posterior, prediction, data, np.arange(len(x)), scale, shift)


def test_the_mixtures_distribution_function_is_that_of_scipy():
    x = np.linspace(-2, 2, 9)
    y = np.sin(5 * x)
    _, _, (one,) = targets_of(aw.Normal(scale=0.7), x, y)
    expected = np.mean([stats.norm.cdf(y, x + w, 0.7) for w in POSITIONS], axis=0)
    np.testing.assert_allclose(one.upto, expected, rtol=1e-6)  # the networks' outputs are float32
    np.testing.assert_allclose(one.below, expected, rtol=1e-6)
    x = np.linspace(-1, 2, 9)
    y = np.arange(9.0) % 4
    _, _, (one,) = targets_of(aw.Poisson(), x, y)
    for found, at in ((one.upto, y), (one.below, y - 1)):
        expected = np.mean([stats.poisson.cdf(at, np.exp(x + w)) for w in POSITIONS], axis=0)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-12)
    assert one.below[0] == 0  # P(Y < 0)


@pytest.mark.parametrize("likelihood", [aw.Normal(scale=0.7), aw.Poisson()], ids=repr)
@pytest.mark.parametrize("coverage", [0.1, 0.5, 0.9])
def test_one_pass_tells_which_intervals_hold_the_truth(likelihood, coverage):
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    y = rng.poisson(np.exp(x)).astype(float) if isinstance(likelihood, aw.Poisson) else x + rng.normal(size=200)
    _, prediction, (one,) = targets_of(likelihood, x, y)
    low, high = prediction.interval(coverage)
    expected = (low <= y) & (y <= high)
    assert 0.05 < expected.mean() < 1
    # A quantile is exact to 1e-4 standard deviations: none of 200 truths is that close to an end here.
    np.testing.assert_array_equal(one.inside(coverage), expected)


def test_units_scale_means_and_deviations():
    x, y = np.linspace(-1, 1, 5), np.zeros(5)
    _, prediction, (one,) = targets_of(aw.Normal(scale=0.7), x, y, scale=10.0, shift=3.0)
    np.testing.assert_allclose(one.mean, 10 * prediction.mean + 3)
    np.testing.assert_allclose(one.std, 10 * prediction.std)
    np.testing.assert_allclose(one.y, 3)
    np.testing.assert_allclose(one.epistemic, 10 * POSITIONS.std(), rtol=1e-5)


@pytest.mark.parametrize(("noise", "word"), [(0.7, "agrees with"), (2.5, "too narrow"), (0.1, "too wide")])
def test_the_verdict_on_intervals_follows_from_the_truth(noise, word):
    rng = np.random.default_rng(3)
    x = rng.normal(size=400)
    # With noise 0.7 and the members' own positions, targets are draws of the mixture itself.
    y = x + rng.choice(POSITIONS, size=400) * (noise > 0.5) + noise * rng.normal(size=400)
    _, _, (one,) = targets_of(aw.Normal(scale=0.7), x, y)
    assert word in numbers.calibration(one, whole=False).caption


@pytest.mark.parametrize(("hits", "rows"), [(0, 1), (1, 1), (0, 30), (9, 10), (450, 500)])
def test_error_bars_are_wilsons(hits, rows):
    expected = stats.binomtest(hits, rows).proportion_ci(method="wilson")
    low, high = formatting.wilson(hits, rows)
    assert float(low) == pytest.approx(expected.low, abs=1e-12)
    assert float(high) == pytest.approx(expected.high, abs=1e-12)
    assert low <= hits / rows <= high


def test_calibration_error_by_chance_is_what_calibrated_rows_have():
    rng = np.random.default_rng(0)
    p = rng.uniform(0.5, 1, size=2000)
    table = np.stack([p, 1 - p], 1)
    found = []
    for _ in range(200):
        y = (rng.uniform(size=2000) > p).astype(int)
        one = classes.Target("t", ["a", "b"], table, np.zeros(2000), np.zeros(2000), y)
        error, chance = classes.calibration_error(one)
        found.append(error)
    # Mean of 200 errors, each of a relative spread below 1 / sqrt(5 bins): within 4 of its own standard errors.
    assert np.mean(found) == pytest.approx(chance, abs=4 * np.std(found) / math.sqrt(200) + 0.02 * chance)


def test_the_parts_of_the_entropy_are_those_of_the_prediction():
    posterior = posterior_of([jnp.asarray(w, jnp.float32) for w in POSITIONS], moved, aw.Bernoulli())
    x = np.linspace(-3, 3, 7)
    prediction = posterior.predict(x)
    (one,) = classes.split(prediction, ReportData(x, (x > 0).astype(int)), np.arange(7))
    np.testing.assert_allclose(one.probabilities.sum(axis=1), 1)
    np.testing.assert_allclose(one.probabilities[:, 1], prediction.mean)
    np.testing.assert_allclose(one.epistemic + one.aleatoric, prediction.entropy, rtol=1e-9)
    np.testing.assert_allclose(one.epistemic, prediction.mutual_information)


WALKS = [
    aw.GuidedWalk(step_size=0.1),
    aw.RandomWalk(step_size=1e-05),
    aw.Autoregressive(step_size=0.5),
    aw.Hamiltonian(step_size=0.2, steps=5),
    aw.Rotation(step_size=0.3, refresh=0.1),
    aw.Independent(),
]


TRAINING = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=1)


@pytest.mark.parametrize("walk", WALKS, ids=repr)
def test_walks_are_read_from_what_the_method_says(walk):
    encoded = json.loads(json.dumps(aw.SAE(TRAINING, walk=walk).to_json()))
    assert run._walk(encoded) == walk


@pytest.mark.parametrize(
    "walk",
    [
        None,
        "",
        "GuidedWalk(step_size=0.1)",
        [],
        {},
        {"name": "AtMean", "settings": {}},
        {"name": "GuidedWalk"},
        {"name": "GuidedWalk", "settings": {}},
        {"name": "GuidedWalk", "settings": {"step_size": -1.0}},
        {"name": "GuidedWalk", "settings": {"step_size": math.nan}},
        {"name": "GuidedWalk", "settings": {"size": 0.1}},
        {"name": "GuidedWalk", "settings": [0.1]},
        {"name": "GuidedWalk", "settings": {"step_size": "__import__('os').getpid()"}},
        {"name": "GuidedWalk", "settings": {"step_size": 10**400}},
        {"name": "Posterior", "settings": {"step_size": 0.1}},
        {"name": "Normal", "settings": {"scale": 0.1}},
        {"name": "Mine", "settings": {"step_size": 0.1}},
        {"name": ["GuidedWalk"], "settings": {"step_size": 0.1}},
        {"name": "GuidedWalk", "settings": {"step_size": {"array": [0.1, 0.2], "dtype": "float32"}}},
        {"name": "GuidedWalk", "settings": {"step_size": {"array": [0.1, "x"], "dtype": "float32"}}},
        {"name": "GuidedWalk", "settings": {"step_size": {"array": [0.1], "dtype": "object"}}},
    ],
    ids=str,
)
def test_other_things_are_no_walks(walk):
    assert run._walk({"name": "SAE", "settings": {"walk": walk}}) is None


@pytest.mark.parametrize("method", [{}, {"name": "SAE"}, {"settings": None}, {"settings": {}}, {"settings": []}])
def test_methods_without_walks_have_none(method):
    assert run._walk(method) is None
    assert run._other_walk(method) == ""


def test_sentences_on_the_loss_along_chains():
    from anchorwalk.app.report.training import _members_words

    rng = np.random.default_rng(0)
    for slope, word in ((0.0, "stays level"), (0.05, "rises along"), (-0.05, "still falls")):
        after = 1 + slope * np.arange(50) + 0.01 * rng.normal(size=50)
        assert word in _members_words({"after training": np.stack([after] * 3)})


def test_peaks_survive_where_points_are_left_out():
    from anchorwalk.app.report.training import POINTS, _with_peaks

    values = np.zeros(5000)
    values[[17, 1234, 4999]] = 7.0
    kept = _with_peaks(values)
    assert len(kept) <= POINTS
    assert {17, 1234, 4999} <= set(kept.tolist())


def test_features_in_the_table_are_numbers_or_words():
    values = np.array([[1.23456, "red <b>", True], [np.nan, None, 1200]], dtype=object)
    names, cells = ReportData(np.zeros((2, 5)), names=["a", "b", "c"], values=values).features(np.array([1, 0]))
    assert names == ["a", "b", "c"]
    assert cells == [["missing", "missing", "1,200"], ["1.235", "red <b>", "True"]]
    assert ReportData(np.zeros((2, 9)), names=list("abcdefghi")).features(np.array([0])) == ([], [[]])
