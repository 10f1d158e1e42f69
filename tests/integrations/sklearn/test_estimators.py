"""The scikit-learn door: its contract, its place in other tools, and what its numbers mean."""

import dataclasses
import json
import pickle
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris, make_regression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import anchorwalk as aw
from anchorwalk.errors import InvalidInput, StoreDamaged
from anchorwalk.integrations.sklearn import EXPECTED_FAILED_CHECKS, SAEClassifier, SAERegressor, networks
from anchorwalk.optimizers import train
from anchorwalk.run.runners import Local
from helpers import small_plan, small_problem
from stored import relisted

QUICK = {"budget": 100, "random_state": 0}
few_and_apart = pytest.mark.filterwarnings("ignore::anchorwalk.errors.NotConvergedWarning")
"""Fits of ten members a chain or more, so short that their chains disagree, which they say."""
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)
LABELS = np.where(Y > 0, "up", "down")


def test_no_more_than_two_checks_are_left_out():
    assert len(EXPECTED_FAILED_CHECKS) <= 2
    assert all(len(reason) > 40 for reason in EXPECTED_FAILED_CHECKS.values())


@pytest.fixture(scope="module")
def regressor():
    return SAERegressor(**QUICK).fit(X, Y)


@pytest.fixture(scope="module")
def classifier():
    return SAEClassifier(budget=300, random_state=0).fit(X, LABELS)


def test_predictions_of_numbers(regressor):
    mean, std = regressor.predict(X, return_std=True)
    low, high = regressor.predict_interval(X, coverage=0.5)
    assert mean.shape == std.shape == low.shape == high.shape == (60,)
    np.testing.assert_array_equal(mean, regressor.predict(X))
    assert regressor.score(X, Y) > 0.9
    assert np.all(low < high)
    assert np.all(std > 0)
    # Draws have the moments that are claimed: five standard errors of 2000 draws.
    drawn = regressor.sample_y(X[:4], n_samples=2000, random_state=1)
    assert drawn.shape == (4, 2000)
    assert np.all(np.abs(drawn.mean(axis=1) - mean[:4]) < 5 * std[:4] / np.sqrt(2000))
    inside = np.mean((drawn > low[:4, None]) & (drawn < high[:4, None]), axis=1)
    assert np.all(np.abs(inside - 0.5) < 5 * 0.5 / np.sqrt(2000))


def test_intervals_are_in_the_targets_units():
    """A target in other units gives the same predictions in those units."""
    one = SAERegressor(**QUICK).fit(X, Y)
    other = SAERegressor(**QUICK).fit(X, 1000 * Y + 5)
    for method in (lambda m: m.predict(X), lambda m: m.predict_interval(X)[1], lambda m: m.sample_y(X)[:, 0]):
        np.testing.assert_allclose(method(other), 1000 * method(one) + 5, rtol=1e-3, atol=1e-3 * 1000 * Y.std())


def test_uncertainty_grows_away_from_the_data(regressor):
    _, near = regressor.predict(X, return_std=True)
    _, far = regressor.predict(10 * X[:5], return_std=True)
    assert far.min() > np.median(near)


@pytest.mark.slow
def test_known_noise_is_the_least_spread():
    model = SAERegressor("ae", noise=0.5, **QUICK).fit(X, Y)
    _, std = model.predict(X, return_std=True)
    assert np.all(std >= 0.5 * (1 - 1e-5))


@pytest.mark.slow
def test_noise_that_varies_is_found():
    x = RNG.uniform(-1, 1, size=(400, 1))
    scale = np.where(x[:, 0] > 0, 1.0, 0.1)
    y = scale * RNG.normal(size=400)
    model = SAERegressor("ae", noise="varying", budget=1000, random_state=0).fit(x, y)
    _, std = model.predict([[-0.5], [0.5]], return_std=True)
    # 200 rows on each side give a scale to within 5 / sqrt(2 * 200) = 25%; the prior smooths the step between.
    assert 0.05 < std[0] < 0.3
    assert 0.6 < std[1] < 1.4


