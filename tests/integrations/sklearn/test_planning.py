"""How an estimator's parameters become a plan."""

from types import SimpleNamespace

import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor, networks, planning

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=60)


@pytest.mark.parametrize(("rows", "expected"), [(10, 10), (60, 16), (1600, 16), (5000, 50), (10**6, 128)])
def test_an_epoch_has_about_a_hundred_batches(rows, expected):
    assert planning.batch_rows("auto", rows) == expected
    assert planning.batch_rows(32, rows) == min(32, rows)


@pytest.mark.parametrize(
    ("rows", "batch", "expected"), [(60, 16, 4000), (1600, 16, 1320), (5000, 50, 2000), (10**6, 128, 100)]
)
def test_the_rows_decide_the_budget(rows, batch, expected):
    """100,000 steps and 20 for each row, 400,000 at most."""
    assert planning.epochs("auto", rows, batch) == expected
    assert planning.epochs(70, rows, batch) == 70
    for wrong in ("all", 0, 2.5):
        with pytest.raises(InvalidInput, match="budget"):
            planning.epochs(wrong, rows, batch)


@pytest.mark.parametrize(
    ("kind", "y", "first"), [(SAERegressor, Y, networks.SCALES[0]), (SAEClassifier, Y > 0, networks.SCALES[-1])]
)
def test_small_budgets_have_no_trials_and_the_first_prior(kind, y, first):
    model = kind(budget=50, random_state=0).fit(X, y)
    assert model._chosen == 0
    prior = model._priors()[0].resolve(model.posterior_[0, 0].params)
    expected = {"gate": first.gate, "sharpness": first.sharpness, "dense_0/kernel": first.first / np.sqrt(3)}
    found = {name: float(np.ravel(leaf)[0]) for name, leaf in aw.tree.named_leaves(prior.scale)}
    assert {name: found[name] for name in expected} == pytest.approx(expected)


def test_what_is_given_goes_before_the_planner():
    model = SAERegressor(
        budget=60, chains=3, step_size=0.3, learning_rate=0.02, batch_size=20, prior=0.5, random_state=0
    )
    method = model.fit(X, Y).plan_.method
    assert model.plan_.chains == 3
    assert method.walk == aw.GuidedWalk(0.3)
    assert (method.first.optimizer.rate, method.first.batch_size, method.first.mean_first) == (0.02, 20, 0.5)
    assert [np.unique(leaf).tolist() for _, leaf in aw.tree.named_leaves(model._priors()[0].scale)] == [[0.5]]


def test_a_warm_start_keeps_the_prior_that_trials_chose(monkeypatch, tmp_path):
    """The header of a run has its prior: with another one the fit would be refused."""

    def planned(key, problem, *_, priors, **__):
        training = aw.Training(aw.Adam(0.01), 2, 16)
        plan = aw.Plan(aw.SAE(training, training, perturb_targets=True), 2, 2)
        return SimpleNamespace(plan=plan, chosen=2, problem=problem.with_prior(priors[1]))

    monkeypatch.setattr(planning, "plan_for", planned)
    model = SAERegressor(warm_start=True, budget=20, random_state=0).fit(X, Y)
    model.save(tmp_path / "run")
    for one in (model, SAERegressor.load(tmp_path / "run")):
        assert one._chosen == 2
        one.set_params(budget=40).fit(X, Y)
        assert one.plan_.total == 20
    one._chosen = 1
    with pytest.raises(InvalidInput, match="prior"):
        one.set_params(budget=60).fit(X, Y)
