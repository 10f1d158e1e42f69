"""Parallel tempering against closed forms and quadrature, and its parts against what they are by definition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.diagnostics import ess_bulk

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.methods import tempering
from anchorwalk.methods.density import information, log_density, log_likelihood
from helpers import LinearGaussian, stacked_params

KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def model():
    return LinearGaussian(mean=0.3)


@pytest.mark.parametrize("rungs", [1, 5])
def test_draws_have_the_posterior_mean_and_covariance(model, rungs):
    method = aw.Tempering(rungs, windows=(40, 80, 160), thin=2, leapfrogs=8, draws=300)
    chains = 4
    posterior = aw.sample(KEY, model.problem, aw.Plan(method, chains, 900), callbacks=[])
    vectors = stacked_params(posterior)["w"].astype(float)
    root = np.linalg.cholesky(model.posterior_covariance)
    white = np.linalg.solve(root, (vectors - model.posterior_mean).T).T.reshape(chains, -1, 3)
    # Standard errors from the effective sizes of x and of x²; each of the nine numbers stays below five of them.
    size, square = np.min(ess_bulk(white)), np.min(ess_bulk(white**2))
    assert min(size, square) > 500
    assert np.max(np.abs(white.reshape(-1, 3).mean(0))) < 5 / np.sqrt(size)
    assert np.max(np.abs(np.cov(white.reshape(-1, 3).T) - np.eye(3))) < 5 * np.sqrt(2 / square)
    values = {name: np.array([info.value(name) for info in posterior.infos]) for name in posterior.infos[0].values}
    assert values["divergent"].mean() < 0.02
    assert abs(values["acceptance"].mean() - tempering.TARGET) < 0.1
    # The first rung of five, with β = 0.003, is nearly the prior: states travel all the way.
    assert (values["round_trips"].sum() > 100) == (rungs > 1)
    exact = [float(log_density(model.problem, jnp.asarray(vector, jnp.float32))) for vector in vectors[::300]]
    np.testing.assert_allclose(values["log_density"][::300], exact, rtol=1e-5)


def two_modes():
    """Y = w² with little noise: modes at +1 and -1, whose weights the prior's mean decides, and nothing in between."""
    x, y = jnp.ones((20, 1)), jnp.ones(20)
    return aw.Problem(
        lambda key: jnp.zeros(()),
        lambda w, x: w**2 * x[:, 0],
        aw.Normal(scale=0.3),
        aw.Prior(scale=1.0, mean=0.5),
        (x, y),
    )


def test_two_modes_have_their_weights():
    problem = two_modes()
    grid = np.linspace(-3, 3, 20_001)
    density = np.exp(-0.5 * ((grid - 0.5) ** 2 + 20 * ((1 - grid**2) / 0.3) ** 2))
    weight = density[grid > 0].sum() / density.sum()  # about e / (1 + e)
    assert 0.7 < weight < 0.76
    method = aw.Tempering(6, windows=(80, 160), thin=4, leapfrogs=6, draws=500)
    chains = 16
    posterior = aw.sample(KEY, problem, aw.Plan(method, chains, 500), callbacks=[])
    right = (stacked_params(posterior) > 0).reshape(chains, -1).mean(axis=1)
    assert abs(right.mean() - weight) < 5 * right.std(ddof=1) / np.sqrt(chains)
    assert right.std(ddof=1) / np.sqrt(chains) < 0.02  # each chain visits both modes
    # Chains of one rung stay where they began.
    alone = aw.sample(KEY, problem, aw.Plan(aw.Tempering(1, windows=(80,), thin=2, draws=100), 16, 100), callbacks=[])
    sides = (stacked_params(alone) > 0).reshape(16, -1)
    assert (sides.all(axis=1) | ~sides.any(axis=1)).all()


def test_swaps_are_those_of_metropolis():
    """Pairs take turns, and each swap has the probability min(1, exp((β' - β)(ℓ - ℓ')))."""
    ladder, likelihoods = jnp.asarray([0.1, 0.4, 0.8, 1.0]), jnp.asarray([-7.0, -4.0, -3.0, -1.5])
    keys = jax.random.split(KEY, 40_000)
    for number in (0, 1):
        orders, swaps = jax.vmap(lambda key: tempering.swap(key, likelihoods, ladder, number))(keys)  # noqa: B023
        orders = np.asarray(orders)
        assert (np.sort(orders) == np.arange(4)).all()
        for low in range(3):
            swapped = (orders[:, low] == low + 1) & (orders[:, low + 1] == low)
            ratio = (ladder[low + 1] - ladder[low]) * (likelihoods[low] - likelihoods[low + 1])
            wanted = float(jnp.exp(jnp.minimum(ratio, 0))) if low % 2 == number else 0.0
            assert abs(swapped.mean() - wanted) < 5 * np.sqrt(0.25 / len(keys)) * (wanted > 0) + 1e-12
            assert np.asarray(swaps.rejected)[0, low] == pytest.approx((1 - wanted) * (low % 2 == number), abs=1e-6)
        assert (np.asarray(swaps.tried)[0] == (np.arange(3) % 2 == number)).all()


def test_a_ladder_is_spaced_by_rejections():
    ladder = jnp.asarray([0.01, 0.1, 0.5, 1.0])
    equal = tempering.Swaps(jnp.full(3, 10.0), jnp.full(3, 4.0))
    np.testing.assert_allclose(tempering.respaced(ladder, equal), ladder, rtol=1e-5)
    # All rejections in the last pair: the rungs go there.
    uneven = tempering.respaced(ladder, tempering.Swaps(jnp.full(3, 10.0), jnp.asarray([0.0, 0.0, 8.0])))
    assert uneven[0] == ladder[0]
    assert uneven[-1] == 1
    assert uneven[1] > 0.5
    assert (np.diff(uneven) > 0).all()