@pytest.mark.slow
def test_several_targets():
    x, y = make_regression(80, 4, n_targets=3, noise=1.0, random_state=0)
    model = SAERegressor("ae", budget=400, random_state=0).fit(x, y)
    mean, std = model.predict(x, return_std=True)
    low, high = model.predict_interval(x)
    assert mean.shape == std.shape == low.shape == high.shape == (80, 3)
    assert model.sample_y(x, 5).shape == (80, 3, 5)
    assert model.score(x, y) > 0.9


def test_predictions_of_classes(classifier):
    probabilities = classifier.predict_proba(X)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(classifier.predict(X), classifier.classes_[probabilities.argmax(axis=1)])
    np.testing.assert_array_equal(classifier.predict_log_proba(X), np.log(probabilities))
    assert classifier.score(X, LABELS) > 0.9
    drawn = classifier.sample_y(X[:4], n_samples=1000)
    assert drawn.shape == (4, 1000)
    share = np.mean(drawn == "up", axis=1)
    chance = probabilities[:4, 1]
    assert np.all(np.abs(share - chance) <= 5 * np.sqrt(chance * (1 - chance) / 1000) + 1e-9)


@pytest.mark.parametrize(("method", "kind"), [("ae", aw.AE), ("deep_ensemble", aw.DeepEnsemble)])
def test_other_methods(method, kind):
    model = SAERegressor(method, chains=3, **QUICK).fit(X, Y)
    assert len(model.posterior_) == 3
    assert model.plan_.members == 1
    assert model.score(X, Y) > 0.5
    assert type(model.plan_.method) is kind
    assert model.posterior_.settings["method"] == model.posterior_.about["method"]["name"] == kind.__name__
    assert "walk" not in model.posterior_.settings


@pytest.mark.parametrize(
    ("wrong", "words"), [({"hidden": 50}, r"hidden.*\(50,\)"), ({"learning_rate": "fast"}, "learning_rate.*'fast'")]
)
@pytest.mark.parametrize("kind", [SAERegressor, SAEClassifier])
def test_wrong_settings_are_named(kind, wrong, words):
    with pytest.raises(ValueError, match=words):
        kind(**wrong).fit(X, Y if kind is SAERegressor else LABELS)


@pytest.mark.slow
def test_weights_count_as_repeated_rows():
    """The optimum is the same; minibatches differ, so predictions agree to a fraction of their spread.

    Targets stay where they are: a row of weight two has one draw of the noise, two rows have two.
    """
    weights = RNG.integers(0, 3, size=60)
    options = {
        "method": "ae",
        "chains": 4,
        "budget": 600,
        "batch_size": 1000,
        "random_state": 0,
        "perturb_targets": False,
    }
    weighted = SAERegressor(**options).fit(X, Y, sample_weight=weights)
    repeated = SAERegressor(**options).fit(np.repeat(X, weights, axis=0), np.repeat(Y, weights))
    ignored = SAERegressor(**options).fit(X, Y)
    mean, std = repeated.predict(X, return_std=True)
    near = np.abs(weighted.predict(X) - mean) / std
    far = np.abs(ignored.predict(X) - mean) / std
    assert near.max() < 0.1
    assert far.max() > near.max()


def test_the_same_seed_gives_the_same_predictions_and_another_does_not():
    one, same, other = (SAERegressor(budget=50, random_state=seed).fit(X, Y).predict(X) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one, same)
    assert np.abs(one - other).max() > 1e-6


