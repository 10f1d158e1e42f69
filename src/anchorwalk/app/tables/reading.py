"""Tables from CSV and Parquet files."""

import csv
import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from anchorwalk import checks
from anchorwalk.app.tables.numbers import number

KINDS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".pq")
MISSING = (
    *("", "?", "-", "--", "\N{EN DASH}", "\N{EM DASH}", ".", "NA", "N/A", "n/a", "n.a.", "N.A.", "na", "#N/A", "<NA>"),
    *("NaN", "nan", "NULL", "null", "None", "none", "missing"),
)
"""Texts that mean missing."""
LIST = 12
"""Names that a message lists, at the most."""
SAMPLE = 65536
"""Characters of a file that tell its separator and its decimal sign."""


@dataclass(frozen=True)
class Reading:
    """What is known of the way a CSV file is written; None and "auto" are found out.

    Attributes:
        separator: Between fields.
        decimal: "." or ",".
        thousands: A sign between groups of digits, or "none".
        missing: Texts that mean missing, in place of `MISSING`; an empty one does in any case.
        encoding: Of the file's letters.
        texts: Columns that are not to be taken for numbers.
        usual: The decimal sign, where a file does not tell.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str = "auto"
    missing: tuple[str, ...] = ()
    encoding: str | None = None
    texts: tuple[str, ...] = ()
    usual: str | None = None


def read(path: Path, reading: Reading | None = None) -> Any:
    """A pandas table from a file; its kind is told by its name.

    `table.attrs["decimal"]` is the decimal sign of a CSV file, which texts such as "1.234,50 €" are read with later.

    Raises:
        InvalidInput: A file that is missing, of another kind, empty, not readable as a table, or with a name twice.
    """
    if not path.is_file():
        found = [one.name for one in path.parent.glob("*") if _kind(one)] if path.parent.is_dir() else []
        near = get_close_matches(path.name, found, 1)
        remedy = f"Did you mean {near[0]!r}?" if near else "Check the path."
        if path.is_dir():
            checks.reject("data", f"{str(path)!r}, a folder", "a CSV or Parquet file", "Name a file in it.")
        checks.reject("data", f"{str(path)!r}, which is not there", "a CSV or Parquet file", remedy)
    kind = _kind(path)
    if not kind:
        checks.reject("data", f"{str(path)!r}", f"a file that ends in {', '.join(KINDS)}", "Convert or rename it.")
    reading = reading or Reading()
    table = _parquet(path) if kind in (".parquet", ".pq") else _csv(path, reading)
    twice = [str(name) for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        checks.reject(
            "data", f"{path.name} with the name {twice[0]!r} twice", "a name of its own for each column", "Rename one."
        )
    if not len(table):
        checks.reject(
            "data", f"{path.name} with {len(table.columns)} names and no rows", "rows", "Is it the right file?"
        )
    return table.apply(_stripped, reading=reading)


def _kind(path: Path) -> str:
    return next((kind for kind in KINDS if path.name.lower().endswith(kind)), "")


def _csv(path: Path, reading: Reading) -> Any:
    import pandas as pd

    try:
        encoding = _encoding(path, reading)
        with _opened(path, encoding) as lines:
            start = lines.read(SAMPLE)
        if not start.strip():
            checks.reject(
                "data", f"{path.name}, which is empty", "a line of names and rows below", "Is it the right file?"
            )
        separator = reading.separator or _separator(start)
        with _opened(path, encoding) as lines:
            head = next(csv.reader(lines, delimiter=separator))
        decimal = reading.decimal or _decimal(start, separator, reading)
        names = [name.strip() or f"Unnamed: {place}" for place, name in enumerate(head)]
        table = pd.read_csv(
            path,
            sep=separator,
            header=None,  # pandas would rename columns that stand there twice
            skiprows=1,
            decimal=decimal,
            na_values=_missing(reading),
            keep_default_na=False,
            skipinitialspace=True,
            dtype={place: str for place, name in enumerate(names) if name in reading.texts},
            encoding=encoding,
            low_memory=False,
        )
    except (UnicodeError, pd.errors.ParserError, gzip.BadGzipFile, EOFError, LookupError, csv.Error) as error:
        remedy = "Save it as UTF-8 with one separator and the same number of fields in each line"
        remedy += ", or name its letters: --encoding cp1252 is that of Excel in Western Europe."
        checks.reject("data", f"{path.name} ({' '.join(str(error).split())})", "a CSV file", remedy)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=names)
    if len(names) != table.shape[1]:
        given = f"{path.name} with {len(names)} names and {table.shape[1]} fields in its rows"
        checks.reject("data", given, "as many names as fields", "The first line must have the columns' names.")
    table.columns = names
    if all(number(name, decimal, reading.thousands) for name in names):
        given = f"{path.name}, whose first line has only numbers: {', '.join(names[:4])}, ..."
        checks.reject("data", given, "the columns' names in the first line", "Add a line of names.")
    table.attrs |= {"decimal": decimal, "separator": separator}
    return table


def _missing(reading: Reading) -> list[str]:
    return ["", *(reading.missing or MISSING)]


def _stripped(values: Any, reading: Reading) -> Any:
    """Texts without spaces around them, and those that mean missing as such."""
    from pandas.api import types

    if types.infer_dtype(values, skipna=True) != "string":
        return values
    values = values.str.strip()
    return values.mask(values.isin(_missing(reading)))


def _opened(path: Path, encoding: str) -> Any:
    return (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rt", newline="", encoding=encoding)


def _encoding(path: Path, reading: Reading) -> str:
    """As named, or UTF-16 where its mark stands in the beginning, or UTF-8 with or without one."""
    if reading.encoding:
        return reading.encoding
    with (gzip.open if path.suffix.lower() == ".gz" else open)(path, "rb") as content:
        return "utf-16" if content.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _separator(start: str) -> str:
    first = start.splitlines()[0]
    return max(",;\t|", key=first.count) if any(one in first for one in ",;\t|") else ","


def _decimal(start: str, separator: str, reading: Reading) -> str:
    """The sign by which more fields of a sample can be read, where not all can be by both."""
    fields = [one for row in islice(csv.reader(start.splitlines(), delimiter=separator), 1, None) for one in row]
    point, comma = (sum(number(one, sign, reading.thousands) is not None for one in fields) for sign in ".,")
    if point != comma:
        return "." if point > comma else ","
    # Either would do: 1,234 is most likely 1.234 where semicolons leave the comma free, else 1234.
    free = separator != "," and any("," in one and number(one, ",", "none") for one in fields)
    return reading.usual or ("," if free else ".")


def _parquet(path: Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    try:
        table = pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        checks.reject("data", f"{path.name} ({' '.join(str(error).split())})", "a Parquet file", "Is it whole?")
    table.columns = [str(name) for name in table.columns]
    return table


def some(names: Iterable[Any]) -> str:
    """Names in a message, the first few of many.

    Example:
        >>> some(["a", "b"]), some(range(100))
        ("'a', 'b'", '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 88 more')
    """
    listed = list(map(repr, names))
    more = f" and {len(listed) - LIST:,} more" if len(listed) > LIST else ""
    return ", ".join(listed[:LIST]) + more


def column(table: Any, name: str, argument: str) -> Any:
    """A column by its name.

    Raises:
        InvalidInput: There is none of that name; near ones are named.
    """
    if name not in table.columns:
        near = [one for one in table.columns if one.casefold() == name.casefold()]
        near = near or get_close_matches(name, list(table.columns), 1, 0.5)
        remedy = f"Did you mean {near[0]!r}?" if near else "Names are case-sensitive."
        checks.reject(argument, repr(name), f"one of the columns {some(table.columns)}", remedy)
    return table[name]
