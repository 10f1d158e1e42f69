"""How far chains agree, and how many independent draws they are worth (Vehtari et al. 2021).

Draws have the shape (chains, draws, ...); every quantity behind the first two axes is judged by itself. Results are NaN
for a quantity that is constant or not finite.
"""

from collections.abc import Callable
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.posterior.metrics._blocks import by_row, row_blocks
from anchorwalk.types import HostArray

LEAST = 10
"""Draws of a chain from which on these figures say anything: halves of five have the first two pairs of lags."""


def r_hat(draws: Any) -> HostArray:
    """Rank-normalised split R-hat: near 1 where all halves of all chains have the same distribution.

    It is the larger of two: one of the ranks, which sees shifted halves, and one of the ranks of the distance from
    the median, which sees halves of another spread.

    Args:
        draws: Shape (chains, draws, ...), at least ten draws.

    Returns:
        One number for each quantity.

    Raises:
        InvalidInput: Too few draws or axes.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.posterior.metrics.convergence import r_hat
        >>> draws = np.random.default_rng(0).normal(size=(4, 500))
        >>> r_hat(draws) < 1.01, r_hat(draws + np.arange(4)[:, None]) > 1.5
        (np.True_, np.True_)
    """

    def larger(values: HostArray) -> HostArray:
        halves = _halves(values)
        folded = np.abs(halves - np.median(halves, axis=(1, 2), keepdims=True))
        # Folded draws may be constant where the draws are not.
        return np.fmax(_scale_reduction(_normal_scores(halves)), _scale_reduction(_normal_scores(folded)))

    return _each("r_hat(draws=)", draws, larger)


def effective_size(draws: Any) -> HostArray:
    """Effective number of independent draws, by rank: what an average over all draws is worth.

    Args:
        draws: Shape (chains, draws, ...), at least ten draws.

    Returns:
        One number for each quantity.

    Raises:
        InvalidInput: Too few draws or axes.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.posterior.metrics.convergence import effective_size
        >>> 1800 < effective_size(np.random.default_rng(0).normal(size=(4, 500))) < 2200
        np.True_
    """
    return _each("effective_size(draws=)", draws, lambda values: _size(_normal_scores(_halves(values))))


def effective_size_of_spread(draws: Any) -> HostArray:
    """Effective number of independent draws of the squared deviation from the mean: what a variance is worth.

    A walk that goes round in circles averages to its mean quickly, and this sees that it does not spread.

    Args:
        draws: Shape (chains, draws, ...), at least ten draws.

    Returns:
        One number for each quantity.

    Raises:
        InvalidInput: Too few draws or axes.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.posterior.metrics.convergence import effective_size_of_spread
        >>> 1800 < effective_size_of_spread(np.random.default_rng(0).normal(size=(4, 500))) < 2200
        np.True_
    """

    def squares(values: HostArray) -> HostArray:
        return _size(_halves((values - values.mean(axis=(1, 2), keepdims=True)) ** 2))

    return _each("effective_size_of_spread(draws=)", draws, squares)


def _each(argument: str, draws: Any, judge: Callable[[HostArray], HostArray]) -> HostArray:
    """`judge` of blocks of quantities, each (quantities, chains, draws), so that memory stays bounded."""
    array = np.asarray(draws)
    if array.ndim < 2 or array.shape[0] < 1 or array.shape[1] < LEAST:
        expected = f"(chains, draws, ...) with at least {LEAST} draws"
        checks.reject(argument, f"shape {array.shape}", expected, "Shorter chains cannot be judged.")
    chains, length = array.shape[:2]
    flat = array.reshape(chains * length, -1)
    result = np.full(flat.shape[1], np.nan)
    for block in row_blocks(flat.shape[1], chains * length):
        values = by_row(flat, block)
        known = np.isfinite(values).all(axis=1) & (values != values[:, :1]).any(axis=1)
        if known.any():
            with np.errstate(divide="ignore", invalid="ignore"):  # halves without spread: infinite, or not known
                judged = judge(values[known].reshape(-1, chains, length))
            result[block][known] = judged  # the slice is a view
    return result.reshape(array.shape[2:])