@few_and_apart
def test_warm_start_adds_members_and_keeps_those_that_are_there():
    model = SAERegressor(warm_start=True, **QUICK).fit(X, Y)
    before = [member.params["dense_0"]["kernel"] for member in model.posterior_]
    count, chains = len(model.posterior_), model.plan_.chains
    model.set_params(budget=200).fit(X, Y)
    assert len(model.posterior_) > count
    assert model.plan_.chains == chains
    after = {(info.chain, info.index): info for info in model.posterior_.infos}
    assert len(after) == len(model.posterior_)
    firsts = [model.posterior_[chain, 0].params["dense_0"]["kernel"] for chain in range(chains)]
    np.testing.assert_array_equal(firsts, before[:: count // chains])
    with pytest.raises(InvalidInput, match="data"):
        model.set_params(budget=300).fit(X[::-1], Y)


@few_and_apart
def test_a_time_instead_of_a_budget(monkeypatch):
    """By a clock that counts a second for each member that was trained, the seconds are the members."""
    from anchorwalk.integrations.sklearn import base, planning

    trained = 0

    def counted(*arguments, **options):
        nonlocal trained
        posterior = base_sample(*arguments, **options)
        trained += len(posterior.infos) - len(previous)
        previous[:] = posterior.infos
        return posterior

    base_sample, previous = base.sample, []
    monkeypatch.setattr(base, "sample", counted)
    monkeypatch.setattr(planning, "time", SimpleNamespace(perf_counter=lambda: trained))
    few = SAERegressor(seconds=18, **QUICK).fit(X, Y)
    chains = few.plan_.chains
    assert 18 - chains < few.plan_.total <= 18
    trained, previous[:] = 0, []
    more = SAERegressor(seconds=80, **QUICK).fit(X, Y)
    assert 80 - chains < more.plan_.total <= 80
    assert more.plan_.method == few.plan_.method


def test_pickles_and_clones(regressor, classifier):
    for model in (regressor, classifier):
        again = pickle.loads(pickle.dumps(model))  # noqa: S301  # our own bytes
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        fresh = clone(model)
        assert fresh.get_params() == model.get_params()
        assert not hasattr(fresh, "posterior_")


@few_and_apart
def test_an_unpickled_estimator_goes_on():
    model = SAERegressor(warm_start=True, budget=50, random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    for one in (model, again):
        one.set_params(budget=100).fit(X, Y)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_save_and_load(tmp_path, regressor, classifier):
    for name, model in (("numbers", regressor), ("classes", classifier)):
        model.save(tmp_path / name)
        again = type(model).load(tmp_path / name)
        np.testing.assert_array_equal(again.predict(X), model.predict(X))
        assert again.get_params() == model.get_params()
        assert (again.plan_, again.n_iter_) == (model.plan_, model.n_iter_)
        with pytest.raises(InvalidInput, match="nothing is overwritten"):
            model.save(tmp_path / name)
        pickled = pickle.loads(pickle.dumps(again))  # noqa: S301
        np.testing.assert_array_equal(pickled.predict(X), model.predict(X))
        again.save(tmp_path / f"{name} again")
        np.testing.assert_array_equal(type(model).load(tmp_path / f"{name} again").predict(X), model.predict(X))
    with pytest.raises(InvalidInput, match="SAERegressor"):
        SAEClassifier.load(tmp_path / "numbers")
    with pytest.raises(InvalidInput, match=r"estimator\.json"):
        SAERegressor.load(tmp_path)


def test_a_runner_is_where_chains_are_trained_and_is_not_saved(tmp_path):
    model = SAERegressor(budget=20, random_state=0, runner=Local(threads=1, lanes=1)).fit(X, Y)
    assert model.posterior_.settings["lanes"] == "1"
    model.save(tmp_path / "run")
    again = SAERegressor.load(tmp_path / "run")
    assert again.runner == "auto"
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    with pytest.raises(InvalidInput, match="runner: got 'fast', expected one of 'auto'"):
        SAERegressor(runner="fast").fit(X, Y)


def test_a_saved_estimator_holds_its_plan_as_json(tmp_path, regressor):
    regressor.save(tmp_path / "run")
    encoded = json.loads((tmp_path / "run" / "estimator.json").read_text())
    assert encoded["format"] == 4
    assert encoded["fitted"]["plan"] == regressor.plan_.to_json()
    method = encoded["fitted"]["plan"]["method"]
    assert method["name"] == "SAE"
    assert method["settings"]["walk"] == {"name": "GuidedWalk", "settings": {"step_size": 1.0}}
    assert method["settings"]["perturb_targets"] is True


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda about: about.update(format=1), InvalidInput, "format 1, expected format 4"),
        (lambda about: about["fitted"]["plan"].pop("method"), StoreDamaged, "is not what was written"),
        (
            lambda about: about["fitted"]["plan"].update(method={"name": "Mine"}),
            StoreDamaged,
            "is not what was written",
        ),
        (lambda about: about["fitted"]["plan"].update(method="SAE"), StoreDamaged, "is not what was written"),
        (lambda about: about["fitted"]["plan"].update(chains=0), StoreDamaged, r"Plan\(chains=\): got 0"),
        (
            lambda about: about["fitted"]["plan"]["method"]["settings"]["walk"]["settings"].update(step_size=10**400),
            StoreDamaged,
            "is not what was written",
        ),
    ],
    ids=["format", "no method", "another's method", "text", "no chains", "a huge number"],
)
def test_a_saved_estimator_that_is_not_as_written_is_refused(tmp_path, regressor, change, error, message):
    regressor.save(tmp_path / "run")
    path = tmp_path / "run" / "estimator.json"
    encoded = json.loads(path.read_text())
    change(encoded)
    path.write_text(json.dumps(encoded))
    relisted(tmp_path / "run", "estimator.json")
    with pytest.raises(error, match=message):
        SAERegressor.load(tmp_path / "run")


