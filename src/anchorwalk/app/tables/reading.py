"""Tables from CSV and Parquet files."""

import csv
from collections import Counter
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from anchorwalk import checks

KINDS = (".csv", ".tsv", ".txt", ".parquet", ".pq")
LIST = 12
"""Names that a message lists, at the most."""


def read(path: Path) -> Any:
    """A pandas table from a file; its kind is told by its name.

    Raises:
        InvalidInput: A file that is missing, of another kind, empty, not readable as a table, or with a name twice.
    """
    if not path.is_file():
        found = [one.name for one in path.parent.glob("*") if one.suffix in KINDS] if path.parent.is_dir() else []
        near = get_close_matches(path.name, found, 1)
        remedy = f"Did you mean {near[0]!r}?" if near else "Check the path."
        if path.is_dir():
            checks.reject("data", f"{str(path)!r}, a folder", "a CSV or Parquet file", "Name a file in it.")
        checks.reject("data", f"{str(path)!r}, which is not there", "a CSV or Parquet file", remedy)
    kind = path.suffix.lower()
    if kind not in KINDS:
        checks.reject("data", f"{str(path)!r}", f"a file that ends in {', '.join(KINDS)}", "Convert or rename it.")
    table = _parquet(path) if kind in (".parquet", ".pq") else _csv(path)
    twice = [str(name) for name, count in Counter(table.columns).items() if count > 1]
    if twice:
        checks.reject(
            "data", f"{path.name} with the name {twice[0]!r} twice", "a name of its own for each column", "Rename one."
        )
    if not len(table):
        checks.reject(
            "data", f"{path.name} with {len(table.columns)} names and no rows", "rows", "Is it the right file?"
        )
    return table


def _csv(path: Path) -> Any:
    import pandas as pd

    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            start = lines.read(65536)
        if not start.strip():
            checks.reject(
                "data", f"{path.name}, which is empty", "a line of names and rows below", "Is it the right file?"
            )
        separator = _separator(start)
        head = next(csv.reader(start.splitlines(), delimiter=separator))
        # Pandas would rename columns that stand there twice.
        table = pd.read_csv(path, sep=separator, header=None, skiprows=1, encoding="utf-8-sig", low_memory=False)
    except (UnicodeDecodeError, pd.errors.ParserError) as error:
        remedy = "Save it as UTF-8 with one separator and the same number of fields in each line."
        checks.reject("data", f"{path.name} ({' '.join(str(error).split())})", "a CSV file", remedy)
    except pd.errors.EmptyDataError:
        return pd.DataFrame(columns=head)
    if len(head) != table.shape[1]:
        given = f"{path.name} with {len(head)} names and {table.shape[1]} fields in its rows"
        checks.reject("data", given, "as many names as fields", "The first line must have the columns' names.")
    table.columns = [name.strip() for name in head]
    numbers = [name for name in table.columns if _is_number(name)]
    if len(numbers) == len(table.columns):
        given = f"{path.name}, whose first line has only numbers: {', '.join(numbers[:4])}, ..."
        checks.reject("data", given, "the columns' names in the first line", "Add a line of names.")
    return table


def _separator(start: str) -> str:
    first = start.splitlines()[0]
    return max(",;\t|", key=first.count) if any(one in first for one in ",;\t|") else ","


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Any:
    import pandas as pd
    import pyarrow as pa

    try:
        table = pd.read_parquet(path)
    except (pa.ArrowException, OSError, ValueError) as error:
        checks.reject("data", f"{path.name} ({' '.join(str(error).split())})", "a Parquet file", "Is it whole?")
    table.columns = [str(name) for name in table.columns]
    return table


def column(table: Any, name: str, argument: str) -> Any:
    """A column by its name.

    Raises:
        InvalidInput: There is none of that name; near ones are named.
    """
    if name not in table.columns:
        near = [one for one in table.columns if one.casefold() == name.casefold()]
        near = near or get_close_matches(name, list(table.columns), 1, 0.5)
        known = ", ".join(map(repr, table.columns[:LIST])) + (", ..." if len(table.columns) > LIST else "")
        remedy = f"Did you mean {near[0]!r}?" if near else "Names are case-sensitive."
        checks.reject(argument, repr(name), f"one of the columns {known}", remedy)
    return table[name]
