"""Laplace's approximation: exact on a linear model, its matrix against second derivatives, its prior's scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.methods.laplace import evidence_maximum, gauss_newton, output_information
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, assert_moments, linear_apply, small_problem, stacked_params

KEY = jax.random.key(0)
MODEL = LinearGaussian(mean=0.3)


def state_of(method, problem, members=1):
    store = MemoryStore()
    posterior = aw.sample(KEY, problem, aw.Plan(method, 1, members), store=store, callbacks=[])
    return store.state(0), posterior


def test_it_is_exact_on_a_linear_model():
    state, posterior = state_of(aw.Laplace(MODEL.training()), MODEL.problem, 3000)
    np.testing.assert_allclose(state.params["w"], MODEL.posterior_mean, atol=2e-5)
    # Float32: numbers that are added up in it.
    np.testing.assert_allclose(state.root @ state.root.T, MODEL.posterior_covariance, rtol=1e-4, atol=1e-6)
    draws = stacked_params(posterior)["w"].astype(float)[:, None]
    assert_moments(draws, MODEL.posterior_mean, MODEL.posterior_covariance)


def test_directions_without_data_keep_the_priors_width_beside_stiff_ones():
    """Twenty precise rows for thirty parameters: eigenvalues up to 1e8 in units of the prior, and ten of zero."""
    rng = np.random.default_rng(0)
    x, y, scale = rng.normal(size=(20, 30)).astype(np.float32), rng.normal(size=20), rng.uniform(0.5, 2, 30)
    prior = aw.Prior(scale={"w": scale})
    problem = aw.Problem(thirty_init, linear_apply, aw.Normal(scale=1e-3), prior, (x, y))
    state, _ = state_of(aw.Laplace(aw.Training(aw.SGD(1e-9), 1, 20)), problem)
    scale = scale.astype(np.float32).astype(float)
    values, basis = np.linalg.eigh((scale[:, None] * x.T / 1e-6) @ (x * scale))
    assert values[-1] > 1e8
    # In the posterior's own units its covariance is the identity: rounding adds to it what it makes of the largest
    # direction's part in the others, the root of the largest eigenvalue times 2^-24, in each of thirty sums.
    units = basis * np.sqrt(np.maximum(values, 0) + 1)
    white = units.T @ (state.root / scale[:, None])
    rounding = 30 * 2.0**-24 * np.sqrt(values[-1])
    np.testing.assert_allclose(white @ white.T, np.eye(30), atol=rounding)
    # Eigenvectors of equal values are any basis of what they span: draws must not depend on which one rounding picks.
    problem = aw.Problem(thirty_init, linear_apply, aw.Normal(scale=1e-3), prior, (x * np.float32(1 + 1e-6), y))
    other, _ = state_of(aw.Laplace(aw.Training(aw.SGD(1e-9), 1, 20)), problem)
    np.testing.assert_allclose(other.root / scale[:, None], state.root / scale[:, None], atol=rounding)


def thirty_init(key):
    return {"w": jax.random.normal(key, (30,))}


def test_a_diagonal_has_the_precisions_diagonal():
    state, _ = state_of(aw.Laplace(MODEL.training(), "diagonal"), MODEL.problem)
    np.testing.assert_allclose(state.root**2, 1 / np.diag(MODEL.precision), rtol=1e-4)


def two_init(key):
    return {"a": jax.random.normal(key, (1,)), "b": jnp.zeros(2)}


def two_apply(params, x):
    return x @ jnp.concatenate([params["a"], params["b"]])


def test_some_parameters_alone_vary_given_the_others():
    scale = {"a": MODEL.scale[:1], "b": MODEL.scale[1:]}
    data = (MODEL.x, MODEL.y)
    problem = aw.Problem(two_init, two_apply, aw.Normal(scale=MODEL.noise), aw.Prior(scale=scale, mean=0.3), data)
    state, posterior = state_of(aw.Laplace(MODEL.training(), only="b"), problem, 3)
    np.testing.assert_allclose(state.root @ state.root.T, np.linalg.inv(MODEL.precision[1:, 1:]), rtol=1e-3)
    params = stacked_params(posterior)
    assert (params["a"] == state.params["a"]).all()
    assert np.ptp(params["b"], axis=0).min() > 0


def test_the_matrix_is_the_hessian_where_the_network_is_linear():
    """Softmax on a linear network: the generalised Gauss-Newton matrix is the second derivative itself."""
    rng = np.random.default_rng(0)
    x, y, weights = rng.normal(size=(11, 4)), rng.integers(0, 3, 11), rng.uniform(0.5, 2, 11)

    def init(key):
        return jax.random.normal(key, (4, 3))

    def apply(params, x):
        return x @ params

    problem = aw.Problem(init, apply, aw.Categorical(), aw.Prior(scale=0.7), data=(x, y), weights=weights)
    place = jnp.asarray(rng.normal(size=12), jnp.float32)

    def outputs(vector, x):
        return apply(vector.reshape(4, 3), x[None])[0]

    def loss(vector):
        found = problem.likelihood.log_prob(apply(vector.reshape(4, 3), problem.data.x), problem.data.y)
        return -jnp.sum(problem.data.weights * found)

    exact = 0.49 * jax.hessian(loss)(place)
    for batch_size in (4, 11):  # batches of four leave one of three
        full = gauss_newton(problem, outputs, place, jnp.full(12, 0.7), True, batch_size)
        np.testing.assert_allclose(full, exact, rtol=1e-4, atol=1e-5)
    diagonal = gauss_newton(problem, outputs, place, jnp.full(12, 0.7), False, 4)
    np.testing.assert_allclose(diagonal, np.diag(exact), rtol=1e-4)


@pytest.mark.parametrize(
    ("likelihood", "outputs", "y", "exact"),
    [
        (aw.Normal(scale=0.5), [1.0], 3.0, [[4.0]]),
        (aw.Poisson(), [0.7], 2, [[np.exp(0.7)]]),
        (aw.Bernoulli(), [0.4], 1, [[1 / (2 + np.exp(0.4) + np.exp(-0.4))]]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_information_about_one_output(likelihood, outputs, y, exact):
    found = output_information(likelihood, jnp.asarray(outputs[0]), jnp.asarray(y))
    np.testing.assert_allclose(found, exact, rtol=1e-5)


def test_the_information_about_mean_and_noise_is_fishers():
    """1 / s² for the mean, 2 (s'/s)² for the second output, whatever the target: no second derivative below zero."""
    outputs = jnp.asarray([0.3, -1.2])
    scale, slope = np.log1p(np.exp(-1.2)), 1 / (1 + np.exp(1.2))
    for y in (0.3, 50.0):
        found = output_information(aw.HeteroscedasticNormal(), outputs, jnp.asarray(y))
        np.testing.assert_allclose(found, np.diag([scale**-2, 2 * (slope / scale) ** 2]), rtol=1e-4, atol=1e-4)


def test_the_priors_scale_has_the_greatest_marginal_likelihood():
    values, norm = np.array([300.0, 20.0, 1.0, 0.01]), 7.0

    def evidence(log_t):
        t = np.exp(log_t)
        return 0.5 * (t * norm - len(values) * log_t + np.log(values + t).sum())

    exact = np.exp(minimize_scalar(evidence, bounds=(-15, 15), method="bounded", options={"xatol": 1e-10}).x)
    assert float(evidence_maximum(jnp.asarray(values), jnp.asarray(norm))) == pytest.approx(exact, rel=1e-4)
    state, posterior = state_of(aw.Laplace(MODEL.training(), fit_prior=True), MODEL.problem)
    scaled = MODEL.scale[:, None] * MODEL.x.T / MODEL.noise
    norm = np.sum(((MODEL.posterior_mean - MODEL.mean) / MODEL.scale) ** 2)
    t = float(evidence_maximum(jnp.asarray(np.linalg.eigvalsh(scaled @ scaled.T)), jnp.asarray(norm)))
    assert posterior[0, 0].info.value("prior_factor") == pytest.approx(t**-0.5, rel=1e-3)
    precision = MODEL.x.T @ MODEL.x / MODEL.noise**2 + t * MODEL.prior_precision
    np.testing.assert_allclose(state.root @ state.root.T, np.linalg.inv(precision), rtol=1e-3, atol=1e-6)


def test_it_costs_a_pass_for_each_output_and_one_and_in_full_twice_that():
    training = aw.Training(aw.SGD(0.01), epochs=5, batch_size=7)
    problem = aw.Problem(
        lambda key: jnp.zeros((2, 3)), lambda w, x: x @ w, aw.Categorical(), aw.Prior(), (np.ones((8, 2)), np.zeros(8))
    )
    assert [call.passes for call in aw.Laplace(training).calls(problem, 2)] == [5, 8, 0, 0]
    assert [call.passes for call in aw.Laplace(training, "diagonal").calls(problem, 1)] == [5, 4, 0]
    assert [call.passes for call in aw.Laplace(training, "diagonal").calls(small_problem(), 1)] == [5, 2, 0]


def wide_init(key):
    return {"w": jnp.zeros((3, 2000))}


def wide_apply(params, x):
    return (x @ params["w"]).sum(-1)


def test_what_cannot_be_is_refused():
    training = aw.Training(aw.SGD(0.01), epochs=1, batch_size=7)
    with pytest.raises(InvalidInput, match="a pattern for w"):
        aw.Laplace(training, only="v").prepare(KEY, MODEL.problem)
    with pytest.raises(InvalidInput, match=r"Laplace\(curvature=\)"):
        aw.Laplace(training, "kronecker")
    wide = aw.Problem(wide_init, wide_apply, aw.Normal(scale=1.0), aw.Prior(), (np.ones((8, 3)), np.ones(8)))
    with pytest.raises(InvalidInput, match=r"6,000 parameters.*diagonal"):
        aw.Laplace(training).prepare(KEY, wide)
    with pytest.raises(InvalidInput, match=r"Laplace\(first=\)"):
        aw.Laplace(None)
