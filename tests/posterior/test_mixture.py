"""Quantiles of mixtures of normals against the exact ones."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

import anchorwalk as aw
from anchorwalk.posterior.mixture import normal_mixture_quantiles
from helpers import posterior_of


def test_one_normal_is_exact_up_to_its_atoms():
    levels = (np.arange(100) + 0.5) / 100
    found = normal_mixture_quantiles(np.full((1, 2), 3.0), np.full((1, 2), 0.5), 100, atoms=4096)
    # A quantile is off by at most one atom: 1 / 4096 of probability over the density there.
    exact = norm.ppf(levels)
    slack = 0.5 / (4096 * norm.pdf(exact)) + 1e-6
    assert found.shape == (2, 100)
    assert (np.abs(found - (3.0 + 0.5 * exact)) <= slack).all()


@pytest.mark.parametrize("members", [2, 30, 910])
def test_mixtures_agree_with_the_exact_quantiles(members):
    rng = np.random.default_rng(0)
    mean = rng.normal(size=(members, 3)).astype(np.float32)
    scale = rng.uniform(0.05, 0.5, (members, 3)).astype(np.float32)
    outputs = np.stack([mean, np.log(np.expm1(scale))], axis=-1)
    posterior = posterior_of(list(outputs), lambda params, x: params[: x.shape[0]], aw.HeteroscedasticNormal())
    levels = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
    exact = posterior.predict(jnp.zeros((3, 1))).quantile(levels)
    found = normal_mixture_quantiles(mean, scale, 1000, atoms=4096)[:, (levels * 1000).astype(int)]
    # In probability: half a level, one atom of each of the two neighbours, and the discrepancy of the atoms' places,
    # which golden-ratio offsets keep below a few parts of 1 / atoms for each of the members' steps.
    mixture = norm.cdf(found[:, :, None], mean.T[:, None, :], scale.T[:, None, :]).mean(-1)
    assert np.max(np.abs(mixture - levels - 0.0005)) < 0.005
    assert np.max(np.abs(found.T - exact)) < 0.05


def test_no_two_members_share_their_noise():
    # Were every member's noise the same, the mean over members of equal normals would vary as one of them does; the
    # atoms of 500 equal members are instead those of one normal with 500 times as many.
    equal = normal_mixture_quantiles(np.zeros((500, 1)), np.ones((500, 1)), 50, atoms=500)
    exact = norm.ppf((np.arange(50) + 0.5) / 50)
    assert np.max(np.abs(equal[0] - exact)) < 0.05