@few_and_apart
def test_a_loaded_estimator_goes_on(tmp_path):
    options = {"warm_start": True, "budget": 50, "random_state": 0}
    SAERegressor(**options).fit(X, Y).save(tmp_path / "run")
    gone_on = SAERegressor.load(tmp_path / "run").set_params(budget=100).fit(X, Y)
    at_once = SAERegressor(**options).fit(X, Y).set_params(budget=100).fit(X, Y)
    np.testing.assert_array_equal(gone_on.predict(X), at_once.predict(X))


def test_a_store_takes_members_as_they_come(tmp_path):
    folder = tmp_path / "run"
    model = SAERegressor(store=str(folder), **QUICK).fit(X, Y)
    model.save(folder)
    again = SAERegressor.load(folder)
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    written = (folder / "run.json").stat().st_mtime_ns
    SAERegressor(store=str(folder), **QUICK).fit(X, Y)  # all is there
    assert aw.load(folder, model._network().apply).complete
    assert (folder / "run.json").stat().st_mtime_ns >= written


def small_network(inputs, outputs):
    return aw.networks.mlp(inputs, (5,), outputs)


@pytest.mark.slow
def test_own_networks(tmp_path):
    for network in (small_network, aw.networks.mlp(3, (5,), 2)):
        model = SAERegressor("ae", network=network, learning_rate=1e-2, **QUICK).fit(X, Y)
        assert model.posterior_[0, 0].params["dense_0"]["kernel"].shape == (3, 5)
    model = SAERegressor("ae", network=small_network, **QUICK).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))  # noqa: S301
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    model.save(tmp_path / "own")
    with pytest.raises(InvalidInput, match="passed again"):
        SAERegressor.load(tmp_path / "own")
    loaded = SAERegressor.load(tmp_path / "own", network=small_network)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_fits_of_nearly_equal_size_share_their_programs():
    """Rows are filled up to a common number, so that the folds of a cross-validation compile once."""
    counted = []

    def counting(params, x):
        counted.append(x.shape)
        return aw.networks.mlp(3, (50,), 2).apply(params, x)

    network = aw.networks.Network(aw.networks.mlp(3, (50,), 2).init, counting)
    SAERegressor("ae", network=network, **QUICK).fit(X[:50], Y[:50])
    training = [shape for shape in counted if shape[0] > 1]
    counted.clear()
    SAERegressor("ae", network=network, budget=100, random_state=3).fit(X[:53], Y[:53])
    assert training
    # What remains is the look at shapes at the door: one abstract row, or all of them.
    assert len([shape for shape in counted if shape[0] > 1]) < len(training)


