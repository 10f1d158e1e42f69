"""Predictions as a CSV or Parquet file."""

from pathlib import Path
from typing import Any

from anchorwalk import checks, files
from anchorwalk.app.tables.numbers import number

KINDS = (".csv", ".csv.gz", ".parquet", ".pq")
FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""How texts begin that a spreadsheet would compute."""


def check_kind(path: Path) -> None:
    """Refuse a file of another kind than `write` can write."""
    if not path.name.lower().endswith(KINDS):
        checks.reject("--out", repr(str(path)), f"a file that ends in {', '.join(KINDS)}", "Choose another name.")


def write(table: Any, path: Path) -> None:
    """Write predictions; their column `row` counts the rows from 0.

    In a CSV file a text that a spreadsheet would take for a formula has an apostrophe before it.
    """
    import gzip

    path.parent.mkdir(parents=True, exist_ok=True)
    table = table.rename_axis("row").reset_index()
    if path.name.lower().endswith((".parquet", ".pq")):
        files.write(path, table.to_parquet(index=False))
        return
    content = table.rename(columns=_harmless).map(_harmless).to_csv(index=False).encode()
    files.write(path, gzip.compress(content) if path.name.lower().endswith(".gz") else content)


def _harmless(value: Any) -> Any:
    if isinstance(value, str) and value.startswith(FORMULA) and number(value) is None:
        return f"'{value}"
    return value
