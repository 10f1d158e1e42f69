"""What predictions and truths must look like, checked before a score is computed."""

from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.types import HostArray

TOLERANCE = 1e-3
"""How far from one a row's probabilities may sum: rounding them to float16 moves the sum by up to 2^-11, or 0.0005."""
_STACK = "Pass one column a class; of two classes with the second's probability p: np.stack([1 - p, p], axis=1)."


def numbers(argument: str, value: Any) -> HostArray:
    """Return a non-empty array of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError:  # NumPy's answer to rows of unequal length
        checks.reject(argument, "rows of unequal length", "a rectangular array", "Make all rows as long as each other.")
    checks.real(argument, array)
    if not array.size:
        checks.reject(argument, f"shape {array.shape}", "at least one value", "Pass what is to be scored.")
    return array


def finite(argument: str, array: HostArray) -> None:
    """Refuse NaN and infinity; the look at the extremes, which NaN passes through, spares a mask of the whole."""
    if not (np.isfinite(array.min()) and np.isfinite(array.max())):
        checks.finite(argument, array, "Leave such predictions out, or find out where they come from.")


def samples(argument: str, value: Any) -> HostArray:
    """Return finite samples of shape (samples, rows), in the type they came in."""
    array = numbers(argument, value)
    if array.ndim != 2:
        remedy = f"Take one output at a time, {argument}[:, :, 0]."
        if array.ndim < 2:
            remedy = f"Pass {argument}[:, None] for samples of one row, {argument}[None] for one sample of each row."
        checks.reject(argument, f"shape {array.shape}", "shape (samples, rows)", remedy)
    finite(argument, array)
    return array


def probabilities(argument: str, value: Any) -> HostArray:
    """Return probabilities of shape (rows, classes) as float64; they are not rescaled."""
    array = numbers(argument, value)
    if array.ndim != 2 or array.shape[1] < 2:
        remedy = "Average over members first, for one such table." if array.ndim > 2 else _STACK
        checks.reject(argument, f"shape {array.shape}", "shape (rows, classes), with two classes or more", remedy)
    finite(argument, array)
    table = array.astype(np.float64)
    softmax = "Pass probabilities; of logits, their softmax."
    if (table < 0).any():  # no tolerance here: rounding a probability never makes it negative
        row, column = (int(i) for i in np.argwhere(table < 0)[0])
        checks.reject(argument, f"{table[row, column]:g} at index ({row}, {column})", "no negative number", softmax)
    sums = table.sum(axis=1)
    off = np.abs(sums - 1) > TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        given = f"{int(off.sum())} rows that do not sum to one, the first row {row} with {sums[row]:.6g}"
        checks.reject(argument, given, f"rows that sum to one within {TOLERANCE:g}", softmax)
    return table


def labels(argument: str, value: Any, rows: int, classes: int) -> HostArray:
    """Return integer labels of shape (rows,), each from 0 to classes - 1."""
    array = numbers(argument, value)
    if array.shape != (rows,):
        remedy = "Pass as many labels as there are rows of probabilities."
        if array.size == rows:
            remedy = f"Pass {argument}.ravel()."
        elif array.shape == (rows, classes):
            remedy = f"Of one-hot labels, pass {argument}.argmax(axis=1)."
        checks.reject(argument, f"shape {array.shape}", f"shape ({rows},)", remedy)
    if not np.issubdtype(array.dtype, np.integer):
        remedy = f"Pass {argument}.astype(int), if they are the classes' numbers."
        checks.reject(argument, f"values of type {array.dtype}", "integer labels", remedy)
    outside = (array < 0) | (array >= classes)
    if outside.any():
        row = int(np.argmax(outside))
        remedy = "Number the classes from 0, in the order of the columns."
        checks.reject(argument, f"{array[row]} in row {row}", f"labels from 0 to {classes - 1}", remedy)
    return array.astype(np.intp)


def targets(argument: str, value: Any, shape: tuple[int, ...], of: str) -> HostArray:
    """Return finite targets of a shape as float64: NumPy would broadcast (N,) against (N, 1) to (N, N) in silence."""
    array = numbers(argument, value)
    same_shape(argument, array, shape, of)
    finite(argument, array)
    return array.astype(np.float64)


def same_shape(argument: str, array: HostArray, shape: tuple[int, ...], of: str) -> None:
    """Refuse an array of another shape than `of` has."""
    if array.shape != shape:
        remedy = "Pass one value for each."
        if array.size == np.prod(shape):
            remedy = f"Pass {argument}.reshape({shape}), if it is in the same order."
        checks.reject(argument, f"shape {array.shape}", f"shape {shape}, that of {of}", remedy)
