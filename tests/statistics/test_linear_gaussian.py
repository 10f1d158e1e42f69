"""Anchored optima on a linear-Gaussian model, where everything has a closed form.

With P the posterior's precision and S the prior's covariance, the anchored optima have the posterior's mean and the
covariance inv(P) inv(S) inv(P); with perturbed targets the covariance is inv(P). Standard errors are over
chains, which are independent, never over members.
"""

from functools import lru_cache

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, Z, assert_moments, stacked_params

CHAINS = 3000
WALKS = [aw.GuidedWalk(step_size=0.5), aw.Autoregressive(step_size=0.6)]


@lru_cache
def draw(mean, members, walk, perturb=False):
    """Members and last states of many chains; without a walk, of an anchored ensemble."""
    model = LinearGaussian(mean)
    training = model.training()
    # Batches are full, so the order of rows decides nothing: a shared one is just faster.
    if walk is None:
        method = aw.AE(training, perturb_targets=perturb, shared_order=True)
    else:
        then = training if members > 1 else None
        method = aw.SAE(training, then, walk, perturb_targets=perturb, shared_order=True)
    store, runner, plan = MemoryStore(), aw.Local(threads=1, lanes=1000), aw.Plan(method, CHAINS, members)
    posterior = aw.sample(jax.random.key(0), model.problem, plan, runner=runner, store=store, callbacks=[])
    assert len(posterior) == CHAINS * members
    draws = stacked_params(posterior)["w"].reshape(CHAINS, members, 3).astype(np.float64)
    return draws, tree.stack([store.state(chain) for chain in range(CHAINS)])


@pytest.mark.parametrize("mean", [0.0, 1.5])
@pytest.mark.parametrize("walk", [None, WALKS[0]], ids=repr)
def test_anchored_ensemble(walk, mean):
    model = LinearGaussian(mean=mean)
    assert_moments(draw(model.mean, 1, walk)[0], model.posterior_mean, model.anchored_covariance)


@pytest.mark.parametrize("mean", [0.0, 1.5])
@pytest.mark.parametrize("walk", WALKS, ids=repr)
def test_sequential_anchored_ensemble(walk, mean):
    model = LinearGaussian(mean=mean)
    assert_moments(draw(model.mean, 4, walk)[0], model.posterior_mean, model.anchored_covariance)


@pytest.mark.parametrize(("members", "walk"), [(1, None), (1, WALKS[0]), (4, WALKS[0])])
def test_perturbed_targets_restore_the_posterior(members, walk):
    model = LinearGaussian(mean=1.5)
    draws, _ = draw(model.mean, members, walk, True)
    assert_moments(draws, model.posterior_mean, model.posterior_covariance)


def test_the_two_covariances_can_be_told_apart():
    # Else the tests above would say nothing.
    model = LinearGaussian(mean=1.5)
    draws, _ = draw(model.mean, 1, WALKS[0])
    with pytest.raises(AssertionError):
        assert_moments(draws, model.posterior_mean, model.posterior_covariance)
    with pytest.raises(AssertionError):
        assert_moments(draws, LinearGaussian(mean=0.0).posterior_mean, model.anchored_covariance)


def test_autocorrelation_of_members_is_the_walks():
    # The optimum is linear in the anchor, so an autoregressive walk hands its correlations on exactly.
    model, walk = LinearGaussian(), aw.Autoregressive(step_size=0.6)
    draws = draw(model.mean, 4, walk)[0] - model.posterior_mean
    whitened = draws / np.sqrt(np.diag(model.anchored_covariance))
    for lag in (1, 2, 3):
        expected = walk.correlation**lag
        found = np.mean(whitened[:, 0] * whitened[:, lag], axis=0)
        assert np.all(np.abs(found - expected) < Z * np.sqrt((1 + expected**2) / CHAINS))


