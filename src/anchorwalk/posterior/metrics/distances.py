"""How far the predictions of two posteriors are from each other (paper, appendix)."""

from typing import Any, Literal

import numpy as np

from anchorwalk import checks
from anchorwalk.posterior.metrics import validate
from anchorwalk.posterior.metrics._blocks import by_row, row_blocks
from anchorwalk.types import HostArray


def agreement(p: Any, q: Any) -> float:
    """Share of the rows to which both give the same most probable class.

    Of classes that tie in a row, the first counts as its most probable one.

    Args:
        p: Probabilities of one posterior, shape (rows, classes).
        q: Those of the other, on the same rows.

    Raises:
        InvalidInput: Other shapes, or rows that are no probabilities. They may sum to one within 1e-3, for
            files in float16.

    Example:
        >>> from anchorwalk.posterior.metrics import agreement
        >>> agreement([[0.9, 0.1], [0.4, 0.6]], [[0.7, 0.3], [0.8, 0.2]])
        0.5
    """
    p, q = _tables(p, q)
    return float(np.mean(p.argmax(axis=1) == q.argmax(axis=1)))


def total_variation(p: Any, q: Any) -> float:
    """Mean over rows of the total variation distance 1/2 Σ_c |p_c - q_c|, from 0 (equal) to 1 (disjoint).

    Args:
        p: Probabilities of one posterior, shape (rows, classes).
        q: Those of the other, on the same rows.

    Raises:
        InvalidInput: Other shapes, or rows that are no probabilities. They may sum to one within 1e-3, for
            files in float16, and are not rescaled: the distance carries that error.

    Example:
        >>> from anchorwalk.posterior.metrics import total_variation
        >>> total_variation([[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.5, 0.5]])
        0.25
    """
    p, q = _tables(p, q)
    return float(np.mean(np.abs(p - q).sum(axis=1) / 2))


def wasserstein1(u: Any, v: Any) -> float:
    """Mean over rows of the Wasserstein-1 distance between two sets of predictive samples.

    See `pointwise_wasserstein`. The competition's script computes this one, so the paper's table for
    UCI-Gap, which it calls Wasserstein-2, is to be compared with it.

    Args:
        u: Samples of one posterior's predictions, shape (samples, rows).
        v: Those of the other; the rows are the same, the number of samples may differ.

    Raises:
        InvalidInput: Other shapes, no samples, NaN or infinity.

    Example:
        >>> from anchorwalk.posterior.metrics import wasserstein1
        >>> wasserstein1([[0.0], [2.0]], [[5.0], [1.0]])  # 0 goes to 1, 2 to 5
        2.0
    """
    return float(np.mean(pointwise_wasserstein(u, v, order=1)))


def wasserstein2(u: Any, v: Any) -> float:
    """Mean over rows of the Wasserstein-2 distance between two sets of predictive samples.

    See `pointwise_wasserstein`. The root is taken in each row, before the mean.

    Args:
        u: Samples of one posterior's predictions, shape (samples, rows).
        v: Those of the other; the rows are the same, the number of samples may differ.

    Raises:
        InvalidInput: Other shapes, no samples, NaN or infinity.

    Example:
        >>> from anchorwalk.posterior.metrics import wasserstein2
        >>> wasserstein2([[0.0], [2.0]], [[9.0], [1.0]])  # the root of (1 + 49) / 2
        5.0
    """
    return float(np.mean(pointwise_wasserstein(u, v, order=2)))


def pointwise_wasserstein(u: Any, v: Any, order: Literal[1, 2]) -> HostArray:
    """Wasserstein distance between two sets of samples, row by row.

    In one dimension the best transport keeps the order, so that with the quantile functions of the two
    empirical distributions

        W_k^k = ∫_0^1 |F_u^-1(t) - F_v^-1(t)|^k dt,

    and for n and m samples the integrand is constant between neighbours among the levels i/n and j/m. The sum
    over those pieces is exact, whatever n and m. Memory is bounded: rows are worked through in blocks.

    Args:
        u: Samples, shape (samples, rows).
        v: Samples of the same rows; their number may differ.
        order: k, 1 or 2.

    Returns:
        The distances W_k, shape (rows,), in the unit of the samples.

    Raises:
        InvalidInput: Other shapes, no samples, NaN or infinity, another order.

    Example:
        >>> from anchorwalk.posterior.metrics import pointwise_wasserstein
        >>> pointwise_wasserstein([[0.0, 3.0]], [[1.0, 3.0], [3.0, 3.0]], order=1)
        array([2., 0.])
    """
    if order not in (1, 2):
        checks.reject("order", repr(order), "1 or 2", "Choose W1 or W2.")
    u, v = validate.samples("u", u), validate.samples("v", v)
    rows = u.shape[1]
    if v.shape[1] != rows:
        remedy = "Predict the same rows with both; the first axis is that of the samples."
        checks.reject("v", f"{v.shape[1]} rows", f"{rows}, as u has", remedy)
    # Differs from the paper: its formula sums over pairs of samples, which grows with their number; this is their mean.
    widths, from_u, from_v = _pieces(len(u), len(v))
    distances = np.empty(rows)
    for block in row_blocks(rows, len(u) + len(v)):
        sorted_u, sorted_v = by_row(u, block), by_row(v, block)
        sorted_u.sort(axis=1)
        sorted_v.sort(axis=1)
        gaps = sorted_u[:, from_u]
        gaps -= sorted_v[:, from_v]
        distances[block] = np.abs(gaps) @ widths if order == 1 else np.sqrt(np.square(gaps) @ widths)
    return distances


def _pieces(n: int, m: int) -> tuple[HostArray, HostArray, HostArray]:
    """Widths of the pieces between the levels i/n and j/m, and the rank of the u and of the v on each."""
    # In units of 1 / (n m) every level is an integer: equal levels are merged without rounding.
    ends = np.union1d(np.arange(1, n + 1) * m, np.arange(1, m + 1) * n)
    return np.diff(ends, prepend=0) / (n * m), (ends - 1) // m, (ends - 1) // n


def _tables(p: Any, q: Any) -> tuple[HostArray, HostArray]:
    """Two tables of probabilities of one shape."""
    p, q = validate.probabilities("p", p), validate.probabilities("q", q)
    if p.shape != q.shape:
        checks.reject("q", f"shape {q.shape}", f"shape {p.shape}, that of p", "Predict the same rows and classes.")
    return p, q
