"""What a fit says of itself, and that it is silent where nothing is known to be wrong."""

import dataclasses
import pickle
import warnings

import numpy as np
import pytest

from anchorwalk.errors import InvalidInput, NotConvergedWarning, TrainingFailed
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor, base, diagnosis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)
QUICK = {"hidden": (5,), "budget": 40, "chains": 2, "random_state": 0}


@pytest.fixture(scope="module")
def regressor():
    return SAERegressor(**QUICK).fit(X, Y)


@pytest.fixture
def warned(regressor):
    """The warning of a fit whose diagnosis and posterior have some other numbers; None where there is none."""

    def of(infos=None, failed=(), **changes):
        other = pickle.loads(pickle.dumps(regressor))  # noqa: S301
        other.diagnosis_ = dataclasses.replace(other.diagnosis_, **changes)
        infos = other.posterior_.infos if infos is None else infos
        other.posterior_ = dataclasses.replace(other.posterior_, infos=infos, failed=failed)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            diagnosis.warn_of(other, other._inputs(X), other.target_scaling_(Y))
        return str(caught[0].message) if caught else None

    return of


def test_a_fit_is_diagnosed_on_rows_of_training(regressor, capsys):
    found = regressor.diagnosis_
    rows = regressor._inputs(X[diagnosis.spread(60, 64)])
    again = regressor.posterior_.diagnose(rows)
    assert (found.rows, found.members, found.chains) == (64, len(regressor.posterior_), 2)
    assert str(found) == str(again)
    assert capsys.readouterr().out == ""
    SAERegressor(verbose=True, **QUICK).fit(X, Y)
    said = capsys.readouterr().out
    assert said.startswith("40 epochs: 0 for trials, 40 for the plan.")
    assert said.endswith(f"\n{found}\n")
    assert str(pickle.loads(pickle.dumps(regressor)).diagnosis_) == str(found)  # noqa: S301


def test_its_rows_are_spread_evenly():
    assert diagnosis.spread(1000, 5).tolist() == [0, 250, 500, 749, 999]
    assert set(diagnosis.spread(3, 64)) == {0, 1, 2}


def test_it_warns_only_where_it_is_sure(warned, regressor):
    nothing = {"share_above_chance": np.nan, "r_hat_median": np.nan}
    assert warned(**nothing, loss_first=1.0, loss_later=1.0, loss_noise=0.1) is None
    judged = {"r_hat_median": 2.5, "loss_first": 1.0, "loss_later": 1.3, "loss_noise": 0.1}
    assert warned(**judged, share_above_chance=0.1) is None
    assert warned(**{**judged, "r_hat_median": 1.4}, share_above_chance=0.4) is None
    apart = warned(**judged, share_above_chance=0.4)
    assert "chains disagree on 40%" in apart
    assert "chains= (2 now)" in apart
    assert "step_size= (1 now)" in apart
    assert "losses" not in apart
    rising = warned(**{**nothing, "loss_first": 1.0, "loss_later": 1.5, "loss_noise": 0.1})
    assert "losses rise along chains, from 1 to 1.5" in rising
    assert "budget= (40 now)" in rising
    assert warned(**{**nothing, "loss_first": np.nan, "loss_later": np.nan, "loss_noise": np.nan}) is None


def test_members_and_chains_that_diverged_name_the_rate(warned, regressor):
    infos = regressor.posterior_.infos
    bad = (*infos[:-1], infos[-1]._replace(status=1))
    assert f"1 of {len(infos)} members diverged: lower learning_rate= (0.01 now)" in warned(bad)
    assert "1 of 2 chains failed: lower learning_rate=" in warned(failed=(1,))


@pytest.mark.filterwarnings("ignore::anchorwalk.errors.FailedChainsWarning")
@pytest.mark.parametrize("method", ["sae", "deep_ensemble"])
def test_a_rate_that_explodes_is_named(method):
    with pytest.warns(NotConvergedWarning, match=r"targets go from -?\d.*has exploded, lower learning_rate= \(3 now"):
        SAERegressor(method, learning_rate=3.0, **QUICK).fit(X, 100 * Y)
    with pytest.raises(TrainingFailed, match="Lower the optimiser's rate"):
        SAERegressor(method, learning_rate=1000.0, **QUICK).fit(X, 100 * Y)


def test_an_explosion_of_one_target_is_seen_in_its_units():
    both = np.stack([Y, np.zeros(60)], axis=1)
    model = SAERegressor("ae", **QUICK)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, both)
    rows, truth = model._inputs(X), model.target_scaling_(both)
    diagnosis.warn_of(model, rows, truth)  # a constant target has no range
    with pytest.warns(NotConvergedWarning, match="has exploded"):
        diagnosis.warn_of(model, rows, truth * [1e-3, 1])


@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 0.0]])
@pytest.mark.parametrize("kind", [SAERegressor, SAEClassifier])
def test_a_single_row_is_refused(kind, weights):
    rows = 1 if weights is None else 3
    with pytest.raises(InvalidInput, match="1 sample with a weight above zero, expected 2 samples or more"):
        kind(**QUICK).fit(X[:rows], np.arange(rows), sample_weight=weights)


def test_an_interrupted_fit_without_members_is_not_diagnosed(regressor, monkeypatch):
    nothing = dataclasses.replace(regressor.posterior_, infos=())
    monkeypatch.setattr(base, "sample", lambda *_, **__: nothing)
    assert not hasattr(SAERegressor(**QUICK).fit(X, Y), "diagnosis_")
