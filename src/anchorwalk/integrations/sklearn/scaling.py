"""Features and targets as networks take them: mean 0 and standard deviation 1, whatever their units."""

from typing import Self

import numpy as np

from anchorwalk import checks
from anchorwalk.errors import ScaleWarning, warn
from anchorwalk.types import HostArray

LARGEST = 1e300
"""Numbers beyond it, and spreads below its inverse, are refused: float64 ends at 1e308 and is coarse below 1e-308."""
FARTHEST = 1e30
"""Standard deviations from the mean, from which on values are refused: networks compute in float32."""
MUTED = 0.01
"""Of the standard deviation, what is left without a few rows: below it, these rows mute the others."""
FEW = 100
"""At most one row in this many counts as one of the few, but at least one."""
UNEVEN = 10.0
"""Times the root of the number of rows: standard deviations from the mean that weights alone can bring about."""
SHOWN = 5


class Scaling:
    """An affine map to mean 0 and standard deviation 1 on the training rows; what is constant is only moved."""

    def __init__(self, mean: HostArray, scale: HostArray) -> None:
        self.mean, self.scale = mean, scale

    @classmethod
    def of(cls, name: str, values: HostArray, weights: HostArray) -> Self:
        """The scaling of weighted rows; `name` is what messages call them.

        Sums are taken in a power of two as unit, so that squares neither overflow nor vanish, and so that values in
        another such unit are scaled to the same bits.

        Raises:
            InvalidInput: Numbers that are too large or differ too little for float64 to scale them.
        """
        columns = values[:, None] if values.ndim == 1 else values
        used, weight = columns[weights > 0], weights[weights > 0] / _unit(weights.max())
        largest = np.abs(used).max(axis=0)
        _reject(name, largest > LARGEST, largest, f"numbers up to {LARGEST:g}", "Divide by a constant.")
        unit = _unit(largest)
        scaled = used / unit
        mean = np.average(scaled, axis=0, weights=weight)
        spread = np.sqrt(np.average((scaled - mean) ** 2, axis=0, weights=weight))
        varies = (used != used[0]).any(axis=0)
        same = spread <= 10 * np.finfo(np.float64).eps * np.abs(scaled).max(axis=0)
        # What is constant becomes zero: its mean would be off by a rounding, which is a lot where numbers are large.
        centre = np.where(varies, mean * unit, used[0])
        scale = np.where(varies, np.where(same, unit, spread * unit), 1.0)
        expected = f"a standard deviation of at least {1 / LARGEST:g}"
        _reject(name, varies & ~same & (scale < 1 / LARGEST), scale, expected, "Multiply by a constant.")
        _warn(name, same & varies, "differ in their last digits only and are taken for constant; subtract their mean")
        _warn(
            name,
            ~same & _muted(scaled, spread),
            "have a few values so far out that all others hardly differ after scaling; take logarithms, clip them, or "
            "leave those rows out",
        )
        found = cls(*(np.asarray(one[0] if values.ndim == 1 else one) for one in (centre, scale)))
        out = np.abs((scaled - mean) / np.where(spread > 0, spread, 1.0)).max(axis=0)
        uneven = out > UNEVEN * np.sqrt(len(used))  # without weights no row is farther out than the root
        _warn(name, ~same & uneven, "depend on a few rows of large weight, and others are far out; even the weights")
        farthest = np.abs(found(columns if values.ndim > 1 else values).reshape(columns.shape)).max(axis=0)
        expected = f"values within {FARTHEST:g} standard deviations"
        _reject(name, ~(farthest < FARTHEST), farthest, expected, "Leave out rows that weigh next to nothing.")
        return found

    def __call__(self, values: HostArray) -> HostArray:
        """Values as the network sees them; infinite where they are too far out for float32."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray((values - self.mean) / self.scale, np.float32)

    def back(self, values: HostArray) -> HostArray:
        """What the network sees, in its own units."""
        return np.asarray(values * self.scale + self.mean)


def _unit(values: HostArray) -> HostArray:
    """The power of two above positive numbers; 1 for zero."""
    return np.where(values > 0, np.ldexp(1.0, np.maximum(np.frexp(values)[1], -1021)), 1.0)


def _muted(scaled: HostArray, spread: HostArray) -> HostArray:
    """Whether columns vary, and hardly so without the few rows that are farthest from their median."""
    few = max(1, len(scaled) // FEW)
    if len(scaled) < few + 2:
        return np.zeros(spread.shape, bool)
    distance = np.abs(scaled - np.median(scaled, axis=0))
    rest = np.take_along_axis(scaled, np.argsort(distance, axis=0, kind="stable")[:-few], axis=0)
    left = rest.std(axis=0)
    return np.asarray((left < MUTED * spread) & (rest != rest[0]).any(axis=0))


def _reject(name: str, bad: HostArray, values: HostArray, expected: str, remedy: str) -> None:
    if bad.any():
        first = int(np.argmax(bad))
        where = name if len(bad) == 1 else f"{name}, column {first} counted from 0"
        checks.reject(where, f"{values[first]:g}", expected, remedy)


def _warn(name: str, bad: HostArray, what: str) -> None:
    if bad.any():
        columns = ", ".join(map(str, np.flatnonzero(bad)[:SHOWN])) + (", ..." if bad.sum() > SHOWN else "")
        where = f"the values of {name}" if len(bad) == 1 else f"the values in columns {columns} of {name}, from 0,"
        warn(f"{where} {what}", ScaleWarning)
