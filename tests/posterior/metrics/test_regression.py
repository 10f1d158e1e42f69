import tracemalloc

import numpy as np
import pytest
from scipy import stats

from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.metrics import _blocks, coverage, crps, negative_log_likelihood, rmse


def brute_force(samples, y, fair):
    """The definition, pair by pair; one score a row."""
    n = len(samples)
    pairs = np.abs(samples[:, None] - samples[None]).sum(axis=(0, 1)) / (n * (n - 1) if fair else n * n)
    return np.abs(samples - y).mean(axis=0) - pairs / 2


def test_crps_by_hand():
    samples, y = [[0.0, 2.0], [1.0, 2.0], [5.0, 2.0]], [2.0, 5.0]
    # Row 1: E|X - y| = (2 + 1 + 3) / 3 = 2; the differences 1, 5, 4 count twice each: 20. Row 2: 3 and no differences.
    # Empirical: 2 - 20 / 18 = 8/9; fair: 2 - 20 / 12 = 1/3.
    assert crps(samples, y) == pytest.approx((8 / 9 + 3) / 2, rel=1e-14)
    assert crps(samples, y, fair=True) == pytest.approx((1 / 3 + 3) / 2, rel=1e-14)


@pytest.mark.parametrize("fair", [False, True])
@pytest.mark.parametrize("n", [2, 3, 40])
def test_crps_against_the_double_sum(n, fair):
    rng = np.random.default_rng(n)
    samples, y = rng.normal(1, 2, size=(n, 6)), rng.normal(size=6)
    samples[0] = samples[1]  # a tie
    assert crps(samples, y, fair=fair) == pytest.approx(brute_force(samples, y, fair).mean(), rel=1e-12)


def test_crps_is_the_integral_over_the_empirical_distribution_function():
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=9), 0.3
    # ∫ (F(z) - 1[z >= y])^2 dz is a sum over the pieces between neighbours among the samples and y.
    ends = np.sort(np.append(samples, y))
    left = ends[:-1]
    shares = (samples[:, None] <= left).mean(axis=0)
    integral = np.sum((shares - (left >= y)) ** 2 * np.diff(ends))
    assert crps(samples[:, None], [y]) == pytest.approx(integral, rel=1e-12)


def test_crps_of_one_sample_is_the_absolute_error():
    assert crps([[1.0, 5.0]], [3.0, 4.0]) == 1.5


@pytest.mark.parametrize("y", [-3.0, 0.0, 0.7, 2.0, 10.0])
def test_crps_against_the_normal_closed_form(y):
    mean, scale, n = 0.5, 2.0, 1000
    z = (y - mean) / scale
    closed_form = scale * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    middles = stats.norm.ppf((np.arange(n) + 0.5) / n)
    found = crps(mean + scale * middles[:, None], [y])
    # E|X - y| and E|X - X'| / 2 each move by at most the W1 distance of the quantiles to the normal. On the cell of a
    # quantile z_i, ∫ |Φ^-1(t) - z_i| dt = 2 φ(z_i) - φ(low end) - φ(high end),
    # as ∫ Φ^-1 from s to t is φ(z_s) - φ(z_t).
    ends = stats.norm.pdf(stats.norm.ppf(np.arange(n + 1) / n))
    w1 = scale * np.sum(2 * stats.norm.pdf(middles) - ends[:-1] - ends[1:])
    assert 2 * w1 < 0.01  # less than 1% of the scores, which are 0.47 and more
    assert closed_form > 0.46
    assert abs(found - closed_form) < 2 * w1


def test_only_the_fair_crps_is_unbiased():
    n, rows = 4, 40_000
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=(n, rows)), rng.normal(size=rows)
    # For X, X' and y all standard normal, E|X - y| = E|X - X'| = 2 / sqrt(π), and the score is the half of it.
    truth = 1 / np.sqrt(np.pi)
    error = 5.33 * brute_force(samples, y, fair=True).std() / np.sqrt(rows)  # a false alarm has probability 1e-7
    assert abs(crps(samples, y, fair=True) - truth) < error
    bias = truth / n  # E|X - X'| / (2 n)
    assert bias > 2 * error  # so that neither form could pass for the other
    assert abs(crps(samples, y) - truth - bias) < error


def test_crps_moves_and_scales_with_the_target():
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=(50, 7)), rng.normal(size=7)
    score = crps(samples, y)
    assert crps(3 - 2 * samples, 3 - 2 * y) == pytest.approx(2 * score, rel=1e-12)
    assert crps(samples[::-1, ::-1], y[::-1]) == pytest.approx(score, rel=1e-12)
    assert crps(np.repeat(samples, 3, axis=0), y) == pytest.approx(score, rel=1e-12)
    # Far from zero the inputs are rounded to 1e-9 or so; a sum that is not centred would lose more.
    assert crps(samples + 2.0**23, y + 2.0**23) == pytest.approx(score, abs=4 * 2.0**-30)


