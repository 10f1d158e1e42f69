"""Hamiltonian Monte Carlo against closed forms, and that a killed run goes on."""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.diagnostics import ess_bulk
from safetensors.numpy import load_file
from scipy.stats import norm

from anchorwalk.benchmark.references import hmc
from anchorwalk.benchmark.references.density import information, log_density, widened
from anchorwalk.benchmark.references.evidence import examine
from anchorwalk.benchmark.references.hmc import Sampler, hamiltonian
from anchorwalk.errors import InvalidInput
from helpers import LinearGaussian

SAMPLER = Sampler(chains=4, descent=5, windows=(20, 40, 100), draws=600, thin=1, leapfrogs=8, block=20)


@pytest.fixture(scope="module")
def model():
    return LinearGaussian(mean=0.3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("reference") / "run"


@pytest.fixture(scope="module")
def draws(model, folder):
    return hamiltonian(jax.random.key(0), model.problem, SAMPLER, folder)


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


def test_draws_have_the_posterior_mean_and_covariance(model, draws):
    flat = draws.vectors.reshape(-1, 3).astype(float)
    covariance = model.posterior_covariance
    whitened = np.linalg.solve(np.linalg.cholesky(covariance), (flat - model.posterior_mean).T).T
    chains = whitened.reshape(SAMPLER.chains, -1, 3)
    # Standard errors from the effective sizes of x and of x²; each of the nine numbers stays below five of them.
    size, square = np.min(ess_bulk(chains)), np.min(ess_bulk(chains**2))
    assert min(size, square) > 500
    assert np.max(np.abs(whitened.mean(0))) < 5 / np.sqrt(size)
    assert np.max(np.abs(np.cov(whitened.T) - np.eye(3))) < 5 * np.sqrt(2 / square)
    assert draws.divergent.max() < 0.02
    assert 0.6 < draws.acceptance.mean() <= 1


def test_the_step_size_settles(draws, folder):
    steps = np.log([load_file(path)["step_size"] for path in sorted(folder.glob("draws-*"))])
    # Its gain is 2 / (100 + t) and an error of the acceptance below 1: over the last half of 600 iterations it can
    # move by 2 log(700 / 400) at the very most, and by a tenth of that where errors are a tenth and keep their sign.
    assert np.max(np.ptp(steps[15:], axis=0)) < 0.2 * np.log(700 / 400)


def test_evidence_is_good_for_this_and_bad_for_a_chain_that_is_elsewhere(model, draws):
    x = model.x.astype(np.float32)
    good = examine(model.problem, draws.vectors, x, draws.starts)
    moved = draws.vectors.copy()
    moved[0] += 3.0
    bad = examine(model.problem, moved, x)
    assert good.summary["mean"]["r_hat_90"] < 1.1
    assert bad.summary["mean"]["r_hat_median"] > 1.3
    assert bad.floor["w1"] > 5 * good.floor["w1"]  # halves are split by chain
    assert good.values.shape == (24, 1000)
    # The predictive median is the predictive mean here.
    centre = x @ model.posterior_mean
    spread = np.sqrt(np.einsum("ij,jk,ik->i", x, model.posterior_covariance, x) + model.noise**2)
    assert np.max(np.abs(good.values[:, 500] - centre) / spread) < 0.3


def test_a_killed_run_goes_on_bit_for_bit(model, draws, folder, tmp_path):
    class Killed(Exception):
        pass

    def killed_at(*where):
        def report(stage, done, total):
            if (stage, done) == where:
                raise Killed

        return report

    for report in (killed_at("warm-up", 40), killed_at("draws", 60)):
        with pytest.raises(Killed):
            hamiltonian(jax.random.key(0), model.problem, SAMPLER, tmp_path / "again", report)
    again = hamiltonian(jax.random.key(0), model.problem, SAMPLER, tmp_path / "again")
    np.testing.assert_array_equal(again.vectors, draws.vectors)
    assert len(list(Path(folder).glob("draws-*"))) == 30


def test_another_run_in_the_folder_is_refused(model, draws, folder):
    with pytest.raises(InvalidInput, match="another key"):
        hamiltonian(jax.random.key(1), model.problem, SAMPLER, folder)


@pytest.mark.slow
def test_large_networks_get_a_diagonal_metric(model, draws, tmp_path, monkeypatch):
    monkeypatch.setattr(hmc, "DENSE", 1)
    short = Sampler(chains=2, descent=5, windows=(20, 100), draws=400, thin=1, leapfrogs=8, block=20)
    found = hamiltonian(jax.random.key(0), model.problem, short, tmp_path / "diagonal")
    whitened = np.linalg.solve(
        np.linalg.cholesky(model.posterior_covariance), (found.vectors.reshape(-1, 3) - model.posterior_mean).T
    )
    chains = whitened.T.reshape(2, -1, 3)
    size, square = np.min(ess_bulk(chains)), np.min(ess_bulk(chains**2))
    assert min(size, square) > 100
    assert np.max(np.abs(whitened.mean(1))) < 5 / np.sqrt(size)
    assert np.max(np.abs(np.cov(whitened) - np.eye(3))) < 5 * np.sqrt(2 / square)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"chains": 3}, "even"),
        ({"windows": (30,)}, "whole blocks"),
        ({"thin": 7, "draws": 50}, "thin"),
        ({"draws": 0}, "draws"),
    ],
)
def test_samplers_that_cannot_be(settings, words):
    with pytest.raises(InvalidInput, match=words):
        Sampler(**settings)
