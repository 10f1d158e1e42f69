"""Scores of predictions of a number."""

from typing import Any

import numpy as np


def negative_log_likelihood(log_prob: Any) -> float:
    """Mean of -log p(y | x, D) over rows, in nats.

    Example:
        >>> from anchorwalk.metrics import negative_log_likelihood
        >>> negative_log_likelihood([-1.0, -2.0])
        1.5
    """
    return float(-np.mean(log_prob))


def rmse(mean: Any, y: Any) -> float:
    """Root of the mean squared difference between predicted means and targets.

    Example:
        >>> from anchorwalk.metrics import rmse
        >>> rmse([1.0, 2.0], [1.0, 4.0])
        1.4142135623730951
    """
    return float(np.sqrt(np.mean(np.square(np.subtract(mean, y)))))


def coverage(low: Any, high: Any, y: Any) -> float:
    """Share of the targets within their intervals, ends included.

    Example:
        >>> from anchorwalk.metrics import coverage
        >>> coverage([0.0, 0.0], [1.0, 1.0], [0.5, 2.0])
        0.5
    """
    return float(np.mean(np.less_equal(low, y) & np.less_equal(y, high)))
