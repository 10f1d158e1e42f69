"""What the columns of a table are: numbers, dates or texts, whatever they are written like; which are left out."""

import re
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anchorwalk import checks
from anchorwalk.app.tables.numbers import number
from anchorwalk.integrations.sklearn.encoding import text

DATES = (
    *("%d.%m.%Y", "%d.%m.%y", "%d/%m/%Y", "%m/%d/%Y", "%d/%m/%y", "%m/%d/%y", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y", "%Y/%m/%d", "%Y.%m.%d"),
)
TIMES = ("", " %H:%M", " %H:%M:%S", " %I:%M %p")
"""What dates are tried for, besides ISO 8601."""
IDENTIFIER = re.compile(
    r"(?i:(.*[\W_])?(id|uuid|guid)|index|idx|(row|record)[\W_]*(id|no|nr|num|number)|unnamed: 0)|.*[a-z0-9]I[dD]"
)
"""Names of identifiers."""
COUNTER = re.compile(r"(?i)(.*[\W_])?(nr|no|num|number)\.?|#|n|i|key|line|case|sample|obs(ervation)?|entry")
"""Names of columns that number the rows, where their values do."""
LARGE = 1e15
"""Whole numbers from here on are identifiers where all of them differ: a float has no more digits than that."""
LEAST_TEXTS = 20
"""Rows from which on texts that all differ are taken for identifiers."""


class Options(NamedTuple):
    """How texts are read: the decimal sign, that between thousands, and the format of dates."""

    decimal: str = "."
    thousands: str = "auto"
    dates: str | None = None


@dataclass(frozen=True)
class Form:
    """What a column is, and how it is written.

    Attributes:
        name: The column's name.
        kind: "number", "date" or "text".
        unit: The currency, or %, that stands with numbers; empty for none.
        dates: The format of dates, where they are texts.
    """

    name: str
    kind: str
    unit: str = ""
    dates: str = ""

    def typed(self, values: Any, options: Options) -> Any:
        """The values as numbers, dates or texts, missing ones as pandas has them.

        Raises:
            InvalidInput: A value that is none of the kind, or has another unit.
        """
        import pandas as pd

        if self.kind == "text":
            return values.map(text, na_action="ignore").astype(object)
        present = values.notna()
        if self.kind == "date":
            found = _dates(values, self.dates)
        elif _is_text(values):
            parsed = values[present].map(lambda one: number(text(one), options.decimal, options.thousands))
            other = np.array([one is not None and one.unit not in ("", self.unit) for one in parsed], bool)
            if other.any():
                _refuse(self, values[present], other, f"numbers in {self.unit!r}" if self.unit else "no unit")
            found = pd.Series(np.nan, values.index)
            found[present] = [np.nan if one is None else one.value for one in parsed]
        else:
            numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
            found = pd.Series(numbers, values.index)
        bad = (found.isna() & present).to_numpy()
        if self.kind == "number":
            bad = bad | np.isinf(found.to_numpy())
        if bad.any():
            _refuse(self, values, bad, "a finite number" if self.kind == "number" else "a date")
        return found


def _refuse(form: Form, values: Any, bad: Any, expected: str) -> None:
    row = int(np.argmax(bad))
    value = text(values.iloc[row])
    given = f"{value!r} in row {values.index[row]}, counted from 0"
    others = int(bad.sum()) - 1
    given += f", and {others:,} more such values" if others else ""
    remedy = f"Mend the row; or, in `fit`, --missing {value!r} where it means missing, --as '{form.name}=text', "
    checks.reject(f"data, column {form.name!r}", given, expected, f"{remedy}or --drop {form.name!r}.")


def _is_text(values: Any) -> bool:
    from pandas.api import types

    return types.infer_dtype(values, skipna=True) in ("string", "mixed", "mixed-integer", "categorical")


def _dates(values: Any, form: str) -> Any:
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        texts = {"format": form} if form and _is_text(values) else {}
        return pd.to_datetime(values, errors="coerce", utc=True, **texts).dt.tz_localize(None)


def learn(name: str, values: Any, options: Options, kind: str | None = None) -> tuple[Form, list[str]]:
    """What a column is, by its type or its texts, and what a person should know of it.

    Args:
        name: The column's name.
        values: Training rows.
        options: How texts are read.
        kind: "number", "date" or "text" where the user says.

    Raises:
        InvalidInput: Values that are not of the kind that the user says, numbers of several units, or numbers among
            which there are a few texts.
    """
    from pandas.api import types

    present = values.dropna()
    if kind == "text":
        return Form(name, "text"), []
    if types.is_datetime64_any_dtype(values) or types.infer_dtype(present) in ("date", "datetime"):
        return Form(name, "date"), []
    if not _is_text(values) and kind != "date":
        return Form(name, "number"), []
    texts = present.map(text)
    if kind != "date":
        parsed = texts.map(lambda one: number(one, options.decimal, options.thousands))
        found = [one for one in parsed if one is not None]
        if kind == "number" or len(found) == len(texts):
            return _numeric(name, found)
    dates = _format(texts, options)
    if dates:
        return Form(name, "date", dates=dates[0]), _other_formats(dates)
    if kind == "date":
        given = f"{texts.iloc[0]!r}, which is read as no date"
        checks.reject(f"data, column {name!r}", given, "dates of one format", "Name it: --dates '%d.%m.%Y'.")
    return Form(name, "text"), []


def mostly_numbers(texts: Any, options: Options) -> bool:
    """Whether more than half of some texts are numbers."""
    found = texts.dropna().map(lambda one: number(text(one), options.decimal, options.thousands) is not None)
    return bool(found.mean() > 0.5)


def _numeric(name: str, found: list[Any]) -> tuple[Form, list[str]]:
    units = sorted({one.unit for one in found} - {""})
    if len(units) > 1:
        given = f"numbers in {' and '.join(map(repr, units))}"
        remedy = f"Convert them; or --as '{name}=text', or --drop {name!r}."
        checks.reject(f"data, column {name!r}", given, "one unit", remedy)
    without = sum(not one.unit for one in found)
    notes = [f"{without:,} without it"] if units and without else []
    return Form(name, "number", unit=units[0] if units else ""), notes


def _format(texts: Any, options: Options) -> list[str]:
    """Formats by which all texts are dates; those with the day first come first where commas are decimal."""
    unique = texts.drop_duplicates()
    if not unique.str.contains(r"\d").all():
        return []
    formats = ["ISO8601", *(date + time for time in TIMES for date in DATES)]
    formats.sort(key=lambda form: form.startswith("%m") == (options.decimal == ","))
    formats = [options.dates, *formats] if options.dates else formats
    for sample in (unique.head(1), unique.head(50), unique):
        formats = [form for form in formats if _dates(sample, form).notna().all()]
    return formats[:1] if options.dates in formats else formats


def _other_formats(dates: list[str]) -> list[str]:
    readable = {"%d": "day", "%m": "month"}
    if len(dates) == 1 or dates[0][:2] not in readable:
        return []
    return [f"read with the {readable[dates[0][:2]]} first; --dates '{dates[1]}' says otherwise"]


def left_out(form: Form, typed: Any) -> str:
    """Why a column is no feature, or an empty text."""
    present = typed.dropna()
    if present.empty:
        return "it is empty"
    different = present.nunique()
    if different == 1 and len(present) == len(typed):
        value = present.iloc[0]
        return f"it is {f'{value:g}' if form.kind == 'number' else repr(value)} in every row"
    named = bool(IDENTIFIER.fullmatch(form.name))
    if form.kind == "number" and (present == present.round()).all():
        if named:
            return "an identifier, by its name"
        if COUNTER.fullmatch(form.name) and different == len(typed) and present.is_monotonic_increasing:
            return "an identifier: it numbers the rows"
        if different == len(typed) and present.abs().max() >= LARGE:
            return "an identifier: whole numbers of so many digits that all differ"
    if form.kind == "text" and different == len(typed) >= LEAST_TEXTS:
        return "an identifier or free text: no text comes twice"
    if form.kind == "text" and named and different > len(present) / 2:
        return "an identifier, by its name"
    return ""
