"""Scores of predicted class probabilities.

Throughout, probabilities have the shape (rows, classes) and labels y the shape (rows,), integers from 0.
Rows may sum to one within 1e-3, for files in float16, and are not rescaled.
"""

from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.posterior.metrics import validate
from anchorwalk.types import HostArray


def accuracy(probabilities: Any, y: Any) -> float:
    """Share of the rows whose most probable class is the true one; of classes that tie, the first counts.

    Args:
        probabilities: Predicted, shape (rows, classes).
        y: True classes, shape (rows,).

    Raises:
        InvalidInput: Other shapes, rows that are no probabilities, or labels that are no classes.

    Example:
        >>> from anchorwalk.posterior.metrics import accuracy
        >>> accuracy([[0.9, 0.1], [0.8, 0.2]], [0, 1])
        0.5
    """
    table, y = _table(probabilities, y)
    return float(np.mean(table.argmax(axis=1) == y))


def log_loss(probabilities: Any, y: Any) -> float:
    """Mean of -log p(y | x, D) over rows, in nats; infinite where a true class has probability zero.

    Nothing is clipped. Where log-probabilities are at hand, as `Prediction.log_prob` gives them, use
    `negative_log_likelihood`.

    Args:
        probabilities: Predicted, shape (rows, classes).
        y: True classes, shape (rows,).

    Raises:
        InvalidInput: Other shapes, rows that are no probabilities, or labels that are no classes.

    Example:
        >>> from anchorwalk.posterior.metrics import log_loss
        >>> log_loss([[0.5, 0.5], [1.0, 0.0]], [1, 0])
        0.34657359027997264
        >>> log_loss([[1.0, 0.0]], [1])
        inf
    """
    table, y = _table(probabilities, y)
    with np.errstate(divide="ignore"):  # log 0 is the infinity that is promised
        return float(np.mean(-np.log(table[np.arange(len(y)), y])))


def brier(probabilities: Any, y: Any) -> float:
    """Mean over rows of Σ_c (p_c - 1[y = c])², the sum over all classes: from 0 to 2.

    For two classes this is twice the score of the second class's probability alone.

    Args:
        probabilities: Predicted, shape (rows, classes).
        y: True classes, shape (rows,).

    Raises:
        InvalidInput: Other shapes, rows that are no probabilities, or labels that are no classes.

    Example:
        >>> from anchorwalk.posterior.metrics import brier
        >>> brier([[0.5, 0.5, 0.0]], [0])
        0.5
    """
    table, y = _table(probabilities, y)
    truth = np.zeros_like(table)
    truth[np.arange(len(y)), y] = 1
    return float(np.mean(np.square(table - truth).sum(axis=1)))


def expected_calibration_error(probabilities: Any, y: Any, bins: int = 15) -> float:
    """Mean difference between the confidence in the most probable class and the share of hits, by bins.

    Rows go by their confidence into bins of equal width, ((b - 1) / B, b / B] for b = 1..B, and

        ECE = Σ_b (rows in b / rows) |mean confidence in b - accuracy in b|.

    It is zero for a calibrated predictor only in the limit of many rows: chance alone adds about
    sqrt(2 / π) Σ_b sqrt(Σ_{i in b} c_i (1 - c_i)) / rows, c_i being the confidences. Of classes that tie, the
    first counts.

    Args:
        probabilities: Predicted, shape (rows, classes).
        y: True classes, shape (rows,).
        bins: B, the number of bins.

    Raises:
        InvalidInput: Other shapes, rows that are no probabilities, labels that are no classes, or no bins.

    Example:
        >>> from anchorwalk.posterior.metrics import expected_calibration_error
        >>> expected_calibration_error([[0.75, 0.25], [0.75, 0.25]], [0, 1])
        0.25
    """
    table, y = _table(probabilities, y)
    bins = checks.count("bins", bins)
    confidence = table.max(axis=1)
    # Inner edges only, so that a confidence a rounding above 1 stays in the last bin; an edge belongs to the bin below.
    bin_of = np.searchsorted(np.arange(1, bins) / bins, confidence, side="left")
    excess = np.bincount(bin_of, weights=confidence - (table.argmax(axis=1) == y))
    return float(np.abs(excess).sum() / len(y))


def _table(probabilities: Any, y: Any) -> tuple[HostArray, HostArray]:
    table = validate.probabilities("probabilities", probabilities)
    return table, validate.labels("y", y, *table.shape)
