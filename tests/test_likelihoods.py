"""Every likelihood against scipy, and its draws against its own moments."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import anchorwalk as aw
from anchorwalk import likelihoods

RNG = np.random.default_rng(0)
OUT = RNG.normal(size=(6, 4)).astype(np.float32)
PAIR = RNG.normal(size=(6, 4, 2)).astype(np.float32)
SOFT = np.log1p(np.exp(PAIR[..., 1]))
COUNTS = RNG.poisson(2.0, size=(6, 4))
REALS = RNG.normal(size=(6, 4)).astype(np.float32)
BITS = RNG.integers(0, 2, size=(6, 4))

CASES = [
    pytest.param(aw.Normal(scale=0.7), OUT, REALS, stats.norm(OUT, 0.7), id="normal"),
    pytest.param(aw.HeteroscedasticNormal(), PAIR, REALS, stats.norm(PAIR[..., 0], SOFT), id="heteroscedastic"),
    pytest.param(aw.Poisson(), OUT, COUNTS, stats.poisson(np.exp(OUT)), id="poisson"),
    pytest.param(aw.Bernoulli(), OUT, BITS, stats.bernoulli(special.expit(OUT)), id="bernoulli"),
]


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES)
def test_against_scipy(likelihood, outputs, y, truth):
    log_prob = (truth.logpmf if hasattr(truth.dist, "logpmf") else truth.logpdf)(y).sum(axis=1)
    np.testing.assert_allclose(likelihood.log_prob(jnp.asarray(outputs), jnp.asarray(y)), log_prob, rtol=2e-5)
    np.testing.assert_allclose(likelihood.mean(jnp.asarray(outputs)), truth.mean(), rtol=1e-5)
    np.testing.assert_allclose(likelihood.variance(jnp.asarray(outputs)), truth.var(), rtol=1e-5)
    likelihood.check(jax.ShapeDtypeStruct(outputs.shape, "float32"), y)


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES[:3])
def test_distribution_functions_against_scipy(likelihood, outputs, y, truth):
    values = np.linspace(-1.5, 4.5, 9).astype(np.float32)
    found = likelihood.cdf(jnp.asarray(outputs), jnp.broadcast_to(values, (6, 4, 9)))
    expected = np.stack([truth.cdf(v) for v in values], axis=-1)
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.mark.parametrize(("likelihood", "outputs", "y", "truth"), CASES)
def test_draws_have_their_moments_and_are_independent(likelihood, outputs, y, truth):
    n = 20_000
    draws = np.asarray(jax.vmap(lambda k: likelihood.draw(k, outputs))(jax.random.split(jax.random.key(0), n)), float)
    error = (draws.mean(axis=0) - truth.mean()) / np.sqrt(truth.var() / n)
    assert np.all(np.abs(error) < 5.33)
    kurtosis = truth.stats("k") + 3
    error = (draws.var(axis=0) - truth.var()) / (truth.var() * np.sqrt((kurtosis - 1) / n) + truth.var() / n)
    assert np.all(np.abs(error) < 5.33)
    correlations = np.corrcoef(draws.reshape(n, -1), rowvar=False) - np.eye(24)
    assert np.abs(correlations).max() < 5.8 / np.sqrt(n)  # 276 pairs at 1e-8 each


def test_categorical_against_scipy():
    logits = RNG.normal(size=(5, 3)).astype(np.float32)
    y = np.array([0, 2, 1, 1, 2])
    likelihood = aw.Categorical()
    p = special.softmax(logits, axis=1)
    np.testing.assert_allclose(likelihood.log_prob(logits, y), np.log(p[np.arange(5), y]), rtol=1e-5)
    np.testing.assert_allclose(likelihood.mean(logits), p, rtol=1e-5)
    np.testing.assert_allclose(likelihood.variance(logits), p * (1 - p), rtol=1e-5)
    np.testing.assert_allclose(likelihood.entropy(p), stats.entropy(p, axis=1), rtol=1e-5)
    n = 20_000
    draws = jax.vmap(lambda k: likelihood.draw(k, logits))(jax.random.split(jax.random.key(0), n))
    shares = np.stack([(np.asarray(draws) == c).mean(axis=0) for c in range(3)], axis=1)
    assert np.all(np.abs(shares - p) < 5.33 * np.sqrt(p * (1 - p) / n))


def test_several_categorical_outputs_are_summed_over():
    logits = RNG.normal(size=(5, 2, 3)).astype(np.float32)
    y = RNG.integers(0, 3, size=(5, 2))
    likelihood = aw.Categorical()
    parts = [likelihood.log_prob(logits[:, i], y[:, i]) for i in range(2)]
    np.testing.assert_allclose(likelihood.log_prob(logits, y), parts[0] + parts[1], rtol=1e-5)


def test_entropy_at_certainty_is_zero():
    np.testing.assert_array_equal(aw.Categorical().entropy(np.array([[0.0, 1.0]])), [0.0])
    np.testing.assert_array_equal(aw.Bernoulli().entropy(np.array([0.0, 1.0])), [0.0, 0.0])


def test_perturbed_normal_targets_are_moved_targets():
    noise = RNG.normal(size=(6, 4)).astype(np.float32)
    likelihood = aw.Normal(scale=0.7)
    moved = likelihood.log_prob(OUT, REALS + 0.7 * noise)
    np.testing.assert_allclose(likelihood.perturbed_log_prob(OUT, REALS, noise), moved, rtol=1e-6)


def test_perturbation_of_a_heteroscedastic_normal_moves_the_mean_alone():
    noise = jnp.asarray(RNG.normal(size=(6, 4)), jnp.float32)
    likelihood = aw.HeteroscedasticNormal()
    pair, y = jnp.asarray(PAIR), jnp.asarray(REALS)
    value, gradient = jax.value_and_grad(lambda o: likelihood.perturbed_log_prob(o, y, noise).sum())(pair)
    moved = y + SOFT * noise
    np.testing.assert_allclose(value, stats.norm.logpdf(moved, PAIR[..., 0], SOFT).sum(), rtol=1e-4)
    mean_gradient = jax.grad(lambda o: likelihood.log_prob(o, moved).sum())(pair)[..., 0]
    scale_gradient = jax.grad(lambda o: likelihood.log_prob(o, y).sum())(pair)[..., 1]
    np.testing.assert_allclose(gradient[..., 0], mean_gradient, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(gradient[..., 1], scale_gradient, rtol=1e-4, atol=1e-5)


def test_which_likelihoods_can_do_what():
    normal = [aw.Normal(scale=1.0), aw.HeteroscedasticNormal()]
    classes = [aw.Categorical(), aw.Bernoulli()]
    assert all(isinstance(one, likelihoods.NormalLikelihood) for one in normal)
    assert all(isinstance(one, likelihoods.ClassLikelihood) for one in classes)
    assert isinstance(aw.Poisson(), likelihoods.OrderedLikelihood)
    for one in [*classes, aw.Poisson()]:
        assert not isinstance(one, likelihoods.NormalLikelihood)
    for one in classes:
        assert not isinstance(one, likelihoods.OrderedLikelihood)
