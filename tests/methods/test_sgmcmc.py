"""SGLD, SGHMC and the cyclical one against the closed form of their own discretised chains, and against blackjax.

On a linear model with full batches a step maps a normal of place and momentum to a normal, so that the law after any
number of steps follows by recursion; it is compared with many short chains.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.linalg import solve_discrete_lyapunov

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods import minibatch
from anchorwalk.objective import in_order
from helpers import LinearGaussian, assert_moments, linear_apply, linear_init, small_problem, stacked_params

KEY, CHAINS = jax.random.key(0), 2000
MODEL = LinearGaussian(mean=0.3)
STEP = float(0.2 / np.linalg.eigvalsh(MODEL.precision)[-1])


def transition(step_size, friction, noise=1.0, precision=MODEL.precision):
    """The matrix A and the covariance Q of (θ - mean, v) -> A (θ - mean, v) + N(0, Q)."""
    identity = np.eye(3)
    back = -step_size * precision
    matrix = np.block([[identity + back, (1 - friction) * identity], [back, (1 - friction) * identity]])
    return matrix, noise * 2 * friction * step_size * np.kron(np.ones((2, 2)), identity)


def law_after(steps, center=MODEL.posterior_mean):
    """Mean and covariance of the place after steps of (A, Q), from a start at N(0, 1) without momentum."""
    mean = np.concatenate([-center, np.zeros(3)])
    covariance = np.diag([1.0] * 3 + [0.0] * 3)
    for matrix, noise in steps:
        mean, covariance = matrix @ mean, matrix @ covariance @ matrix.T + noise
    return center + mean[:3], covariance[:3, :3]


def draws_of(method, members=1, problem=MODEL.problem):
    runner = aw.Local(threads=1, lanes=500)
    posterior = aw.sample(KEY, problem, aw.Plan(method, CHAINS, members), runner=runner, callbacks=[])
    return stacked_params(posterior)["w"].reshape(CHAINS, members, 3).astype(float)


@pytest.mark.parametrize(
    ("method", "friction"),
    [
        (aw.SGLD(None, STEP, thin=2, batch_size=MODEL.rows, warmup=3), 1.0),
        (aw.SGHMC(None, STEP, friction=0.3, thin=2, batch_size=MODEL.rows, warmup=3), 0.3),
    ],
    ids=["SGLD", "SGHMC"],
)
def test_a_chain_has_the_law_of_its_discretisation(method, friction):
    mean, covariance = law_after([transition(STEP, friction)] * (method.warmup + 2 * method.thin))
    assert_moments(draws_of(method, 2)[:, 1:], mean, covariance)
    # And that law is not yet the posterior: the test could tell them apart.
    with pytest.raises(AssertionError):
        assert_moments(draws_of(method, 2)[:, 1:], MODEL.posterior_mean, MODEL.posterior_covariance)


@pytest.mark.parametrize("method", [aw.SGLD, aw.SGHMC, aw.CyclicalSGHMC], ids=lambda kind: kind.__name__)
def test_each_step_of_an_epoch_has_noise_of_its_own(method):
    """Seven equal rows in batches of 3, 2 and 2: every batch has the gradient of all, weighted rows included."""
    row, weight = np.array([0.6, -0.3, 0.8]), 1.7
    prior = aw.Prior(scale={"w": MODEL.scale}, mean=MODEL.mean)
    data, weights = (np.tile(row, (7, 1)), np.full(7, 0.9)), np.full(7, weight)
    problem = aw.Problem(linear_init, linear_apply, aw.Normal(scale=MODEL.noise), prior, data, weights)
    precision = 7 * weight * np.outer(row, row) / MODEL.noise**2 + MODEL.prior_precision
    pull = 7 * weight * 0.9 * row / MODEL.noise**2 + MODEL.prior_precision @ np.full(3, MODEL.mean)
    center, step = np.linalg.solve(precision, pull), float(0.2 / np.linalg.eigvalsh(precision)[-1])
    if method is aw.CyclicalSGHMC:
        made = method(2 * step, cycle=3, draws=1, explore=0.4, friction=0.4, batch_size=3)
        shares = np.arange(9) / 9
        sizes, noises = made.step_size * (1 + np.cos(np.pi * shares)) / 2, (shares >= 0.4).astype(float)
    else:
        made = method(None, step, thin=3, batch_size=3)
        sizes, noises = np.full(9, step), np.ones(9)
    steps = [transition(*each, precision) for each in zip(sizes, np.full(9, made.friction), noises, strict=True)]
    assert_moments(draws_of(made, 1, problem), *law_after(steps, center))


@pytest.mark.parametrize("friction", [1.0, 0.3])
def test_the_discretisation_tends_to_the_posterior(friction):
    """What the recursion comes to: for SGLD inv(P (1 - h P / 2)), and with either an error of order h."""
    errors = []
    for step_size in (STEP, STEP / 2):
        matrix, noise = transition(step_size, friction)
        stationary = solve_discrete_lyapunov(matrix, noise)[:3, :3]
        if friction == 1.0:
            exact = np.linalg.inv(MODEL.precision @ (np.eye(3) - step_size * MODEL.precision / 2))
            np.testing.assert_allclose(stationary, exact, rtol=1e-9)
        errors.append(np.abs(stationary - MODEL.posterior_covariance).max())
    assert errors[1] < 0.55 * errors[0]
    assert errors[0] < 0.12 * np.abs(MODEL.posterior_covariance).max()


def test_cycles_have_the_law_of_their_schedule():
    method = aw.CyclicalSGHMC(2 * STEP, cycle=12, draws=2, explore=0.4, friction=0.4, batch_size=MODEL.rows)
    steps = []
    for i in range(2 * method.cycle):
        share = (i % method.cycle) / method.cycle
        step_size = method.step_size * (1 + np.cos(np.pi * share)) / 2
        steps.append(transition(step_size, method.friction, 0.0 if share < method.explore else 1.0))
    draws = draws_of(method, 4)
    for member, count in ((0, 11), (1, 12), (2, 23), (3, 24)):
        assert_moments(draws[:, member : member + 1], *law_after(steps[:count]))


def test_a_step_is_blackjaxs_own():
    import blackjax

    problem = small_problem()
    params = tree.typed(problem.init(KEY))
    batch = in_order(problem.data, 7)[0]

    def gradient(params, batch):
        return jax.grad(lambda params: -minibatch.energy(problem, params, batch))(params)

    ours, _ = minibatch.move(KEY, problem, batch, minibatch.at_rest(params), 1e-3, 1.0)
    theirs = blackjax.sgld.build_kernel()(KEY, params, gradient, batch, 1e-3)
    for one, other in zip(jax.tree.leaves(ours.params), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


def test_the_energy_of_minibatches_is_unbiased(monkeypatch):
    """Over an epoch of equal batches the mean is the energy of all rows, which is that of the closed form."""
    problem, params = MODEL.problem, {"w": jnp.asarray([0.3, -1.0, 0.7])}
    batches = in_order(problem.data, 8)
    parts = [float(minibatch.energy(problem, params, batches[i])) for i in range(3)]
    whole = float(minibatch.energy(problem, params, in_order(problem.data, MODEL.rows)[0]))
    assert np.mean(parts) == pytest.approx(whole, rel=1e-5)
    for rows in (10, 24, 1024):
        monkeypatch.setattr(minibatch, "AT_ONCE", rows)
        for one in (problem, problem.filled(40)):  # rows that only fill up never count
            value, gradient = jax.value_and_grad(lambda params: minibatch.whole_energy(one, params))(params)  # noqa: B023
            assert float(value) == pytest.approx(whole, rel=1e-5)
            exact = MODEL.precision @ (np.asarray(params["w"], float) - MODEL.posterior_mean)
            np.testing.assert_allclose(gradient["w"], exact, rtol=1e-4, atol=1e-3)
    w = np.asarray(params["w"], float)
    ahead = 0.5 * (w - MODEL.posterior_mean) @ MODEL.precision @ (w - MODEL.posterior_mean)
    least = {"w": jnp.asarray(MODEL.posterior_mean, jnp.float32)}
    at_least = float(minibatch.energy(problem, least, in_order(problem.data, MODEL.rows)[0]))
    assert whole - at_least == pytest.approx(ahead, rel=1e-4)


def test_a_chain_that_runs_away_is_marked_and_comes_back():
    """A step size far too long: draws are marked as bad, and each call begins where the last good one ended."""
    method = aw.SGLD(aw.Training(aw.SGD(0.01), 2, 7), 1e-4, thin=1, batch_size=7)
    problem = small_problem()
    runaway = jax.tree.map(lambda leaf: 1e30 if leaf == 1e-4 else leaf, method)
    keys = aw.Keys(KEY, KEY)
    state = method.start(keys, problem, jnp.uint32(0))
    after, draws = runaway.step(keys, problem, state, aw.Call("draw"), jnp.int32(1))
    assert not draws.good[0]
    for one, other in zip(jax.tree.leaves(after), jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: aw.SGLD(None, -1.0), r"SGLD\(step_size=\)"),
        (lambda: aw.SGLD("mode", 1.0), r"SGLD\(first=\)"),
        (lambda: aw.SGHMC(None, 1.0, friction=2.0), r"SGHMC\(friction=\)"),
        (lambda: aw.CyclicalSGHMC(1.0, cycle=10, draws=3, explore=0.8), "without noise"),
        (lambda: aw.SGLD(None, 1.0, batch_size=50).prepare(KEY, MODEL.problem), "24 rows"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()
