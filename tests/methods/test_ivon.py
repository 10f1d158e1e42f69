"""IVON against the closed form of what it tends to: on a linear model, the best normal with a diagonal covariance."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, assert_moments, linear_apply, linear_init, stacked_params

KEY, CHAINS = jax.random.key(0), 40
MODEL = LinearGaussian(mean=0.3)
METHOD = aw.IVON(rate=0.3, epochs=8000, batch_size=MODEL.rows, hessian=2.0, b1=0.5, b2=0.999)


@pytest.fixture(scope="module")
def found():
    store, runner = MemoryStore(), aw.Local(threads=1, lanes=CHAINS)
    plan = aw.Plan(METHOD, CHAINS, members=50)
    posterior = aw.sample(KEY, MODEL.problem, plan, runner=runner, store=store, callbacks=[])
    return tree.stack([store.state(chain) for chain in range(CHAINS)]), posterior


def test_it_tends_to_the_best_diagonal_normal(found):
    states, _ = found
    decay = np.diag(MODEL.prior_precision) / MODEL.rows
    data = np.diag(MODEL.x.T @ MODEL.x) / MODEL.noise**2 / MODEL.rows
    means, hessians = states.mean.astype(float), states.hessian.astype(float)
    # The rate falls to zero, and with it the noise of the mean, whose steps are as wide as the normal. What is left is
    # below a tenth of the normal's own width, and over chains it averages out.
    width = 1 / np.sqrt(np.diag(MODEL.precision))
    noise = means.std(0, ddof=1)
    assert (noise < 0.1 * width).all()
    assert (np.abs(means.mean(0) - MODEL.posterior_mean) < 6 * noise / np.sqrt(CHAINS) + 1e-4).all()
    # The second order term of line 4 keeps h above its target by (1 - b2) / 2 times E[(h - ĥ)²] / (h + δ). Where the
    # mean is at the optimum, ĥ_i = Σ_j H_ij ε_j ε_i / σ_i² with H the curvature of the loss of a row.
    curvature = MODEL.x.T @ MODEL.x / MODEL.noise**2 / MODEL.rows
    drawn = np.random.default_rng(0).normal(size=(100_000, 3)) * width
    spread = np.square(drawn @ curvature * drawn / width**2 - data).mean(0)
    bias = (1 - METHOD.b2) / 2 * spread / (data + decay)
    error = hessians.mean(0) - data
    assert (np.abs(error - bias) < 6 * hessians.std(0, ddof=1) / np.sqrt(CHAINS) + 0.2 * bias).all()


def test_draws_are_from_that_normal(found):
    states, posterior = found
    draws = stacked_params(posterior)["w"].reshape(CHAINS, 50, 3).astype(float)
    variances = 1 / (MODEL.rows * states.hessian.astype(float) + np.diag(MODEL.prior_precision))
    white = (draws - states.mean[:, None]) / np.sqrt(variances)[:, None]
    assert_moments(white.reshape(-1, 1, 3), np.zeros(3), np.eye(3))


def test_a_fit_is_the_papers_algorithm():
    """Line by line in NumPy, with the same draws: batches of equal rows, two draws a step, rows that count twice."""
    row, target, noise = np.array([0.6, -0.3, 0.8]), 0.9, 0.5
    scale, center = np.array([0.5, 1.0, 2.0]), 0.3
    prior = aw.Prior(scale={"w": scale}, mean=center)
    data = np.tile(row, (7, 1)), np.full(7, target)
    problem = aw.Problem(linear_init, linear_apply, aw.Normal(scale=noise), prior, data)
    method = aw.IVON(0.3, 2, 3, end_rate=0.1, hessian=0.7, b1=0.8, b2=0.9, samples=2, rows=14.0)
    keys = aw.Keys(KEY, KEY)
    state = method.start(keys, problem, jnp.uint32(0))
    mean, momentum, hessian = np.asarray(state.mean, float), np.zeros(3), np.full(3, 0.7)
    decay, step = 1 / scale**2 / 14, 0
    for epoch in range(2):
        steps_key = jax.random.split(jax.random.fold_in(KEY, epoch))[1]
        for i in range(3):
            width = 1 / np.sqrt(14 * (hessian + decay))
            gradients, curvatures = [], []
            for key in jax.random.split(jax.random.fold_in(steps_key, i), 2):
                drawn = width * np.asarray(jax.random.normal(key, (3,)), float)
                gradient = row * (row @ (mean + drawn) - target) / noise**2
                gradients.append(gradient)
                curvatures.append(gradient * drawn / width**2)
            gradient, curvature = np.mean(gradients, axis=0), np.mean(curvatures, axis=0)
            momentum = 0.8 * momentum + 0.2 * gradient
            more = 0.5 * 0.1**2 * (hessian - curvature) ** 2 / (hessian + decay)
            hessian = 0.9 * hessian + 0.1 * curvature + more
            rate = (0.1 + 0.1 * (1 + np.cos(np.pi * step / 6))) * (0.7 + decay)
            step += 1
            pull = momentum / (1 - 0.8**step) + decay * (mean - center)
            mean = mean - rate * pull / (hessian + decay)
    found, _ = jax.jit(method.step, static_argnums=3)(keys, problem, state, aw.Call("fit", 0), jnp.int32(0))
    # Six steps in float32, of numbers up to ten.
    np.testing.assert_allclose(found.mean, mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.hessian, hessian, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found.momentum, momentum, rtol=1e-4, atol=1e-5)


def test_several_gradients_a_step_cost_as_much():
    plan = aw.Plan(aw.IVON(0.1, epochs=20, batch_size=8, samples=3), chains=2, members=10)
    assert plan.epochs == 120


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"hessian": 0.0}, r"IVON\(hessian=\)"),
        ({"b2": 1.0}, r"IVON\(b2=\)"),
        ({"rows": -1}, r"IVON\(rows=\)"),
        ({"samples": 0}, r"IVON\(samples=\)"),
    ],
)
def test_wrong_settings_are_refused(settings, words):
    with pytest.raises(InvalidInput, match=words):
        aw.IVON(0.1, 10, 8, **settings)
    with pytest.raises(InvalidInput, match="24 rows"):
        aw.IVON(0.1, 10, 50).prepare(KEY, MODEL.problem)


def test_variances_stay_above_zero_however_noisy_the_second_derivatives():
    """With s = h + δ and a move d of the mean, line 4 makes s / 2 + (s + d)² / 2 s of s; s + d without its end."""
    method = aw.IVON(rate=1e-4, epochs=50, batch_size=MODEL.rows, hessian=0.1, b2=0.3)
    store = MemoryStore()
    aw.sample(KEY, MODEL.problem, aw.Plan(method, 10, 1), runner=aw.Local(1, 10), store=store, callbacks=[])
    hessians = np.array([store.state(chain).hessian for chain in range(10)])
    assert (hessians + np.diag(MODEL.prior_precision) / MODEL.rows > 0).all()
