"""Hamiltonian Monte Carlo against closed forms and blackjax's own metric, and that a killed run resumes."""

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.diagnostics import ess_bulk
from scipy.stats import norm

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods import hmc
from anchorwalk.methods.density import Joint, information, log_density, widened
from anchorwalk.methods.hmc_kernel import GAIN, GAIN_DELAY, LONGEST, SHORTEST, TARGET, geometry, run_block, tune_from
from helpers import LinearGaussian, leaves_equal, stacked_params

METHOD = aw.HMC(windows=(20, 40, 100), thin=1, leapfrogs=8, block=20, draws=100, descent=5)
PLAN = aw.Plan(METHOD, chains=4, members=600)
KEY = jax.random.key(0)


@pytest.fixture(scope="module")
def model():
    return LinearGaussian(mean=0.3)


@pytest.fixture(scope="module")
def posterior(model):
    return aw.sample(KEY, model.problem, PLAN, callbacks=[])


def whitened(model, posterior, chains):
    vectors = stacked_params(posterior)["w"].astype(float)
    centred = (vectors - model.posterior_mean).T
    return np.linalg.solve(np.linalg.cholesky(model.posterior_covariance), centred).T.reshape(chains, -1, 3)


def test_the_density_is_the_posterior(model):
    narrow = model.problem  # in float32, as a user makes it
    with jax.enable_x64(True):
        problem = widened(narrow)
        points = np.random.default_rng(0).normal(size=(5, 3))
        found = np.array([log_density(problem, jnp.asarray(point)) for point in points])
    x, y, scale = (np.asarray(value, np.float32).astype(float) for value in (model.x, model.y, model.scale))
    exact = [
        norm.logpdf(y, x @ point, np.float32(model.noise)).sum() + norm.logpdf(point, np.float32(0.3), scale).sum()
        for point in points
    ]
    # A constant may stand in float32 (24 rows, 2e-9 each); what depends on the point must not.
    np.testing.assert_allclose(found - found[0], np.array(exact) - exact[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found, exact, atol=24 * 2**-24)


def test_the_information_is_unbiased(model):
    narrow = model.problem
    with jax.enable_x64(True):
        problem, point = widened(narrow), jnp.asarray([0.5, -1.0, 2.0])
        keys = jax.random.split(jax.random.key(1), 4000)
        dense = np.asarray(jax.jit(jax.vmap(lambda key: information(key, problem, point, True)))(keys))
        diagonal = np.asarray(information(keys[0], problem, point, False))
    # For a linear model with normal noise the Fisher information plus the prior's precision is P itself.
    error = dense.std(0) / np.sqrt(len(dense))
    assert (np.abs(dense.mean(0) - model.precision) <= 5 * error + 1e-5 * np.abs(model.precision)).all()
    np.testing.assert_allclose(diagonal, np.diag(dense[0]), rtol=1e-10)


def test_a_block_is_blackjaxs_own_kernel_with_that_mass_matrix(model):
    """The same keys, step sizes and mass matrix through blackjax's dense metric, which takes the inverse."""
    narrow, iterations = model.problem, 15
    with jax.enable_x64(True):
        problem = widened(narrow)
        mass, start = jnp.asarray(model.precision), jnp.asarray([0.2, -0.4, 1.0])
        tuning = tune_from(jnp.asarray(0.5))
        found = run_block(KEY, Joint(problem), start, geometry(mass), tuning, False, jnp.int32(7), iterations, 6)
        kernel = blackjax.hmc.build_kernel()
        state = blackjax.hmc.init(start, lambda vector: log_density(problem, vector))
        log_step, expected = jnp.log(0.5), []
        for i, key in enumerate(jax.random.split(KEY, iterations)):
            move_key, jitter_key = jax.random.split(key)
            step = jnp.exp(log_step) * jax.random.uniform(jitter_key, (), float, SHORTEST, LONGEST)
            inverse = jnp.linalg.inv(mass)
            state, info = kernel(move_key, state, lambda v: log_density(problem, v), step, inverse, 6)
            log_step += GAIN / (GAIN_DELAY + 7 + i) * (info.acceptance_rate - TARGET)
            expected.append(np.asarray(state.position))
        moves = np.asarray(found.positions)
    # blackjax draws momenta by another root of the mass matrix where that is not diagonal: compare energies' law there,
    # and positions exactly where it is.
    with jax.enable_x64(True):
        diagonal = jnp.diag(mass)
        found = run_block(KEY, Joint(problem), start, geometry(diagonal), tuning, False, jnp.int32(7), iterations, 6)
        state = blackjax.hmc.init(start, lambda vector: log_density(problem, vector))
        log_step, expected = jnp.log(0.5), []
        for i, key in enumerate(jax.random.split(KEY, iterations)):
            move_key, jitter_key = jax.random.split(key)
            step = jnp.exp(log_step) * jax.random.uniform(jitter_key, (), float, SHORTEST, LONGEST)
            state, info = kernel(move_key, state, lambda v: log_density(problem, v), step, 1 / diagonal, 6)
            log_step += GAIN / (GAIN_DELAY + 7 + i) * (info.acceptance_rate - TARGET)
            expected.append(np.asarray(state.position))
        np.testing.assert_allclose(found.positions, expected, rtol=1e-9, atol=1e-12)
    assert len(np.unique(moves.round(9), axis=0)) > iterations / 2


def test_draws_have_the_posterior_mean_and_covariance(model, posterior):
    chains = whitened(model, posterior, PLAN.chains)
    flat = chains.reshape(-1, 3)
    # Standard errors from the effective sizes of x and of x²; each of the nine numbers stays below five of them.
    size, square = np.min(ess_bulk(chains)), np.min(ess_bulk(chains**2))
    assert min(size, square) > 500
    assert np.max(np.abs(flat.mean(0))) < 5 / np.sqrt(size)
    assert np.max(np.abs(np.cov(flat.T) - np.eye(3))) < 5 * np.sqrt(2 / square)
    values = {name: np.array([info.value(name) for info in posterior.infos]) for name in ("acceptance", "divergent")}
    assert values["divergent"].reshape(4, -1).mean(axis=1).max() < 0.02
    assert 0.6 < values["acceptance"].mean() <= 1


def test_the_step_size_settles(posterior):
    steps = np.log(np.reshape([info.value("step_size") for info in posterior.infos], (PLAN.chains, -1)))
    # Its gain is 2 / (100 + t) and an error of the acceptance below 1: over the last half of 600 iterations it can
    # move by 2 log(700 / 400) at the very most, and by a tenth of that where errors are a tenth and keep their sign.
    assert np.max(np.ptp(steps[:, 300:], axis=1)) < 0.2 * np.log(700 / 400)


def test_the_log_density_is_that_of_the_draw(model, posterior):
    narrow = model.problem
    with jax.enable_x64(True):
        problem = widened(narrow)
        for member in list(posterior)[::500]:
            exact = float(log_density(problem, jnp.asarray(tree.ravel(member.params), jnp.float64)))
            # Draws are rounded to float32: at a standard deviation of about one the density moves by some 1e-6.
            assert member.info.value("log_density") == pytest.approx(exact, abs=1e-4)
            assert member.params["w"].dtype == np.float32


def test_its_posterior_is_like_every_other(model, posterior, tmp_path):
    x = model.x.astype(np.float32)
    prediction = posterior.predict(x)
    assert np.max(np.abs(prediction.mean - x @ model.posterior_mean)) < 0.1
    assert posterior.diagnose(x).agree
    assert posterior.about["method"]["title"] == "Hamiltonian Monte Carlo"
    assert posterior.about["plan"]["calls"][1] == ["warm-up", 0, 20 * 8 + 3, 1]


def test_a_killed_run_resumes_bit_for_bit_and_grows(model, posterior, tmp_path):
    class Killed(Exception):
        pass

    def killed_at(number):
        def callback(round_info):
            if round_info.number == number:
                raise Killed

        return callback

    for number in (0, 2, 5):
        with pytest.raises(Killed):
            aw.sample(KEY, model.problem, PLAN, store=tmp_path / "run", callbacks=[killed_at(number)])
    again = aw.sample(KEY, model.problem, PLAN, store=tmp_path / "run", callbacks=[])
    assert leaves_equal(stacked_params(again), stacked_params(posterior))
    fewer = aw.sample(KEY, model.problem, aw.Plan(METHOD, 4, 250), callbacks=[])
    assert len(fewer) == 1000  # the draws of whole calls that are beyond the plan are not used
    assert leaves_equal(fewer[2, 249].params, posterior[2, 249].params)
    with pytest.raises(InvalidInput, match="key was"):
        aw.sample(jax.random.key(1), model.problem, PLAN, store=tmp_path / "run", callbacks=[])


def test_states_hold_the_mass_matrix_and_members_do_not(model, tmp_path):
    store = aw.DiskStore(tmp_path / "run")
    aw.sample(KEY, model.problem, aw.Plan(METHOD, 2, 200), store=store, callbacks=[])
    assert store.state(0).mass.shape == (3, 3)
    assert store.state(0).mass.dtype == np.float64
    # The Fisher information of a linear model is the same everywhere. Each look has 24 rows, and the mean is over some
    # 30 looks: relative errors of about sqrt(2 / (24 * 30)) a direction, of which ten are allowed.
    root = np.linalg.inv(np.linalg.cholesky(model.precision))
    assert np.max(np.abs(np.linalg.eigvalsh(root @ store.state(0).mass @ root.T) - 1)) < 10 * np.sqrt(2 / (24 * 30))
    assert all(part.bytes < 200 * 2 * 100 for part in store.manifest.members)


def test_chains_can_start_from_a_training(model):
    training = model.training()
    method = aw.HMC(windows=(20, 100), thin=1, leapfrogs=8, block=20, draws=100, training=training)
    store = aw.MemoryStore()
    aw.sample(KEY, model.problem, aw.Plan(method, 6, 100), store=store, callbacks=[])
    starts = np.stack([store.state(chain).start for chain in range(6)])
    # The anchored optimum is where the anchored loss has no gradient: P (start - mean) = inv(S) (anchor - prior mean),
    # so that white it has the covariance of inv(P) inv(S) inv(P): six draws of three numbers, all within five sds.
    covariance = model.anchored_covariance
    white = np.linalg.solve(np.linalg.cholesky(covariance), (starts - model.posterior_mean).T)
    assert np.abs(white).max() < 5
    assert white.std() > 0.3
    assert next(iter(method.calls(None, 1))).passes == training.epochs + 1


@pytest.mark.slow
def test_large_networks_get_a_diagonal_metric(model, monkeypatch):
    monkeypatch.setattr(hmc, "DENSE", 1)
    method = aw.HMC(windows=(20, 100), thin=1, leapfrogs=8, block=20, draws=100, descent=5)
    found = aw.sample(KEY, model.problem, aw.Plan(method, 2, 400), callbacks=[])
    chains = whitened(model, found, 2)
    size, square = np.min(ess_bulk(chains)), np.min(ess_bulk(chains**2))
    assert min(size, square) > 100
    assert np.max(np.abs(chains.reshape(-1, 3).mean(0))) < 5 / np.sqrt(size)
    assert np.max(np.abs(np.cov(chains.reshape(-1, 3).T) - np.eye(3))) < 5 * np.sqrt(2 / square)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"windows": (30,)}, "whole blocks"),
        ({"windows": ()}, "at least one window"),
        ({"thin": 7, "draws": 50}, "thin|whole blocks"),
        ({"draws": 0}, "draws"),
        ({"training": 3}, r"HMC\(training=\)"),
    ],
)
def test_settings_that_cannot_be(settings, words):
    with pytest.raises(InvalidInput, match=words):
        aw.HMC(**settings)


@pytest.mark.slow  # two minutes
def test_a_run_agrees_with_the_packaged_reference():
    """Another key and other draws: their distance is at most what the halves of both differ by, added up."""
    from anchorwalk.benchmark import Variant, open_case
    from anchorwalk.benchmark.references.make import examine, vectors_of

    case, plan = open_case("uci_gap", Variant(split=5)), aw.Plan(aw.HMC(), chains=8, members=200)
    posterior = aw.sample(jax.random.key(100), case.problem, plan, callbacks=[])
    evidence = examine(case.problem, {"only": vectors_of(posterior, plan)}, np.asarray(case.x_test, np.float32))
    distance = case.reference.compare(evidence.values)
    for name in ("w1", "w2"):
        assert distance[name] < evidence.floor[name] + case.reference.floor[name]