def network_problem():
    rng = np.random.default_rng(0)
    network = aw.networks.mlp(3, (4,), 2)
    x = rng.normal(size=(30, 3)).astype(np.float32)
    prior = aw.Prior(scale=aw.fan_in())
    return aw.Problem(network.init, network.apply, aw.HeteroscedasticNormal(), prior, (x, x[:, 0]))


def test_coordinates_are_those_of_the_fisher_information():
    """Bases are orthonormal; the information is the diagonal of the Fisher information, turned, and of the prior's."""
    problem, beta = network_problem(), 0.3
    vector = 0.5 * jax.random.normal(KEY, (problem.size,))
    count = 4000
    keys = jax.random.split(KEY, (count, 1))
    axes = tempering.coordinates(keys[:, 0], problem, jnp.broadcast_to(vector, (count, problem.size)), beta)
    there = tempering.to_coordinates(problem, axes, vector)
    np.testing.assert_allclose(tempering.from_coordinates(problem, axes, there), vector, atol=1e-5)
    for one in axes:
        for basis in (one.left, one.right):
            if basis is not None:
                np.testing.assert_allclose(basis.T @ basis, np.eye(len(basis)), atol=1e-5)
    # `information` is the other implementation, in the parameters' own coordinates; it adds the prior's precision.
    dense = jax.lax.map(lambda key: information(key, problem, vector, True), keys[:, 0]).mean(0)
    prior = np.diag(jax.hessian(lambda v: -tempering.tempered(problem, v, 0.0))(vector))
    whole = beta * (np.asarray(dense) - np.diag(prior)) + np.diag(prior)
    turn = jax.jacobian(lambda v: tempering.from_coordinates(problem, axes, v))(jnp.zeros(problem.size))
    scaled = np.asarray(turn).T @ whole @ np.asarray(turn)
    # Both are means over draws of 30 rows' targets; the picked rows add their own noise. 4,000 looks: some 2% each.
    np.testing.assert_allclose(np.diag(scaled), 1, atol=0.15)


def test_sides_of_one_and_long_sides_have_no_basis(monkeypatch):
    """A state keeps its arrays from start to draws, also for a network with one output and a side that is too long."""
    monkeypatch.setattr(tempering, "LARGEST", 4)
    network, x = aw.networks.mlp(3, (6,), 1), np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    problem = aw.Problem(network.init, network.apply, aw.Normal(scale=0.5), aw.Prior(aw.fan_in()), (x, x[:, :1]))
    method = aw.Tempering(2, windows=(8,), thin=2, leapfrogs=1, draws=1)
    posterior = aw.sample(KEY, problem, aw.Plan(method, 1, 1), callbacks=[])
    assert len(posterior) == 1
    axes = tempering.coordinates(jax.random.split(KEY, 1), problem, jnp.zeros((1, problem.size)), jnp.float32(1.0))
    assert [(one.left is not None, one.right is not None) for one in axes] == [(True, False), (False, False)]


@pytest.mark.slow
def test_it_keeps_the_contract(model):
    method = aw.Tempering(3, windows=(8, 16), thin=2, leapfrogs=3, draws=3)
    aw.testing.check_method(method, model.problem)
    training = aw.Training(aw.SOAP(0.1), epochs=3, batch_size=8)
    aw.testing.check_method(
        aw.Tempering(1, windows=(8,), thin=2, leapfrogs=3, draws=3, training=training), model.problem
    )


def test_trained_chains_begin_at_optima(model):
    training = aw.Training(aw.Adam(0.1, end_rate=1e-4), epochs=200, batch_size=model.rows)
    method = aw.Tempering(2, windows=(8,), thin=2, leapfrogs=1, draws=1, training=training)
    keys = aw.Keys(KEY, KEY)
    state = method.start(keys, model.problem, jnp.uint32(0))
    call = next(method.calls(model.problem, 1))
    after, draws = method.step(keys, model.problem, state, call, jnp.int32(0))
    assert len(jax.tree.leaves(draws.params)[0]) == 0
    np.testing.assert_array_equal(after.positions[0], after.positions[1])
    anchor = state.positions[0]  # the optimum of the anchored loss is inv(P) (X'y / s² + inv(S) anchor)
    x, noise = model.x, model.noise
    wanted = np.linalg.solve(model.precision, x.T @ model.y / noise**2 + np.asarray(anchor) / model.scale**2)
    np.testing.assert_allclose(after.positions[0], wanted, atol=2e-3)


def test_the_likelihood_alone_is_tempered(model):
    vector = jnp.asarray([0.1, -0.2, 0.3])
    cold, warm, prior = (float(tempering.tempered(model.problem, vector, beta)) for beta in (1.0, 0.5, 0.0))
    assert cold - prior == pytest.approx(float(log_likelihood(model.problem, vector)), rel=1e-5)
    assert warm == pytest.approx((cold + prior) / 2, rel=1e-5)
    assert cold == pytest.approx(float(log_density(model.problem, vector)), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"rungs": 0}, "rungs"),
        ({"hottest": 1.0}, "hottest"),
        ({"thin": 3}, "an even number"),
        ({"windows": (50,)}, "multiples of 8"),
        ({"windows": ()}, "multiples of 8"),
        ({"training": 3}, "training"),
    ],
)
def test_bad_settings_are_refused(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        aw.Tempering(**arguments)