def test_room_is_for_tables_of_a_like_size():
    counts = range(1, 3000)
    rooms = [networks.room(count) for count in counts]
    assert all(count <= room <= max(4, 2 * count) for count, room in zip(counts, rooms, strict=True))
    assert all(room < 1.25 * count for count, room in zip(counts, rooms, strict=True) if count > 16)
    assert rooms == sorted(rooms)
    assert len(set(rooms)) < 40


@pytest.mark.parametrize("estimator", [SAERegressor, partial(SAERegressor, noise="constant"), SAEClassifier])
@pytest.mark.parametrize("method", ["sae", "deep_ensemble"])
def test_tables_of_a_like_size_compile_nothing(estimator, method):
    x = np.random.default_rng(0).normal(size=(64, 16))
    y = x[:, 0] > 0 if estimator is SAEClassifier else x[:, 0]
    estimator(method, **QUICK).fit(x[:60, :9], y[:60]).predict(x[:5, :9])  # room for 64 rows and 16 features
    compiled = []

    def note(name, seconds, **_):
        if name == "/jax/core/compile/backend_compile_duration":
            compiled.append(name)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        for rows, features in ((61, 9), (57, 9), (60, 10), (64, 16)):
            some = x[:rows, :features]
            estimator(method, budget=100, random_state=3).fit(some, y[:rows]).predict(some[:7])
    finally:
        jax.monitoring.unregister_event_duration_listener(note)
    assert compiled == []


@pytest.mark.parametrize("perturb", [False, True])
def test_features_that_fill_up_change_no_member(perturb):
    # Training of the network with room for more features, from the same start to the same anchor, on the same targets.
    features, room = 5, networks.room(5)
    assert room == 8
    x, y = np.random.default_rng(0).normal(size=(60, features)).astype(np.float32), Y[:60].astype(np.float32)
    plain, wide = aw.networks.tabular(features, (7,), 1), networks.build(None, (7,), room, 1)
    prior = networks.default_prior(1.0, False, features, networks.SCALES[1])
    narrow = aw.Problem(plain.init, plain.apply, aw.Normal(scale=0.3), prior, (x, y[:, None]))
    start = networks.narrowed(wide.init, features)
    filled = aw.Problem(start, wide.apply, aw.Normal(scale=0.3), prior, (np.pad(x, ((0, 0), (0, 3))), y[:, None]))
    filled = filled.filled(80, networks.unused(filled.params_like, features))
    shape = jax.tree.map(lambda leaf: leaf.shape, filled.params_like)
    assert shape["dense_0"]["kernel"] == (8, 7)

    def widened(params):
        kernel = jnp.pad(params["dense_0"]["kernel"], ((0, 3), (0, 0)))
        gate = jnp.pad(params["gate"], (0, 3))
        return {**params, "dense_0": {**params["dense_0"], "kernel": kernel}, "gate": gate}

    def cut(params):
        kernel, gate = params["dense_0"]["kernel"][:features], params["gate"][:features]
        return {**params, "dense_0": {**params["dense_0"], "kernel": kernel}, "gate": gate}

    first = narrow.init(jax.random.key(1))
    anchor = narrow.prior.draw(jax.random.key(2), narrow.params_like)
    noise = jax.random.normal(jax.random.key(3), y[:, None].shape) if perturb else None
    longer = jnp.pad(noise, ((0, 20), (0, 0))) if perturb else None
    for optimizer in (aw.Adam(0.01, end_rate=1e-3), aw.Lion(1e-3)):
        training = aw.Training(optimizer, epochs=5, batch_size=16)
        key = jax.random.key(4)
        a, losses_a, _ = train(key, narrow, training, anchor, first, noise)
        b, losses_b, _ = train(key, filled, training, widened(anchor), widened(first), longer)
        assert np.all(np.asarray(b["dense_0"]["kernel"])[features:] == 0)
        assert np.all(np.asarray(b["gate"])[features:] == 0)
        np.testing.assert_allclose(losses_a, losses_b, rtol=1e-5)
        for one, other in zip(jax.tree.leaves(a), jax.tree.leaves(cut(b)), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
    # Its own start has the spread of a network with so many features, and zeros for the others.
    kernels = jax.vmap(filled.init)(jax.random.split(jax.random.key(0), 500))["dense_0"]["kernel"]
    assert np.all(np.asarray(kernels[:, features:]) == 0)
    drawn = np.asarray(kernels[:, :features])
    # The variance of 17,500 draws is known to sqrt(2 / 17,500); the draws are cut off at two standard deviations.
    assert drawn.var() * features == pytest.approx(1, abs=5 * np.sqrt(2 / drawn.size))
    position = filled.prior.anchor(jax.tree.map(jnp.ones_like, filled.params_like))["dense_0"]["kernel"]
    np.testing.assert_allclose(position[:features], networks.SCALES[1].first / np.sqrt(features), rtol=1e-6)
    assert np.all(np.asarray(position)[features:] == 0)


def test_rows_that_fill_up_change_no_member():
    problem = small_problem()
    plan = small_plan(chains=2, members=3, batch_size=7)
    for perturb in (False, True):
        method = dataclasses.replace(plan.method, perturb_targets=perturb)
        problems, same = (problem, problem.filled(32)), aw.Plan(method, 2, 3)
        found = [aw.sample(jax.random.key(0), one, same, callbacks=[]) for one in problems]
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.trace, b.trace, rtol=1e-4)
            for one, other in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


