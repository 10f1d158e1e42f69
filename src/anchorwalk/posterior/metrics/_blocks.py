"""Sorted samples in blocks of rows, so that the memory of a score does not grow with the number of rows."""

from collections.abc import Iterator

import numpy as np

from anchorwalk.types import HostArray

VALUES = 2**18
"""Samples in a block: 2 MiB in float64, of which the scores hold a handful of copies. One row is the least, however.

Measured: blocks of 8 MiB take twice the time, since they leave the cache.
"""


def row_blocks(rows: int, samples: int) -> Iterator[slice]:
    """Slices of rows that together hold all of them, each with about VALUES samples at the most."""
    width = max(1, VALUES // samples)
    for start in range(0, rows, width):
        yield slice(start, start + width)


def by_row(samples: HostArray, block: slice) -> HostArray:
    """A float64 copy of a block of (samples, rows), rows first: sorting is quickest along the last axis."""
    return np.array(samples[:, block].T, dtype=np.float64, order="C")
