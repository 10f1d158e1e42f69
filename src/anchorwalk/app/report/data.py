"""The rows that a report shows predictions on, and what they are called."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.app.report.formatting import number, plain
from anchorwalk.types import Inputs

MOST_FEATURES = 8
"""Features that the table of rows has room for."""


@dataclass(frozen=True, eq=False)
class ReportData:
    """Rows to predict, best those that training has not seen.

    Args:
        x: Inputs, as in training.
        y: Targets as in training, or None where they are not known.
        names: Names of the columns of `x`, for the table of rows; for one array of two axes.
        values: What the table of rows shows under these names in place of `x`, such as unscaled numbers or words.
        target: Name of the target, or of each of several.
        classes: Names of the classes, in the order of their numbers.
        scale: The unit that targets were divided by before training: figures are drawn in the original one.
        shift: What was subtracted before that; a target in the original unit is scale * y + shift.
        shown: Which of several targets the figures show, from 0.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.app.report import ReportData
        >>> ReportData(np.zeros((4, 2)), np.zeros(4), names=("width", "height"), target="load (kWh/m²)").rows
        4
    """

    x: Inputs
    y: Any = None
    names: Sequence[str] | None = None
    values: Any = None
    target: str | Sequence[str] | None = None
    classes: Sequence[str] | None = None
    scale: Any = 1.0
    shift: Any = 0.0
    shown: int = 0

    def __post_init__(self) -> None:
        checks.count("ReportData(shown=)", self.shown, least=0)
        sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(self.x)}
        if len(sizes) != 1 or () in sizes or (0,) in sizes:
            given = ", ".join(str(np.shape(leaf)) for leaf in jax.tree.leaves(self.x)) or "no arrays"
            checks.reject(
                "ReportData(x=)", f"shapes {given}", "at least one row, in all arrays the same", "Rows come first."
            )
        if self.y is not None and np.shape(self.y)[:1] != (self.rows,):
            given = f"shape {np.shape(self.y)} for {self.rows} rows of x"
            checks.reject("ReportData(y=)", given, f"{self.rows} targets", "Match the rows, or pass None.")
        if self.values is not None and (np.ndim(self.values) != 2 or len(self.values) != self.rows or not self.names):
            given = f"shape {np.shape(self.values)} and {len(self.names or ())} names"
            checks.reject("ReportData(values=)", given, f"{self.rows} rows, a name for each column", "Pass names= too.")
        if self.names is not None and len(_names("names", self.names)) != (width := self._width()):
            expected = f"one for each of {width} columns" if width else "x as one array of two axes"
            checks.reject("ReportData(names=)", f"{len(self.names)} names", expected, "Pass as many, or None.")
        if not (np.isfinite(self.scale).all() and (np.asarray(self.scale) > 0).all()):
            checks.reject(
                "ReportData(scale=)", repr(self.scale), "numbers above zero", "It is a unit, such as y.std()."
            )
        checks.finite("ReportData(shift=)", np.asarray(self.shift, float), "Pass numbers, such as y.mean().")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(np.shape(jax.tree.leaves(self.x)[0])[0])

    def take(self, rows: Any) -> Inputs:
        """The inputs of some rows."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[rows], self.x)

    def features(self, rows: Any) -> tuple[list[str], list[list[str]]]:
        """Names and values of the features of some rows, as text; none where there are no names or too many."""
        if self.names is None or len(self.names) > MOST_FEATURES:
            return [], [[] for _ in rows]
        values = np.asarray(self.x if self.values is None else self.values)[rows]
        return _names("names", self.names), [[_cell(value) for value in row] for row in values]

    def target_names(self, targets: int) -> list[str]:
        """A name for each target.

        Raises:
            InvalidInput: Another number of names, or figures of a target that is not there.
        """
        if self.shown >= targets:
            expected = f"a target from 0 to {targets - 1}"
            checks.reject("ReportData(shown=)", self.shown, expected, "Choose one of them.")
        if self.target is None:
            return ["target"] if targets == 1 else [f"target {i}" for i in range(targets)]
        names = [plain(self.target)] if isinstance(self.target, str) else _names("target", self.target)
        if len(names) != targets:
            checks.reject(
                "ReportData(target=)", f"{len(names)} names", f"{targets}, one for each", "Pass as many, or None."
            )
        return names

    def class_names(self, classes: int) -> list[str]:
        """A name for each class.

        Raises:
            InvalidInput: Another number of names.
        """
        if self.classes is None:
            return [str(i) for i in range(classes)]
        if len(self.classes) != classes:
            given = f"{len(self.classes)} names"
            checks.reject("ReportData(classes=)", given, f"{classes}, one for each class", "Pass as many, or None.")
        return _names("classes", self.classes)

    def _width(self) -> int:
        leaves = jax.tree.leaves(self.x) if self.values is None else [self.values]
        return int(np.shape(leaves[0])[1]) if len(leaves) == 1 and np.ndim(leaves[0]) == 2 else 0


def _cell(value: Any) -> str:
    if isinstance(value, bool | np.bool) or not isinstance(value, int | float | np.number):
        return "missing" if value is None else plain(value, 24)
    return "missing" if np.isnan(value) else number(value, 4)


def _names(argument: str, given: Any) -> list[str]:
    if isinstance(given, str):
        checks.reject(f"ReportData({argument}=)", repr(given), "a list of names", f"Pass [{given!r}].")
    return [plain(name) for name in given]