def test_a_pipeline_a_search_and_calibration():
    x, y = load_iris(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), SAEClassifier("ae", **QUICK))
    assert cross_val_score(pipeline, x, y, cv=3).mean() > 0.85
    search = GridSearchCV(pipeline, {"saeclassifier__hidden": [(10,), (50,)]}, cv=2).fit(x, y)
    assert search.best_score_ > 0.85
    calibrated = CalibratedClassifierCV(SAEClassifier("ae", **QUICK), cv=2).fit(x, y)
    np.testing.assert_allclose(calibrated.predict_proba(x).sum(axis=1), 1)


def test_a_row_s_prediction_depends_on_no_other_row(regressor):
    whole = regressor.predict(X)
    np.testing.assert_array_equal(np.concatenate([regressor.predict(X[i : i + 1]) for i in range(5)]), whole[:5])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "mcmc"}, "method"),
        ({"budget": 0}, "budget"),
        ({"noise": "loud"}, "noise"),
        ({"noise": -1.0}, "noise"),
        ({"batch_size": 0}, "batch_size"),
        ({"hidden": (0,)}, "hidden"),
        ({"network": 3}, "network"),
        ({"seconds": -1}, "seconds"),
        ({"prior": -1.0}, "Prior"),
    ],
)
def test_bad_parameters_are_refused(change, message):
    with pytest.raises(InvalidInput, match=message):
        SAERegressor(**{**QUICK, **change}).fit(X, Y)


def test_one_class_alone_is_refused():
    with pytest.raises(InvalidInput, match="one class"):
        SAEClassifier(**QUICK).fit(X, np.zeros(60))


def test_intervals_cover_what_they_say():
    """On a line with known noise, where the model is right: of 2000 new rows, to five binomial standard errors.

    Members spread about the true line too, which the interval counts: it may cover a little more.
    """
    x = RNG.uniform(-1, 1, size=(500, 1))
    y = 2 * x[:, 0] + 0.3 * RNG.normal(size=500)
    model = SAERegressor(random_state=0).fit(x, y)
    new = RNG.uniform(-1, 1, size=(2000, 1))
    truth = 2 * new[:, 0] + 0.3 * RNG.normal(size=2000)
    low, high = model.predict_interval(new, coverage=0.9)
    covered = np.mean((truth > low) & (truth < high))
    tolerance = 5 * np.sqrt(0.9 * 0.1 / 2000)
    # The noise's own estimate errs by 1 / sqrt(2 * 500) = 3%, which moves coverage by 0.03 * 2 * 1.64 * phi(1.64).
    slack = 5 * 0.032 * 2 * 1.645 * stats.norm.pdf(1.645)
    assert abs(covered - 0.9) < tolerance + slack
