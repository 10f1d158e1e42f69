"""Quantiles of mixtures of normals, many levels at once."""

import math
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

from anchorwalk.types import HostArray

GOLDEN = (math.sqrt(5) - 1) / 2


def normal_mixture_quantiles(mean: Any, scale: Any, levels: int, atoms: int = 4096) -> HostArray:
    """Quantiles of equal mixtures of normals, (members, rows), at the levels (k + 1/2) / `levels`: (rows, levels).

    Each normal stands for itself by the same number of its own quantiles, `atoms` or more in all. Their places move
    from member to member by the golden ratio: they fill (member, probability) evenly, and no member's noise repeats
    another's. The work is one sort, in float32. `Prediction.quantile` is exact and for few levels.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.posterior.mixture import normal_mixture_quantiles
        >>> normal_mixture_quantiles(np.zeros((2, 1)), np.ones((2, 1)), 3).round(2)
        array([[-0.97,  0.  ,  0.97]], dtype=float32)
    """
    mean, scale = np.asarray(mean, np.float32), np.asarray(scale, np.float32)
    members, rows = mean.shape
    each = max(1, -(-atoms // members))
    values = mean.T[:, :, None] + scale.T[:, :, None] * _places(members, each)
    values = values.reshape(rows, members * each)
    values.sort(axis=1)
    places = np.floor((np.arange(levels) + 0.5) / levels * values.shape[1]).astype(int)
    quantiles: HostArray = values[:, places]
    return quantiles


@lru_cache(maxsize=16)
def _places(members: int, each: int) -> HostArray:
    """Standard normal quantiles of each member, shape (members, each)."""
    start = (0.5 + GOLDEN * np.arange(members)) % 1.0
    probabilities = (np.arange(each) + np.maximum(start, 1e-6)[:, None]) / each
    inverse = NormalDist().inv_cdf
    places = np.array([inverse(p) for p in probabilities.ravel()], np.float32)
    return places.reshape(members, each)
