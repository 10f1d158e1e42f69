"""Tables from CSV and Parquet files."""

import csv
import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from anchorwalk import checks
from anchorwalk.app.tables.numbers import SIGNS, number

KINDS = (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz", ".txt.gz", ".parquet", ".pq")
MISSING = (
    *("", "?", "-", "--", "\N{EN DASH}", "\N{EM DASH}", ".", "NA", "N/A", "n/a", "n.a.", "N.A.", "na", "#N/A", "<NA>"),
    *("NaN", "nan", "NULL", "null", "None", "none", "missing", "#DIV/0!", "#NUM!", "#REF!", "#VALUE!"),
)
"""Texts that mean missing."""
LIST = 12
"""Names that a message lists, at the most."""
SAMPLE, LINES = 65536, 20
"""Characters of a file that tell its decimal sign, and lines of these that tell its separator."""
SEPARATORS = ",;\t|"
FIRST_LINE = re.compile(r"(?i)sep=(.)")
"""What a spreadsheet writes before the names, so that others know the separator."""


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
        measured: Columns whose numbers tell the decimal sign; all unless given.
    """

    separator: str | None = None
    decimal: str | None = None
    thousands: str = "auto"
    missing: tuple[str, ...] = ()
    encoding: str | None = None
    texts: tuple[str, ...] = ()
    usual: str | None = None
    measured: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        """Refuse signs that are none."""
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            checks.reject("--separator", repr(self.separator), "one sign, such as ;", "A tab is '\\t'.")
        if self.decimal not in (None, ".", ","):
            checks.reject("--decimal", repr(self.decimal), "'.' or ','", "Choose one of them.")
        between = self.thousands
        if between not in ("auto", "none") and (len(between) != 1 or between.isalnum() or between == self.decimal):
            expected = "auto, none, or one sign that is no letter, no digit and not the decimal sign"
            checks.reject("--thousands", repr(between), expected, "Choose one of them.")


def read(path: Path, reading: Reading | None = None) -> Any:
    """A pandas table from a file; its kind is told by its name.

    `table.attrs` of a CSV file has its "decimal" sign, which texts such as "1.234,50 €" are read with later, whether
    that is "sure", and its "separator".

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
        if "\0" in start:
            remedy = "Name its letters, such as --encoding utf-16-le, or convert it."
            checks.reject("data", f"{path.name} with zero bytes in it", "a text", remedy)
        beginning = io.StringIO(start, newline="").readlines()
        skipped, separator = _before_names(beginning)
        sample = beginning[skipped:]
        if len(start) == SAMPLE and len(sample) > 1:
            sample.pop()  # it may be cut
        if not sample:
            checks.reject(
                "data", f"{path.name}, which is empty", "a line of names and rows below", "Is it the right file?"
            )
        separator = reading.separator or separator or _separator(sample[:LINES])
        with _opened(path, encoding) as lines:
            head = next(csv.reader(islice(lines, skipped, None), delimiter=separator, skipinitialspace=True))
        names = [" ".join(name.split()) or f"Unnamed: {place}" for place, name in enumerate(head)]
        decimal, sure = _decimal(sample, names, separator, reading)
        table = pd.read_csv(
            path,
            sep=separator,
            header=None,  # pandas would rename columns that stand there twice
            skiprows=skipped + 1,
            decimal=decimal,
            na_values=_missing(reading),
            keep_default_na=False,
            skipinitialspace=True,
            dtype={place: str for place, name in enumerate(names) if name in reading.texts},
            encoding=encoding,
            low_memory=False,
        )
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        checks.reject("data", f"{path.name} ({error})", "a file packed by gzip", "Is it whole? Is it packed at all?")
    except (UnicodeError, pd.errors.ParserError, LookupError, csv.Error) as error:
        remedy = "Save it as UTF-8 with one separator and the same number of fields in each line"
        remedy += ", or name its letters: --encoding cp1252 is that of Excel in Western Europe."
        checks.reject("data", f"{path.name} ({' '.join(str(error).split())})", "a CSV file", remedy)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=names)
    if len(names) != table.shape[1]:
        given = f"{path.name} with {len(names)} names and {table.shape[1]} fields in its rows, split at {separator!r}"
        remedy = "The first line must have the columns' names; --separator says where else to split."
        checks.reject("data", given, "as many names as fields", remedy)
    table.columns = names
    if all(number(name, decimal, reading.thousands) for name in names):
        given = f"{path.name}, whose first line has only numbers: {', '.join(names[:4])}, ..."
        checks.reject("data", given, "the columns' names in the first line", "Add a line of names.")
    table.attrs |= {"decimal": decimal, "separator": separator, "sure": sure}
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


def _before_names(lines: list[str]) -> tuple[int, str]:
    """Lines before that of the names, which are empty or name the separator, and the separator if one does."""
    skipped, separator = 0, ""
    for line in lines:
        named = FIRST_LINE.fullmatch(line.strip("\r\n"))
        if line.strip() and not named:
            break
        skipped += 1
        separator = named[1] if named else separator
    return skipped, separator


def _separator(lines: list[str]) -> str:
    """The sign that gives names and rows the same number of fields, the most of them; else the names alone."""

    def fields(sign: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=sign, skipinitialspace=True) if row] or [0]
        return len(set(counts)) == 1 and counts[0] > 1, counts[0]

    # Where two would do, names and numbers have commas: "price, EUR;size" above 1,5;80.
    return max(";\t|,", key=fields) if any(one in lines[0] for one in SEPARATORS) else ","


def _decimal(lines: list[str], names: list[str], separator: str, reading: Reading) -> tuple[str, bool]:
    """The sign by which more fields of a sample can be read, and whether it is clear."""
    if reading.decimal or reading.thousands in SIGNS:
        return reading.decimal or SIGNS[reading.thousands], True
    rows = islice(csv.reader(lines, delimiter=separator, skipinitialspace=True), 1, None)
    counted = set(names if reading.measured is None else reading.measured) - set(reading.texts)
    fields = [one for row in rows for name, one in zip(names, row, strict=False) if name in counted]
    points, commas = ([number(one, sign, reading.thousands) for one in fields] for sign in ".,")
    if difference := sum(map(bool, points)) - sum(map(bool, commas)):
        return "." if difference > 0 else ",", True
    if reading.usual:
        return reading.usual, True
    # Either would do: 1,234 is most likely 1.234 where semicolons leave the comma free, else 1234.
    free = separator != "," and any("," in one and number(one, ",", "none") for one in fields)
    return "," if free else ".", separator == "," or points == commas


def _parquet(path: Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    try:
        table = pd.read_parquet(path)
        named = [name for name in table.index.names if name is not None]
        table = table.reset_index(named).reset_index(drop=True)
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
