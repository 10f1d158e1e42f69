"""What the columns of a table are: numbers, dates or texts, whatever they are written like; which are left out."""

import re
import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from anchorwalk import checks
from anchorwalk.app.tables.numbers import SIGNS, Number, number
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
COUNTER = re.compile(
    r"(?i)(.*[\W_])?(nr|no|num|number)\.?|#|n|i|key|line|case|sample|obs(ervation)?|entry|record|rows?([\W_]*names?)?"
)
"""Names of columns that number the rows, where their values do."""
LARGE, DIGITS = 1e15, 14
"""Whole numbers from LARGE on are identifiers, where they have more digits than measurements have."""
MANY = 20
"""Rows from which on texts that all differ are identifiers, and texts from which on most of them tell what all are."""
KINDS = ("number", "date", "text")
"""What a column may be."""


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
        decimal: The decimal sign, where it is not that of the file.
    """

    name: str
    kind: str
    unit: str = ""
    dates: str = ""
    decimal: str = ""

    def typed(self, values: Any, options: Options) -> Any:
        """The values as numbers, dates or texts, missing ones as pandas has them.

        Raises:
            InvalidInput: A value that is none of the kind, or has another unit.
        """
        import pandas as pd

        if self.kind == "text":
            return values.map(text, na_action="ignore").astype(object)
        present, seen = values.notna(), _seen(self.name, values)
        found = pd.Series(np.nan, values.index)  # dates are no numbers
        if self.kind == "date":
            found = _dates(values, self.dates)
        elif seen == "text":
            sign = self.decimal or options.decimal
            parsed = [number(text(one), sign, options.thousands) for one in values[present]]
            other = np.array([one is not None and one.unit not in ("", self.unit) for one in parsed], bool)
            if other.any():
                _refuse(self, values[present], other, f"numbers in {self.unit!r}" if self.unit else "no unit")
            found[present] = [np.nan if one is None else one.value for one in parsed]
        elif seen == "number":
            found[:] = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
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


def _seen(name: str, values: Any) -> str:
    """What values are by their type: "number", "date" or "text".

    Raises:
        InvalidInput: A type that is none of these, such as lists.
    """
    from pandas.api import types

    found = types.infer_dtype(values, skipna=True)
    if types.is_datetime64_any_dtype(values) or found in ("date", "datetime"):
        return "date"
    if found in ("string", "mixed-integer", "categorical"):
        return "text"
    if found in ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"):
        return "number"
    remedy = f"Convert them; or, in `fit`, --as '{name}=text', or --drop {name!r}."
    return checks.reject(
        f"data, column {name!r}", f"values of the kind {found}", "numbers, truth values, texts or dates", remedy
    )


def _dates(values: Any, form: str) -> Any:
    """Dates, NaT where a value is none; texts and numbers by their format, that of ISO 8601 where none is known."""
    import pandas as pd

    texts = _seen(str(values.name), values) != "date"
    values = values.map(text, na_action="ignore").astype(object) if texts else values
    way = {"format": form or "ISO8601"} if texts else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            found = pd.to_datetime(values, errors="coerce", utc=True, **way)
        except (ValueError, re.error):  # no format
            found = pd.Series(pd.NaT, values.index, dtype="datetime64[ns, UTC]")
        return found.dt.tz_localize(None)


def learn(name: str, values: Any, options: Options, kind: str | None = None) -> tuple[Form, list[str]]:
    """What a column is, by its type or its texts, and what a person should know of it.

    Of many texts that are mostly numbers, or mostly dates, it is those: reading them names the one that is not.

    Args:
        name: The column's name.
        values: Training rows.
        options: How texts are read.
        kind: "number", "date" or "text" where the user says.

    Raises:
        InvalidInput: Values that are not of the kind that the user says, or numbers of several units.
    """
    if kind == "text":
        return Form(name, "text"), []
    seen, present = _seen(name, values), values.dropna()
    if seen == "date" or present.empty:
        return Form(name, kind or ("date" if seen == "date" else "number")), []
    texts = present.map(text)
    if seen == "number" and kind != "date":
        as_dates = options.dates and len(texts) and _dates(texts, options.dates).notna().all()
        return (Form(name, "date", dates=options.dates or "") if as_dates else Form(name, "number")), []
    numbers, decimal = _numbers(texts, options)
    if kind == "number" or (kind is None and len(numbers) == len(texts)):
        return _numeric(name, numbers, "" if decimal == options.decimal else decimal)
    if dates := _formats(texts, options):
        return Form(name, "date", dates=dates[0]), _other_formats(dates)
    if kind == "date":
        given = f"{texts.iloc[0]!r}, which is read as no date"
        checks.reject(f"data, column {name!r}", given, "dates of one format", "Name it: --dates '%d.%m.%Y'.")
    if texts.nunique() > MANY:
        if 2 * len(numbers) > len(texts):
            return _numeric(name, numbers, "" if decimal == options.decimal else decimal)
        if form := _mostly(texts, options):
            return Form(name, "date", dates=form), []
    return Form(name, "text"), []


def _numbers(texts: Any, options: Options) -> tuple[list[Number], str]:
    """Those of some texts that are numbers, and the decimal sign that reads most of them: the file's where it can."""
    found: list[Number] = []
    decimal = options.decimal
    for sign in (options.decimal, SIGNS[options.decimal]):
        read = [one for one in (number(value, sign, options.thousands) for value in texts) if one is not None]
        if len(read) > len(found):
            found, decimal = read, sign
        if len(found) == len(texts) or options.thousands != "auto":
            break  # without signs between thousands 1,234 is no number, and not 1.234
    return found, decimal


