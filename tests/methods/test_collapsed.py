"""The collapsed density against dense linear algebra and quadrature, and Hamiltonian Monte Carlo on it."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.diagnostics import ess_bulk
from scipy.stats import multivariate_normal, norm

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods.collapsed import Collapsed, evidence
from anchorwalk.methods.density import information, log_density, widened
from helpers import stacked_params

RNG = np.random.default_rng(0)
X = RNG.normal(size=(14, 2))
NOISES = {
    "normal": (aw.Normal(scale=0.3), 1, RNG.normal(size=(14, 1))),
    "two targets": (aw.Normal(scale=0.3), 2, RNG.normal(size=(14, 2))),
    "heteroscedastic": (aw.HeteroscedasticNormal(), 2, RNG.normal(size=14)),
}
METHOD = aw.HMC((100, 200), 1, 10, block=50, draws=100, descent=20, integrate_out="dense_1")


def problem_of(noise):
    likelihood, outputs, y = NOISES[noise]
    network = aw.networks.mlp(2, (4,), outputs, jnp.tanh)
    like = jax.eval_shape(network.init, jax.random.key(0))
    scale = jax.tree.map(lambda leaf: RNG.uniform(0.5, 2, leaf.shape), like)
    prior = aw.Prior(scale, mean=jax.tree.map(lambda leaf: RNG.normal(size=leaf.shape), like))
    return aw.Problem(network.init, network.apply, likelihood, prior, (X, y), weights=RNG.uniform(0.5, 2, 14))


def conditional(problem, density, vector):
    """Mean and covariance of the weights given the rest, with the features found by moving one weight at a time."""

    def outputs(weights):
        whole = np.zeros(problem.size)
        whole[density.outside], whole[density.inside] = vector, weights
        found = problem.apply(tree.unravel(jnp.asarray(whole), problem.params_like, lambda _: float), problem.data.x)
        likelihood = problem.likelihood
        return np.ravel(likelihood.mean(found)), np.ravel(likelihood.variance(found))

    count = len(density.inside)
    base, variances = outputs(np.zeros(count))
    features = np.stack([outputs(unit)[0] - base for unit in np.eye(count)], axis=1)
    mean, scale = (np.asarray(tree.ravel(part))[density.inside] for part in (problem.prior.mean, problem.prior.scale))
    y = np.ravel(problem.data.y)
    share = np.repeat(problem.data.weights, len(y) // problem.n) / variances
    covariance = np.linalg.inv(features.T @ (share[:, None] * features) + np.diag(scale**-2.0))
    return covariance @ (features.T @ (share * (y - base)) + mean / scale**2), covariance


def test_the_evidence_is_that_of_a_linear_model_and_so_is_its_gradient():
    with jax.enable_x64(True):
        rows, targets = RNG.normal(size=(6, 3)), RNG.normal(size=6)
        exact = multivariate_normal.logpdf(targets, np.zeros(6), np.eye(6) + rows @ rows.T)
        assert float(evidence(rows, targets)) == pytest.approx(exact + 3 * np.log(2 * np.pi), rel=1e-12)

        def plain(rows, targets):
            covariance = jnp.eye(6) + rows @ rows.T
            return -0.5 * (targets @ jnp.linalg.solve(covariance, targets) + jnp.linalg.slogdet(covariance)[1])

        found, wanted = (jax.grad(function, argnums=(0, 1))(rows, targets) for function in (evidence, plain))
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("noise", NOISES)
def test_the_density_is_the_joint_one_without_the_weights(noise):
    """By Bayes' rule, for any weights w: p(D, z) = p(D, z, w) / p(w | D, z)."""
    narrow = problem_of(noise)
    with jax.enable_x64(True):
        problem = widened(narrow)
        density = Collapsed(problem, "dense_1")
        for _ in range(3):
            whole = RNG.normal(size=problem.size)
            mean, covariance = conditional(problem, density, whole[density.outside])
            joint = float(log_density(problem, jnp.asarray(whole)))
            exact = joint - multivariate_normal.logpdf(whole[density.inside], mean, covariance)
            # Scales of the prior are float32 in both; constants may be, too.
            assert float(density.log_density(jnp.asarray(whole[density.outside]))) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("noise", NOISES)
def test_weights_are_drawn_from_their_posterior_given_the_rest(noise):
    narrow, count = problem_of(noise), 4000
    with jax.enable_x64(True):
        problem = widened(narrow)
        density = Collapsed(problem, "dense_1")
        vector = RNG.normal(size=density.size)
        keys = jax.random.split(jax.random.key(1), count)
        drawn = np.asarray(jax.vmap(lambda key: density.complete(key, jnp.asarray(vector)))(keys))
        mean, covariance = conditional(problem, density, vector)
    np.testing.assert_array_equal(drawn[:, density.outside], np.tile(vector, (count, 1)))
    white = np.linalg.solve(np.linalg.cholesky(covariance), (drawn[:, density.inside] - mean).T)
    assert np.abs(white.mean(1)).max() < 5 / np.sqrt(count)
    assert np.abs(np.cov(white) - np.eye(len(white))).max() < 5 * np.sqrt(2 / count)


