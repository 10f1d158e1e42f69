"""Scores of predictions of a number."""

from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.posterior.metrics import validate
from anchorwalk.posterior.metrics._blocks import by_row, row_blocks


def negative_log_likelihood(log_prob: Any) -> float:
    """Mean of -log p(y | x, D) over rows, in nats; infinite where a row's log-probability is minus infinity.

    Args:
        log_prob: Log-probability or log-density of each row's target, of numbers as of classes.

    Raises:
        InvalidInput: No rows, NaN, or plus infinity.

    Example:
        >>> from anchorwalk.posterior.metrics import negative_log_likelihood
        >>> negative_log_likelihood([-1.0, -2.0])
        1.5
    """
    values = validate.numbers("log_prob", log_prob)
    if not values.max() < np.inf:  # false for NaN, which max passes through
        given, expected = "NaN or plus infinity", "finite values or minus infinity"
        checks.reject("log_prob", given, expected, "Leave such rows out, or find out where they come from.")
    return float(-np.mean(values, dtype=np.float64))


def rmse(mean: Any, y: Any) -> float:
    """Root of the mean squared difference between predicted means and targets.

    Args:
        mean: Predicted means.
        y: Targets, of the same shape.

    Raises:
        InvalidInput: Unequal shapes, no rows, NaN or infinity.

    Example:
        >>> from anchorwalk.posterior.metrics import rmse
        >>> rmse([1.0, 2.0], [1.0, 4.0])
        1.4142135623730951
    """
    means = validate.numbers("mean", mean)
    validate.finite("mean", means)
    return float(np.sqrt(np.mean(np.square(means - validate.targets("y", y, means.shape, of="mean")))))


def coverage(low: Any, high: Any, y: Any) -> float:
    """Share of the targets within their intervals, ends included.

    Args:
        low: Lower ends; minus infinity is one.
        high: Upper ends, of the same shape; infinity is one.
        y: Targets, of the same shape.

    Raises:
        InvalidInput: Unequal shapes, no rows, NaN, targets that are infinite, or a lower end above its upper end.

    Example:
        >>> from anchorwalk.posterior.metrics import coverage
        >>> coverage([0.0, 0.0], [1.0, 1.0], [0.5, 2.0])
        0.5

        Of samples, shape (samples, rows), the central interval that holds half of them:

        >>> import numpy as np
        >>> samples = np.array([[0.0], [1.0], [2.0], [3.0], [4.0]])
        >>> coverage(*np.quantile(samples, [0.25, 0.75], axis=0), [2.5])
        1.0
    """
    lows, highs = validate.numbers("low", low), validate.numbers("high", high)
    validate.same_shape("high", highs, lows.shape, of="low")
    y = validate.targets("y", y, lows.shape, of="low")
    for argument, ends in (("low", lows), ("high", highs)):
        if np.isnan(ends).any():
            checks.reject(argument, "NaN", "numbers or infinity", "Leave such rows out.")
    if np.any(lows > highs):
        given = f"{int(np.sum(lows > highs))} lower ends above their upper ends"
        checks.reject("low", given, "low <= high", "Swap the two.")
    return float(np.mean((lows <= y) & (y <= highs)))


def crps(samples: Any, y: Any, *, fair: bool = False) -> float:
    """Mean over rows of the continuous ranked probability score of predictive samples; less is better.

    With X and X' independent draws from a row's predictive distribution,

        CRPS = E|X - y| - 1/2 E|X - X'|,

    in the unit of the target. By default it is the score of the empirical distribution of the n samples, in which
    X and X' may be the same sample: the second mean is over all n² pairs. As a score of the distribution from which
    they were drawn that is too large by E|X - X'| / (2 n), which favours those who draw more samples;
    the fair form takes the mean over the n (n - 1) pairs of different samples and is unbiased, but may be negative.

    Args:
        samples: Predictive samples, shape (samples, rows).
        y: Targets, shape (rows,).
        fair: Whether to take the fair form; it needs two samples or more.

    Raises:
        InvalidInput: Other shapes, no samples, NaN or infinity, or the fair form of one sample.

    Example:
        >>> from anchorwalk.posterior.metrics import crps
        >>> crps([[0.0], [2.0]], [1.0])  # 1 - 1/2 (0 + 2 + 2 + 0) / 4
        0.5
        >>> crps([[0.0], [2.0]], [1.0], fair=True)  # 1 - 1/2 (2 + 2) / 2
        0.0
    """
    table = validate.samples("samples", samples)
    n, rows = table.shape
    y = validate.targets("y", y, (rows,), of="a row of samples")
    if fair and n == 1:
        remedy = "Draw more, or leave fair=False, which gives |sample - y|."
        checks.reject("samples", "one sample", "two or more for the fair form", remedy)
    # Over all ordered pairs Σ |x_i - x_j| = 2 Σ_i (2 i - n - 1) x_(i), with the samples x_(1) <= ... <= x_(n).
    weights = (2.0 * np.arange(1, n + 1) - n - 1) / (n * (n - 1) if fair else n * n)
    scores = np.empty(rows)
    for block in row_blocks(rows, n):
        errors = by_row(table, block)
        errors -= y[block, None]  # the weights sum to zero, so this moves nothing but rounding, to where it is small
        errors.sort(axis=1)
        scores[block] = np.abs(errors).mean(axis=1) - errors @ weights
    return float(scores.mean())