def _halves(values: HostArray) -> HostArray:
    """Each chain as two; the middle draw of an odd number is left out."""
    half = values.shape[-1] // 2
    return np.concatenate([values[..., :half], values[..., -half:]], axis=1)


def _normal_scores(values: HostArray) -> HostArray:
    """Draws replaced by the normal quantiles of their ranks among all; ties share their mean rank."""
    flat = values.reshape(len(values), -1)
    count = flat.shape[1]
    order = np.argsort(flat, axis=1)
    in_order = np.take_along_axis(flat, order, axis=1)
    new = np.ones(flat.shape, bool)
    new[:, 1:] = in_order[:, 1:] != in_order[:, :-1]
    last = np.ones(flat.shape, bool)
    last[:, :-1] = new[:, 1:]
    places = np.arange(count)
    first_of_tie = np.maximum.accumulate(np.where(new, places, 0), axis=1)
    last_of_tie = np.minimum.accumulate(np.where(last, places, count)[:, ::-1], axis=1)[:, ::-1]
    scores = np.empty(flat.shape)
    np.put_along_axis(scores, order, _quantiles(count)[first_of_tie + last_of_tie], axis=1)
    return scores.reshape(values.shape)


@lru_cache(maxsize=16)
def _quantiles(count: int) -> HostArray:
    """Normal quantiles by twice the mean rank, from 0, which is a whole number: one table serves all quantities."""
    inverse = NormalDist().inv_cdf
    return np.array([inverse((twice / 2 + 5 / 8) / (count + 1 / 4)) for twice in range(2 * count - 1)])


def _scale_reduction(values: HostArray) -> HostArray:
    """Gelman and Rubin's R-hat: the spread over all chains against that within them."""
    length = values.shape[-1]
    within = values.var(axis=-1, ddof=1).mean(axis=-1)
    between = values.mean(axis=-1).var(axis=-1, ddof=1)
    return np.asarray(np.sqrt((length - 1) / length + between / within))


def _size(values: HostArray) -> HostArray:
    """Draws divided by their autocorrelation time, by Geyer's initial monotone sequence.

    Sums of autocorrelations over pairs of lags (2k, 2k + 1) are positive and fall for a reversible chain. The sum
    over pairs ends before the first that is not positive, each pair counts no more than those before it, and the even
    lag after the last one counts once.
    """
    _, chains, length = values.shape
    covariance = _autocovariance(values).mean(axis=1)
    within = covariance[:, :1] * length / (length - 1)
    total = covariance[:, :1] + values.mean(axis=-1).var(axis=-1, ddof=1)[:, None]
    correlation = 1 - (within - covariance) / total
    correlation[:, 0] = 1
    pairs = (length - 1) // 2  # the last lags rest on one or two draws a chain
    sums = correlation[:, 0 : 2 * pairs : 2] + correlation[:, 1 : 2 * pairs : 2]
    ended = sums <= 0
    ended[:, -1] = True
    end = np.argmax(ended, axis=1)
    falling = np.minimum.accumulate(sums, axis=1)
    kept = np.where(np.arange(pairs) < end[:, None], falling, 0).sum(axis=1)
    after = np.take_along_axis(correlation, 2 * end[:, None], axis=1)[:, 0]
    time = -1 + 2 * kept + np.maximum(after, 0)
    count = chains * length
    shortest = 1 / np.log10(count)  # draws that go to and fro are worth more than independent ones, up to a limit
    return np.asarray(count / np.maximum(time, shortest))


def _autocovariance(values: HostArray) -> HostArray:
    """Mean product of deviations at each lag, divided by the number of draws whatever the lag."""
    length = values.shape[-1]
    padded = 1 << (2 * length - 1).bit_length()  # twice the length, so that the ends do not meet
    spectrum = np.fft.rfft(values - values.mean(axis=-1, keepdims=True), padded)
    return np.asarray(np.fft.irfft(np.abs(spectrum) ** 2, padded)[..., :length] / length)
