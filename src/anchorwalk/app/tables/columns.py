"""Columns of a table as numbers: what a training table teaches, applied to every later one."""

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from anchorwalk import checks

MOST_LEVELS = 50
"""Different texts in a column, up to which each becomes a column of zeros and ones."""


@dataclass(frozen=True)
class Numeric:
    """A column of numbers; what is missing becomes the median, and where training rows lack some a column says so."""

    name: str
    median: float
    gaps: bool

    @property
    def names(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [self.name, f"{self.name} is missing"] if self.gaps else [self.name]

    def apply(self, values: Any, notes: list[str]) -> list[Any]:
        """The columns of a table's values."""
        numbers = _numbers(self.name, values)
        missing = np.isnan(numbers)
        if missing.any() and not self.gaps:
            notes.append(f"{self.name}: {int(missing.sum())} missing values are taken as the median, {self.median:g}")
        filled = np.where(missing, self.median, numbers)
        return [filled, missing.astype(float)] if self.gaps else [filled]


@dataclass(frozen=True)
class Levels:
    """A column of texts; a column of zeros and ones for each text that training rows have, a missing one included."""

    name: str
    levels: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """Names of the columns that it becomes."""
        return [f"{self.name} = {level}" if level else f"{self.name} is missing" for level in self.levels]

    def apply(self, values: Any, notes: list[str]) -> list[Any]:
        """The columns of a table's values."""
        texts = _texts(values)
        new = sorted({text for text in texts if text not in self.levels})
        if new:
            known = ", ".join(repr(text) if text else "nothing" for text in new[:5])
            notes.append(f"{self.name}: not seen in training, and so without effect: {known}")
        return [(texts == level).astype(float) for level in self.levels]


@dataclass(frozen=True)
class Encoding:
    """How the columns of a table become features.

    Attributes:
        columns: What becomes of each column that is used.
        notes: What a person should know of how the training table was treated.
    """

    columns: tuple[Numeric | Levels, ...]
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        return [name for one in self.columns for name in one.names]

    @classmethod
    def learn(cls, table: Any, leave_out: set[str]) -> Self:
        """An encoding from a training table.

        Args:
            table: Training rows.
            leave_out: Columns that are no features, such as the target.

        Raises:
            InvalidInput: A column that cannot be a feature, or none that can.
        """
        found: list[Numeric | Levels] = []
        notes: list[str] = []
        for name in table.columns:
            if name not in leave_out:
                one = _learn(name, table[name], notes)
                found += [] if one is None else [one]
        if not found:
            given = f"a table whose columns are {', '.join(map(repr, table.columns))}"
            checks.reject("data", given, "at least one feature that varies", "Is the target the only useful column?")
        return cls(tuple(found), tuple(notes))

    def apply(self, table: Any) -> tuple[Any, list[str]]:
        """Features of a table, shape (rows, features), and what a person should know.

        Raises:
            InvalidInput: A column that is missing or has other values than in training.
        """
        notes: list[str] = []
        missing = [one.name for one in self.columns if one.name not in table.columns]
        if missing:
            given = f"a table without {', '.join(map(repr, missing))}, with {', '.join(map(repr, table.columns))}"
            remedy = "Names are case-sensitive; add what is missing, empty where it is not known."
            checks.reject("data", given, "all columns that the run was fitted with", remedy)
        parts = [part for one in self.columns for part in one.apply(table[one.name], notes)]
        return np.stack(parts, axis=1), notes

    def to_json(self) -> list[dict[str, Any]]:
        """The encoding as JSON."""
        return [
            {"name": one.name, "median": one.median, "gaps": one.gaps}
            if isinstance(one, Numeric)
            else {"name": one.name, "levels": list(one.levels)}
            for one in self.columns
        ]

    @classmethod
    def from_json(cls, columns: list[dict[str, Any]]) -> Self:
        """The inverse of `to_json`."""
        return cls(
            tuple(
                Levels(str(one["name"]), tuple(map(str, one["levels"])))
                if "levels" in one
                else Numeric(str(one["name"]), float(one["median"]), bool(one["gaps"]))
                for one in columns
            )
        )


def _learn(name: str, values: Any, notes: list[str]) -> Numeric | Levels | None:
    import pandas as pd

    if values.isna().all():
        notes.append(f"{name}: left out, it is empty")
        return None
    if pd.api.types.is_datetime64_any_dtype(values):
        remedy = "Make it a number, such as days since a date, or leave it out by --drop."
        checks.reject(f"data, column {name!r}", "dates", "numbers or texts", remedy)
    if pd.api.types.is_numeric_dtype(values):  # truth values too
        numbers = _numbers(name, values)
        present = numbers[~np.isnan(numbers)]
        gaps = len(present) < len(numbers)
        if present.min() == present.max() and not gaps:
            notes.append(f"{name}: left out, it is {present[0]:g} in every row")
            return None
        if gaps:
            share = 1 - len(present) / len(numbers)
            notes.append(f"{name}: {share:.1%} of its values are missing; they are taken as the median, and marked")
        return Numeric(name, float(np.median(present)), gaps)
    texts = _texts(values)
    levels = tuple(sorted(set(texts.tolist())))
    if len(levels) == 1:
        notes.append(f"{name}: left out, it is {levels[0]!r} in every row")
        return None
    if len(levels) > MOST_LEVELS:
        given = f"{len(levels)} different texts in {len(texts)} rows, such as {levels[0]!r} and {levels[1]!r}"
        remedy = f"Is it an identifier, free text or a date? Leave it out: --drop {name!r}."
        checks.reject(f"data, column {name!r}", given, f"numbers, or {MOST_LEVELS} texts at the most", remedy)
    notes.append(f"{name}: {len(levels)} texts, a column of zeros and ones each")
    return Levels(name, levels)


def _numbers(name: str, values: Any) -> Any:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    bad = np.isnan(numbers) & ~values.isna().to_numpy()
    if bad.any():
        row = int(np.argmax(bad))
        given = f"{values.iloc[row]!r} in row {row}, counted from 0"
        checks.reject(f"data, column {name!r}", given, "a number, as in training", "Mend the row, or leave it empty.")
    infinite = np.isinf(numbers)
    if infinite.any():
        row = int(np.argmax(infinite))
        checks.reject(
            f"data, column {name!r}",
            f"infinity in row {row}, counted from 0",
            "a finite number",
            "Mend the row, or leave it empty.",
        )
    return numbers


def _texts(values: Any) -> Any:
    """Texts, an empty one for what is missing; as objects, so that they compare one by one."""
    return np.array(
        ["" if missing else str(value) for value, missing in zip(values, values.isna(), strict=True)], object
    )