def mostly_numbers(values: Any, options: Options) -> bool:
    """Whether more than half of some values are numbers."""
    texts = values.dropna().map(text)
    return 2 * len(_numbers(texts, options)[0]) > len(texts)


def _numeric(name: str, found: list[Number], decimal: str) -> tuple[Form, list[str]]:
    units = sorted({one.unit for one in found} - {""})
    if len(units) > 1:
        given = f"numbers in {' and '.join(map(repr, units))}"
        remedy = f"Convert them; or --as '{name}=text', or --drop {name!r}."
        checks.reject(f"data, column {name!r}", given, "one unit", remedy)
    without = sum(not one.unit for one in found)
    notes = [f"{without:,} without it"] if units and without else []
    if decimal:
        notes.append(f"read with decimal {'commas' if decimal == ',' else 'points'}")
    return Form(name, "number", unit=units[0] if units else "", decimal=decimal), notes


def _tried(options: Options) -> list[str]:
    """Formats of dates; those with the day first come first where commas are decimal."""
    formats = ["ISO8601", *(date + time for time in TIMES for date in DATES)]
    formats.sort(key=lambda form: form.startswith("%m") == (options.decimal == ","))
    return [options.dates, *formats] if options.dates else formats


def _formats(texts: Any, options: Options) -> list[str]:
    """Formats by which all texts are dates."""
    unique, formats = texts.drop_duplicates(), _tried(options)
    if not unique.str.contains(r"\d").all():
        return []
    for sample in (unique.head(1), unique.head(50), unique):
        formats = [form for form in formats if _dates(sample, form).notna().all()]
    return formats[:1] if options.dates in formats else formats


def _mostly(texts: Any, options: Options) -> str:
    """The format by which most of some texts are dates, and more than half of them; empty for none."""
    sample = texts.drop_duplicates().head(50)
    if sample.str.contains(r"\d").mean() <= 0.5:
        return ""
    shares = {form: float(_dates(sample, form).notna().mean()) for form in _tried(options)}
    best = max(shares, key=lambda form: shares[form])
    return best if shares[best] > 0.5 else ""


def _other_formats(dates: list[str]) -> list[str]:
    readable = {"%d": "day", "%m": "month"}
    if len(dates) == 1 or dates[0][:2] not in readable:
        return []
    return [f"read with the {readable[dates[0][:2]]} first; --dates '{dates[1]}' says otherwise"]


def left_out(form: Form, values: Any, typed: Any) -> str:
    """Why a column is no feature, or an empty text.

    Args:
        form: What the column is.
        values: As they were read.
        typed: As numbers, dates or texts.
    """
    present = typed.dropna()
    if present.empty:
        return "it is empty"
    different, named = present.nunique(), bool(IDENTIFIER.fullmatch(form.name))
    whole = form.kind == "number" and (present == present.round()).all()
    if whole and _long(values, present):  # as floats they may all be the same
        return "an identifier: whole numbers of 16 digits and more"
    if different == 1 and len(present) == len(typed):
        value = present.iloc[0]
        return f"it is {written(value) if form.kind == 'number' else repr(value)} in every row"
    if whole and named:
        return "an identifier, by its name"
    if whole and COUNTER.fullmatch(form.name) and _counts(typed):
        return "an identifier: it numbers the rows"
    if form.kind == "text" and different == len(typed) >= MANY:
        return "an identifier or free text: no text comes twice"
    if form.kind == "text" and named and different > len(present) / 2:
        return "an identifier, by its name"
    return ""


def _counts(typed: Any) -> bool:
    """Whether whole numbers rise from row to row, and leave out less than every second one."""
    rises = typed.is_unique and typed.is_monotonic_increasing
    return bool(rises and typed.iloc[-1] - typed.iloc[0] < 2 * len(typed))


def _long(values: Any, present: Any) -> bool:
    """Whether most whole numbers are large, and floats among them, as whole numbers with gaps are, not round."""
    from pandas.api import types

    large = present[present.abs() >= LARGE]
    if types.is_float_dtype(values):
        large = large[large != large.map(lambda one: float(f"{one:.{DIGITS}g}"))]
    return 2 * len(large) > len(present)


def written(value: float) -> str:
    """A number in a message: whole ones in full.

    Example:
        >>> written(20240131.0), written(2 / 3)
        ('20240131', '0.6666667')
    """
    return f"{value:.15g}" if float(value).is_integer() else f"{value:.7g}"
