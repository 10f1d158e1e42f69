"""Split conformal intervals: how far to go from the mean, by rows that no member was trained on.

Lei, G'Sell, Rinaldo, Tibshirani and Wasserman, "Distribution-free predictive inference for regression" (2018), with
residuals divided by the predictive standard deviation.
"""

import math

import numpy as np

from anchorwalk import checks
from anchorwalk.types import HostArray

MODES = ("none", "conformal", "auto")
SHARE = 0.2
"""Share of the rows that is held back."""
LEAST = 19
"""Rows that are held back, at least: the fewest for intervals of 95%."""
MOST = 2000
"""Rows that are held back, at most: with them the coverage of a fit varies by 0.7% around 90%, a standard deviation."""
AUTO = 500
"""Rows from which on "auto" holds some back: a fifth, 100 rows, gives intervals up to 99%; coverage varies by 3%."""
TAG = 0xC0F
"""Beside the seed of the fit: the choice of rows is a stream of its own."""
ROUNDING = 1e-9
"""Tolerance in ranks: (n + 1) * coverage this near to a whole number counts as that number."""


def held_back(mode: str, weights: HostArray, seed: int) -> HostArray | None:
    """Which rows are held back from training, True for these; None for no calibration.

    Args:
        mode: One of MODES.
        weights: Of the rows. Those that weigh nothing are not held back.
        seed: Decides which rows.
    """
    checks.choice("calibrate", mode, MODES)
    used = np.flatnonzero(weights > 0)
    if mode == "none" or (mode == "auto" and len(used) < AUTO):
        return None
    if len(used) < 2 * LEAST:
        expected = f"at least {2 * LEAST} rows: {LEAST} are held back for intervals up to 95%"
        checks.reject("calibrate='conformal'", f"{len(used)} rows", expected, "Pass more rows, or calibrate='none'.")
    count = min(MOST, max(LEAST, int(SHARE * len(used))))
    found = np.zeros(len(weights), bool)
    found[np.random.default_rng([seed, TAG]).choice(used, count, replace=False)] = True
    return found


def scores_of(y: HostArray, mean: HostArray, std: HostArray) -> HostArray:
    """Distances from the mean in standard deviations, sorted for each target; infinite where a prediction is none."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.sort(np.nan_to_num(np.abs(y - mean) / std, nan=np.inf), axis=0)


def distance(scores: HostArray, coverage: float) -> HostArray:
    """Standard deviations from the mean to an end of the interval: the ceil((n + 1) coverage)-th smallest score.

    Of n + 1 exchangeable rows each has the same chance to have the k-th smallest score. So a new row's is at most the
    k-th smallest of the n others with probability k / (n + 1), if there are no ties: from `coverage` to
    coverage + 1 / (n + 1).

    Args:
        scores: Sorted, shape (n, ...).
        coverage: From 0 to 1; 0 gives 0.
    """
    n = len(scores)
    rank = math.ceil((n + 1) * checks.within("coverage", coverage, 0, 1, open_above=True) - ROUNDING)
    if rank > n:
        expected = f"at most {n / (n + 1):.4g}, for the {n:,} rows that calibration held back"
        checks.reject("coverage", f"{coverage:g}", expected, "Fit more rows, or with calibrate='none'.")
    return np.asarray(scores[rank - 1] if rank else np.zeros(scores.shape[1:]))
