"""Simplexes: uniform draws, vertices that are pushed apart, and the covariance that they have on a linear model."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods.simplex_sae import within
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, assert_moments, small_problem, stacked_params

KEY = jax.random.key(0)
MODEL = LinearGaussian(mean=0.3)
SHORT = aw.Training(aw.Adam(0.02), epochs=3, batch_size=7)


def test_places_are_uniform_in_the_simplex():
    """Their weights have the mean 1 / K and the covariance (I - 1 / K) / (K (K + 1)); those of absent ones are 0."""
    keys = jax.random.split(KEY, 20_000)
    weights = np.asarray(jax.vmap(within, in_axes=(0, None))(keys, jnp.eye(4)), float)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(1), 1, rtol=1e-6)
    assert_moments(weights[:, None], np.full(4, 0.25), (np.eye(4) - 0.25) / 20)
    present = jnp.asarray([True, False, True, False])
    weights = np.asarray(jax.vmap(lambda key: within(key, jnp.eye(4), present))(keys), float)
    assert (weights[:, [1, 3]] == 0).all()
    assert_moments(weights[:, None, :1], np.full(1, 0.5), np.full((1, 1), 1 / 12))


def test_draws_between_optima_have_their_share_of_the_covariance():
    """Independent optima with the covariance C: a uniform place of K of them has the covariance 2 C / (K + 1)."""
    training = MODEL.training()
    method = aw.SimplexSAE(aw.SAE(training, training, aw.Independent(), shared_order=True), vertices=3, draws=2)
    plan, runner = aw.Plan(method, chains=1500, members=4), aw.Local(threads=1, lanes=750)
    posterior = aw.sample(KEY, MODEL.problem, plan, runner=runner, callbacks=[])
    draws = stacked_params(posterior)["w"].reshape(1500, 4, 3).astype(float)
    assert_moments(draws, MODEL.posterior_mean, MODEL.anchored_covariance / 2)
    with pytest.raises(AssertionError):
        assert_moments(draws, MODEL.posterior_mean, MODEL.anchored_covariance)
    assert plan.epochs == 1500 * 4 * training.epochs  # three optima for the first two draws, one more for the next


def volumes(method):
    store = MemoryStore()
    posterior = aw.sample(KEY, small_problem(), aw.Plan(method, 2, 5), store=store, callbacks=[])
    return [store.state(chain) for chain in range(2)], posterior


def test_vertices_are_pushed_apart_by_the_gain():
    found = []
    for gain in (1e-6, 0.3):
        states, posterior = volumes(aw.SPRO(SHORT, SHORT, vertices=3, gain=gain))
        for state in states:
            edges = state.vertices[1:] - state.vertices[0]
            np.testing.assert_allclose(state.basis @ state.basis.T, np.eye(2), atol=1e-5)
            # Each edge lies in the span of the directions so far: volumes follow from heights.
            np.testing.assert_allclose(edges - edges @ state.basis.T @ state.basis, 0, atol=1e-4)
            found.append(np.sqrt(np.linalg.det(edges @ edges.T)))
    assert max(found[:2]) < min(found[2:])
    for member in posterior:
        state = states[member.info.chain]
        weights = np.linalg.lstsq(state.vertices.T, np.asarray(tree.ravel(member.params)), rcond=None)[0]
        np.testing.assert_allclose(weights @ state.vertices, tree.ravel(member.params), atol=1e-4)
        assert weights.min() > -1e-3
        assert weights.sum() == pytest.approx(1, abs=1e-3)


def test_a_vertex_is_as_far_away_as_the_gain_pays_for():
    """From the optimum a of a quadratic of curvature H, E over u of L(a + u d) - g log |d| is d'Hd / 6 - g log |d|.

    So d is the eigenvector of the least curvature, and |d|² = 3 g / λ.
    """
    values, vectors = np.linalg.eigh(MODEL.precision / MODEL.rows)
    gain, rate = 0.01, float(0.1 / values[-1])
    then = aw.Training(aw.SGD(rate, end_rate=0.0), epochs=3000, batch_size=MODEL.rows)
    store, runner = MemoryStore(), aw.Local(threads=1, lanes=16)
    method = aw.SPRO(MODEL.training(), then, vertices=2, gain=gain)
    aw.sample(KEY, MODEL.problem, aw.Plan(method, 16, 1), runner=runner, store=store, callbacks=[])
    edges = np.array([np.diff(store.state(chain).vertices, axis=0)[0] for chain in range(16)], float)
    exact = np.sqrt(3 * gain / values[0])
    along = np.abs(edges @ vectors[:, 0])
    assert (np.linalg.norm(edges, axis=1) - along < 1e-3 * exact).all()
    # Each step sees one place u of the simplex; over chains what is left of that averages out.
    assert abs(along.mean() - exact) < 6 * along.std(ddof=1) / 4
    assert along.std(ddof=1) < 0.03 * exact


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: aw.SPRO(SHORT, SHORT, vertices=1), r"SPRO\(vertices=\)"),
        (lambda: aw.SPRO(SHORT, SHORT, gain=0.0), r"SPRO\(gain=\)"),
        (lambda: aw.SPRO(SHORT, replace(SHORT, mean_first=0.5)), "mean_first"),
        (lambda: aw.SPRO(SHORT, None), r"SPRO\(then=\)"),
        (lambda: aw.SPRO(SHORT, replace(SHORT, keep="best")), "says nothing of its simplex"),
        (lambda: aw.SimplexSAE(aw.AE(SHORT)), "an SAE"),
        (lambda: aw.SimplexSAE(aw.SAE(SHORT)), "later trainings"),
        (lambda: aw.SimplexSAE(aw.SAE(SHORT, SHORT), vertices=1), r"SimplexSAE\(vertices=\)"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