@pytest.mark.parametrize("noise", NOISES)
def test_the_information_is_the_schur_complement_of_the_whole(noise):
    narrow, count = problem_of(noise), 20_000
    with jax.enable_x64(True):
        problem, key = widened(narrow), jax.random.key(2)
        density = Collapsed(problem, "dense_1")
        vector = jnp.asarray(RNG.normal(size=density.size))
        found = np.asarray(density.information(key, vector, True))
        whole = density.complete(key, vector)
        draws = jax.lax.map(lambda one: information(one, problem, whole, True), jax.random.split(key, count))
        inside, outside = density.inside, density.outside
        many = np.asarray(draws)
        np.testing.assert_allclose(density.information(key, vector, False), np.diag(found))

    def schur(full):
        cross = full[np.ix_(inside, outside)]
        return full[np.ix_(outside, outside)] - cross.T @ np.linalg.solve(full[np.ix_(inside, inside)], cross)

    # `information` is unbiased and random: its spread over batches of draws tells the error of the mean.
    batches = np.stack([schur(part.mean(0)) for part in np.split(many, 20)])
    error = batches.std(0) / np.sqrt(20)
    assert (np.abs(schur(many.mean(0)) - found) < 6 * error + 1e-3 * np.abs(found)).all()


@pytest.mark.slow
def test_draws_have_the_posterior_of_quadrature():
    """One hidden unit: two parameters are sampled, so that a grid gives moments of the target's mean at new inputs."""
    network = aw.networks.mlp(1, (1,), 1, jnp.tanh)
    x = np.linspace(-1.5, 1.5, 7)[:, None]
    y = np.tanh(1.5 * x - 0.5) + 0.2 * np.random.default_rng(3).normal(size=x.shape)
    problem = aw.Problem(network.init, network.apply, aw.Normal(scale=0.3), aw.Prior(1.0), (x, y))
    posterior = aw.sample(jax.random.key(4), problem, aw.Plan(METHOD, 8, 500), callbacks=[])
    at = np.array([-2.0, 0.3, 2.5])
    stacked = jax.tree.map(jnp.asarray, stacked_params(posterior))
    found = np.reshape(jax.vmap(network.apply, in_axes=(0, None))(stacked, jnp.asarray(at[:, None])), (8, 500, 3))

    def features(kernel, bias, x):
        return np.stack([np.tanh(kernel * x + bias), np.ones_like(x)], axis=1)

    grid = np.linspace(-5, 5, 161)
    logs, moments = [], []
    for kernel in grid:
        for bias in grid:
            rows, new = features(kernel, bias, x[:, 0]), features(kernel, bias, at)
            covariance = np.linalg.inv(rows.T @ rows / 0.09 + np.eye(2))
            mean = new @ covariance @ rows.T @ y[:, 0] / 0.09
            log = multivariate_normal.logpdf(y[:, 0], np.zeros(7), 0.09 * np.eye(7) + rows @ rows.T)
            logs.append(log + norm.logpdf(kernel) + norm.logpdf(bias))
            moments.append([mean, mean**2 + np.einsum("ij,jk,ik->i", new, covariance, new)])
    share = np.exp(np.array(logs) - max(logs))
    first, second = np.tensordot(share / share.sum(), np.array(moments), axes=1)
    for draws, exact in ((found, first), (found**2, second)):
        for row in range(3):
            error = draws[..., row].std() / np.sqrt(float(ess_bulk(draws[..., row])))
            assert abs(draws[..., row].mean() - exact[row]) < 5 * error
            assert error < 0.05 * max(0.3, abs(exact[row]))
    # The record of a draw is the joint log-density of all its parameters.
    assert posterior[0, 9].info.value("log_density") == pytest.approx(
        float(log_density(problem, jnp.asarray(tree.ravel(posterior[0, 9].params)))), abs=1e-3
    )


@pytest.mark.slow
def test_chains_can_start_from_a_training():
    problem = problem_of("heteroscedastic")
    method = aw.HMC((50,), 1, 5, 50, 50, training=aw.Training(aw.Adam(1e-2), 3, 14), integrate_out="dense_1")
    store = aw.MemoryStore()
    posterior = aw.sample(jax.random.key(0), problem, aw.Plan(method, 2, 50), store=store, callbacks=[])
    assert store.state(0).position.shape == (17,)
    assert all(np.isfinite(info.value("log_density")) for info in posterior.infos)


@pytest.mark.parametrize(
    ("problem", "layer", "words"),
    [
        (problem_of("normal"), "dense_7", "dense_0/bias"),
        (problem_of("normal"), "dense_0", "affine"),
        (
            aw.Problem(lambda key: jnp.zeros(2), lambda w, x: x @ w, aw.Poisson(), aw.Prior(), (X, np.ones(14))),
            "",
            "normal likelihood",
        ),
    ],
)
def test_what_has_no_closed_form_is_refused(problem, layer, words):
    method = aw.HMC(windows=(50,), draws=50, integrate_out=layer)
    with pytest.raises(InvalidInput, match=words):
        aw.sample(jax.random.key(0), problem, aw.Plan(method, 2, 50), callbacks=[])