@pytest.mark.parametrize("perturb", [False, True])
@pytest.mark.parametrize(("members", "walk"), [(1, None), (1, WALKS[0]), (4, WALKS[0])])
def test_every_member_is_the_optimum_of_its_own_anchor(members, walk, perturb):
    # The store shows each chain's anchor and perturbation as they stand at its last member.
    model = LinearGaussian(mean=1.5)
    draws, states = draw(model.mean, members, walk, perturb)
    positions = states.position if walk is None else states.walk.position
    anchors, noises = model.mean + model.scale * positions[:, :3], positions[:, 3:]
    assert noises.shape == (CHAINS, model.rows if perturb else 0)
    noises = noises if perturb else np.zeros((CHAINS, model.rows))
    optima = [model.optimum(anchor, noise) for anchor, noise in zip(anchors, noises, strict=True)]
    np.testing.assert_allclose(draws[:, -1], optima, atol=2e-5)
    assert np.ptp(anchors[:, 0]) > 1


def test_perturbed_targets_respect_weights():
    # A weight of w is a noise of sigma / sqrt(w): each member is the optimum with its targets moved by that much.
    model, store = LinearGaussian(), MemoryStore()
    weights = np.linspace(0.0, 3.0, model.rows)
    base = model.problem
    problem = aw.Problem(base.init, base.apply, base.likelihood, base.prior, data=(model.x, model.y), weights=weights)
    training = aw.Training(aw.SGD(0.4, momentum=0.5), epochs=300, batch_size=model.rows)
    plan = aw.Plan(aw.AE(training, perturb_targets=True, shared_order=True), chains=3)
    posterior = aw.sample(jax.random.key(0), problem, plan, store=store, callbacks=[])
    precision = model.x.T @ (weights[:, None] * model.x) / model.noise**2 + model.prior_precision
    for chain in range(3):
        anchor, noise = np.split(store.state(chain).position, [3])
        moved = model.y + np.where(weights > 0, model.noise / np.sqrt(np.maximum(weights, 1e-9)), 0) * noise
        pull = model.x.T @ (weights * moved) / model.noise**2
        pull = pull + model.prior_precision @ (model.scale * anchor)
        np.testing.assert_allclose(posterior[chain, 0].params["w"], np.linalg.solve(precision, pull), atol=1e-4)
    # With such moves the pull has covariance X'WX / sigma^2 + inv(S) = P, so that the optimum's is inv(P).
    width = np.where(weights > 0, model.noise / np.sqrt(np.maximum(weights, 1e-9)), 0)
    spread = (model.x * (weights * width / model.noise**2)[:, None]).T
    np.testing.assert_allclose(spread @ spread.T + model.prior_precision, precision, rtol=1e-6)


def estimated(problem, method, chains=1):
    return aw.sample(jax.random.key(0), problem, aw.Plan(method, chains), callbacks=[])


def test_minibatches_with_a_rate_that_goes_to_zero_reach_the_optimum():
    model = LinearGaussian()
    training = aw.Training(aw.SGD(0.15, end_rate=0.0), epochs=1500, batch_size=7)
    estimate = estimated(model.problem, aw.MAP(training))[0, 0].params["w"]
    np.testing.assert_allclose(estimate, model.posterior_mean, atol=0.02)


def test_map_estimate_and_deep_ensemble_have_no_anchors():
    model = LinearGaussian(mean=1.5)
    ensemble = estimated(model.problem, aw.DeepEnsemble(model.training()), chains=3)
    assert len(ensemble) == 3
    for member in ensemble:  # a convex problem has one optimum, whatever the initialisation
        np.testing.assert_allclose(member.params["w"], model.posterior_mean, atol=2e-5)
    estimate = estimated(model.problem, aw.MAP(model.training()))
    assert len(estimate) == 1
    np.testing.assert_allclose(estimate[0, 0].params["w"], model.posterior_mean, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("perturb", [False, True])
@pytest.mark.parametrize(
    "walk",
    [
        aw.Independent(),
        aw.RandomWalk(step_size=1.0),
        aw.GuidedWalk(step_size=0.2),
        aw.Hamiltonian(step_size=0.4, steps=3),
        aw.Autoregressive(step_size=0.3),
        aw.Rotation(step_size=0.3, refresh=0.1),
    ],
    ids=repr,
)
def test_every_walk_gives_the_closed_form(walk, perturb):
    model = LinearGaussian(mean=-0.7)
    draws, _ = draw(model.mean, 8, walk, perturb)
    covariance = model.posterior_covariance if perturb else model.anchored_covariance
    assert_moments(draws, model.posterior_mean, covariance)