def test_blocks_of_rows_change_nothing(monkeypatch):
    rng = np.random.default_rng(0)
    samples, y = rng.normal(size=(12, 11)), rng.normal(size=11)
    whole = crps(samples, y)
    monkeypatch.setattr(_blocks, "VALUES", 40)  # three rows at a time
    assert crps(samples, y) == pytest.approx(whole, rel=1e-13)


def test_memory_does_not_grow_with_rows():
    samples = np.random.default_rng(0).normal(size=(2000, 2000)).astype(np.float32)  # 32 MB in float64
    tracemalloc.start()
    try:
        crps(samples, samples[0])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 3 * 8 * _blocks.VALUES + 2e5  # a block, its sizes, and a copy that the cast may make


def test_rmse_coverage_and_likelihood_by_hand():
    assert rmse([[1.0, 2.0], [0.0, 0.0]], [[1.0, 4.0], [0.0, 4.0]]) == pytest.approx(np.sqrt(20 / 4), rel=1e-14)
    assert coverage([0, 0, 0, -np.inf], [1, 1, np.inf, 1], [0, 1.1, 9, -9]) == 0.75
    assert negative_log_likelihood([-1.0, -np.inf]) == np.inf
    assert negative_log_likelihood(np.float16([-1, -2, -2])) == 5 / 3  # a mean in float16 would be off by 3e-4


def test_coverage_of_an_interval_from_samples():
    # Rows of 0, 1, ..., 10: the central 80% run from 1 to 9.
    samples = np.tile(np.arange(11.0)[:, None], 4)
    assert coverage(*np.quantile(samples, [0.1, 0.9], axis=0), [0.9, 1.1, 8.9, 9.1]) == 0.5


N, COLUMN = np.zeros(3), np.zeros((3, 1))
BAD = [
    (lambda: rmse(COLUMN, N), "y", ["shape (3,)", "shape (3, 1), that of mean", "y.reshape((3, 1))"]),
    (lambda: rmse(N, COLUMN), "y", ["shape (3, 1)", "shape (3,), that of mean", "y.reshape((3,))"]),
    (lambda: rmse(N, N[:2]), "y", ["shape (2,)", "one value for each"]),
    (lambda: rmse([], []), "mean", ["shape (0,)", "at least one value"]),
    (lambda: rmse([np.nan], [0.0]), "mean", ["not finite", "(0,)"]),
    (lambda: rmse([0.0], [np.inf]), "y", ["not finite", "(0,)"]),
    (lambda: coverage(N, COLUMN, N), "high", ["shape (3, 1)", "that of low", "high.reshape((3,))"]),
    (lambda: coverage(N, N, COLUMN), "y", ["shape (3, 1)", "that of low", "y.reshape((3,))"]),
    (lambda: coverage([np.nan], [1.0], [0.0]), "low", ["NaN", "Leave such rows out"]),
    (lambda: coverage([0.0], [np.nan], [0.0]), "high", ["NaN", "Leave such rows out"]),
    (lambda: coverage([0.0], [1.0], [np.nan]), "y", ["not finite"]),
    (lambda: coverage([1.0, 0.0], [0.0, 1.0], [0.5, 0.5]), "low", ["1 lower ends above", "Swap"]),
    (lambda: coverage([], [], []), "low", ["shape (0,)"]),
    (lambda: negative_log_likelihood([]), "log_prob", ["shape (0,)"]),
    (lambda: negative_log_likelihood([np.nan, 0.0]), "log_prob", ["NaN or plus infinity", "Leave such rows out"]),
    (lambda: negative_log_likelihood([np.inf]), "log_prob", ["NaN or plus infinity", "minus infinity"]),
    (lambda: crps(N, N), "samples", ["shape (3,)", "(samples, rows)", "samples[:, None]", "samples[None]"]),
    (lambda: crps(np.zeros((2, 3, 1)), N), "samples", ["shape (2, 3, 1)", "samples[:, :, 0]"]),
    (lambda: crps(np.zeros((0, 3)), N), "samples", ["shape (0, 3)"]),
    (lambda: crps([[np.nan]], [0.0]), "samples", ["not finite"]),
    (lambda: crps(np.zeros((2, 3)), COLUMN), "y", ["shape (3, 1)", "a row of samples", "y.reshape((3,))"]),
    (lambda: crps(np.zeros((3, 2)), N), "y", ["shape (3,)", "shape (2,)"]),
    (lambda: crps([[0.0]], [np.nan]), "y", ["not finite"]),
    (lambda: crps([[0.0]], [0.0], fair=True), "samples", ["one sample", "two or more", "fair=False"]),
]


@pytest.mark.parametrize(("call", "argument", "parts"), BAD)
def test_bad_input_is_refused(call, argument, parts):
    with pytest.raises(InvalidInput) as caught:
        call()
    message = str(caught.value)
    assert message.startswith(f"{argument}: got ")
    assert all(part in message for part in parts), message
