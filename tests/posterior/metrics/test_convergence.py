"""R-hat and effective sizes against closed forms and, where it is installed, ArviZ."""

import warnings

import numpy as np
import pytest
from scipy import stats

from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.metrics import convergence
from chains import autoregressive

RNG = np.random.default_rng(3)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.9])
def test_effective_sizes_of_an_autoregressive_chain_are_those_of_the_closed_form(correlation):
    """The variance of the average is that of n(1-r)/(1+r) draws; squares have the correlation r squared."""
    chains, members, quantities = 4, 2000, 60
    values = autoregressive(RNG, correlation, (chains, members, quantities))
    squared = correlation**2
    for found, rho in (
        (convergence.effective_size(values), correlation),
        (convergence.effective_size_of_spread(values), squared),
    ):
        expected = chains * members * (1 - rho) / (1 + rho)
        # Five standard errors of the mean over quantities, and 5% for the bias of cutting the sum over lags short.
        error = 5 * found.std(ddof=1) / np.sqrt(quantities)
        assert abs(found.mean() - expected) < error + 0.05 * expected
        assert error < 0.15 * expected


def test_r_hat_is_one_for_one_distribution_and_that_of_the_shift_for_two():
    values = RNG.normal(size=(4, 5000, 20))
    assert np.abs(convergence.r_hat(values) - 1).max() < 0.005
    shifted = values + np.array([0.0, 0.0, 1.0, 1.0])[:, None, None]
    # Normal scores of an even mixture of N(0, 1) and N(1, 1), from its distribution function.
    grid = np.linspace(-6, 7, 20_001)
    scores = stats.norm.ppf((stats.norm.cdf(grid) + stats.norm.cdf(grid - 1)) / 2)
    density = stats.norm.pdf(grid) * (grid[1] - grid[0])
    mean, square = (scores * density).sum(), (scores**2 * density).sum()
    within, between = square - mean**2, mean**2 * 8 / 7  # eight halves, at plus and minus that mean
    expected = np.sqrt(1 + between / within)
    # The error of a halves' mean is 1/50; R-hat moves by about half of it, less over eight halves and 20 quantities.
    assert abs(np.median(convergence.r_hat(shifted)) - expected) < 0.01


def test_r_hat_sees_chains_of_another_spread_and_halves_that_drift():
    wide = RNG.normal(size=(4, 1000)) * np.array([1, 1, 1, 3.0])[:, None]
    assert convergence.r_hat(wide) > 1.1
    drifting = RNG.normal(size=(1, 1000)) + np.linspace(0, 3, 1000)
    assert convergence.r_hat(drifting) > 1.1


def test_ranks_are_those_of_scipy_ties_included():
    values = RNG.integers(0, 6, size=(3, 4, 25)).astype(float)
    ranks = stats.rankdata(values.reshape(3, -1), axis=1).reshape(values.shape)
    expected = stats.norm.ppf((ranks - 3 / 8) / (100 + 1 / 4))
    np.testing.assert_allclose(convergence._normal_scores(values), expected, atol=1e-12)


def test_what_cannot_be_judged_is_not_a_number_and_leaves_the_rest_alone():
    values = RNG.normal(size=(2, 20, 4))
    alone = convergence.effective_size(values[..., 3])
    values[..., 0] = 7.0
    values[1, 3, 1] = np.inf
    values[..., 2] = np.array([0.0, 1.0])[:, None]  # each chain stays where it is
    for judge in (convergence.r_hat, convergence.effective_size, convergence.effective_size_of_spread):
        found = judge(values)
        assert np.isnan(found[:2]).all()
        assert np.isfinite(found[3])
    assert convergence.r_hat(values)[2] == np.inf
    assert convergence.effective_size(values)[2] < 4  # two chains, and lags that are cut at the end
    assert convergence.effective_size(values)[3] == alone
    # Two values at equal distance from the median: the folded draws are all the same.
    assert convergence.r_hat(np.resize([-1.0, 1.0], (2, 20))) < 1.1


def test_blocks_of_quantities_are_judged_as_one():
    values = RNG.normal(size=(40, 100, 150))  # three blocks
    whole = convergence.effective_size(values)
    np.testing.assert_array_equal(whole[70:80], convergence.effective_size(values[..., 70:80]))
    assert convergence.r_hat(values.reshape(40, 100, 3, 50)).shape == (3, 50)


@pytest.mark.parametrize("shape", [(20,), (2, 9), (0, 20)])
def test_too_little_is_refused(shape):
    with pytest.raises(InvalidInput, match="at least 10 draws"):
        convergence.r_hat(np.zeros(shape))


def r_hat_of(arviz, one):
    """ArviZ's R-hat; of one chain it gives none, so there it gets the scores of the halves as two chains."""
    if len(one) > 1:
        return arviz.rhat(one, method="rank")
    halves = one.reshape(2, -1)
    found = []
    for values in (halves, np.abs(halves - np.median(halves))):
        scores = stats.norm.ppf((stats.rankdata(values) - 3 / 8) / (values.size + 1 / 4)).reshape(values.shape)
        found.append(arviz.rhat(scores, method="identity"))
    return max(found)


@pytest.mark.parametrize("shape", [(1, 40), (4, 10), (4, 51), (3, 300)], ids=str)
@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.95])
def test_arviz_gives_the_same(shape, correlation):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ before 1.0 announces its successor
        arviz = pytest.importorskip("arviz")
    values = autoregressive(RNG, correlation, (*shape, 5))
    values[..., 4] = np.round(values[..., 4])  # ties
    judges = {
        "r_hat": (convergence.r_hat, lambda one: r_hat_of(arviz, one)),
        "bulk": (convergence.effective_size, lambda one: arviz.ess(one, method="bulk")),
        "spread": (convergence.effective_size_of_spread, lambda one: arviz.ess(one, method="sd")),
    }
    for mine, theirs in judges.values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = [float(theirs(values[..., k])) for k in range(5)]
        np.testing.assert_allclose(mine(values), expected, rtol=1e-6)
