"""Commands for tables: from a CSV file to predictions with uncertainty, and a report."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorwalk import checks
from anchorwalk.app.cli.errors import plain, shown
from anchorwalk.errors import InvalidInput

WANTED = ("pandas", "pyarrow", "pydantic", "yaml", "sklearn")
SETTINGS_FILE = Path("anchorwalk.yaml")

Decimal = Annotated[str | None, typer.Option(help="Decimal sign of a CSV file: . or , (detected by default).")]
Separator = Annotated[str | None, typer.Option(help="Sign between the fields of a CSV file (detected by default).")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a CSV file, such as cp1252; UTF-8 by default.")]
Run = Annotated[Path, typer.Argument(help="The folder that `anchorwalk fit --out` made.")]


def init(
    out: Annotated[Path, typer.Argument(help="The file to write.")] = SETTINGS_FILE,
    target: Annotated[str, typer.Option(help="The column to predict.")] = "y",
) -> None:
    """Write a YAML file of all settings of `fit`, with comments, to change and to pass as --config."""
    console = plain()
    with shown(console):
        _check_libraries()
        from anchorwalk import files
        from anchorwalk.app.tables import template

        if out.exists():
            checks.reject("init", f"{str(out)!r}, which exists", "a new file", "Choose another name, or remove it.")
        out.parent.mkdir(parents=True, exist_ok=True)
        files.write(out, template(target).encode())
    console.print(f"Written: {out}. Next: anchorwalk fit data.csv --config {out} --out runs/first", soft_wrap=True)


def fit(
    data: Annotated[Path, typer.Argument(help="A CSV (or .csv.gz) or Parquet file, names in the first line.")],
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    out: Annotated[Path, typer.Option(help="Folder for the run; the same command resumes it.")] = Path("runs/table"),
    task: Annotated[str | None, typer.Option(help="auto, regression or classification.")] = None,
    budget: Annotated[int | None, typer.Option(help="Epochs over all chains; by default by the rows.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Train for about this many seconds instead.")] = None,
    method: Annotated[str | None, typer.Option(help="sae, ae or deep_ensemble.")] = None,
    drop: Annotated[list[str] | None, typer.Option(help="A column to leave out; may be repeated.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--as", help="What a column is: NAME=number, date or text; may be repeated.")
    ] = None,
    texts: Annotated[
        str | None, typer.Option(help="Encoding of texts: one_hot, or target (means); by default by their number.")
    ] = None,
    missing: Annotated[
        list[str] | None, typer.Option(help="A text that means missing, in place of ?, -, NA, ...; may be repeated.")
    ] = None,
    decimal: Decimal = None,
    thousands: Annotated[str | None, typer.Option(help="The sign between groups of digits; auto, or none.")] = None,
    dates: Annotated[str | None, typer.Option(help="The format of dates, such as %d/%m/%Y.")] = None,
    separator: Separator = None,
    encoding: Encoding = None,
    noise: Annotated[str | None, typer.Option(help="Regression: constant, or varying with the features.")] = None,
    seed: Annotated[int | None, typer.Option(help="Decides everything that is random.")] = None,
    config: Annotated[Path | None, typer.Option(help="Settings in YAML, as `anchorwalk init` writes.")] = None,
) -> None:
    """Fit an ensemble of networks to a table, so that each prediction comes with its uncertainty.

    What became of each column is listed: numbers (as 1,234.50, 1.234,50 € or 12%), dates, texts, and what is left out.
    Ctrl-C finishes the trainings under way and stops; the same command resumes.

    Example: anchorwalk fit houses.csv --target price --drop id --out runs/houses
    """
    console = plain()
    with shown(console):
        _check_libraries()
        from anchorwalk.app import tables

        given: dict[str, Any] = {"target": target, "task": task, "budget": budget, "seconds": seconds, "method": method}
        given |= {"drop": tuple(drop) if drop else None, "noise": noise, "seed": seed, "texts": texts}
        given |= {"types": dict(map(_named, types)) if types else None, "missing": tuple(missing) if missing else None}
        given |= {"decimal": decimal, "thousands": thousands, "dates": dates}
        given |= {"separator": _separator(separator), "encoding": encoding}
        settings = tables.FitSettings.gather(config, given)
        table = tables.read(data, settings.reading)
        console.print(f"{data.name}: {len(table):,} rows, {len(table.columns)} columns{_ways(table)}", soft_wrap=True)
        model = tables.fit(table, settings, out, verbose=True, tell=lambda notes: _show_notes(console, notes))
    console.print(_summary(model))
    console.print(f"Written: {out}", soft_wrap=True)
    if not model.estimator.posterior_.complete:
        console.print("Ended by Ctrl-C: these are the members so far, and the same command resumes.")
        raise typer.Exit(130)
    console.print(f"Next: anchorwalk predict {out} new.csv, or anchorwalk report {out} --data test.csv", soft_wrap=True)


def predict(
    run: Run,
    data: Annotated[Path, typer.Argument(help="New rows, with the columns of training.")],
    out: Annotated[Path, typer.Option(help="The CSV or Parquet file to write.")] = Path("predictions.csv"),
    coverage: Annotated[float, typer.Option(help="Probability with which an interval should contain the truth.")] = 0.9,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file if it exists.")] = False,
    decimal: Decimal = None,
    separator: Separator = None,
    encoding: Encoding = None,
) -> None:
    """Predict new rows: a CSV or Parquet file with mean, standard deviation and interval, or class probabilities.

    The uncertainty comes in two parts: epistemic, which more data would lessen, and aleatoric, the noise.

    Example: anchorwalk predict runs/houses new.csv --out predictions.csv --coverage 0.8
    """
    console = plain()
    with shown(console):
        _check_libraries()
        from anchorwalk.app import tables

        checks.within("--coverage", coverage, 0, 1, open_above=True)
        if out.exists() and data.exists() and out.samefile(data):
            checks.reject("--out", f"{str(out)!r}, the file of the rows", "another file", "Choose another name.")
        if out.exists() and not overwrite:
            remedy = "Choose another name by --out, or pass --overwrite."
            checks.reject("--out", f"{str(out)!r}, which exists already", "a new file", remedy)
        tables.check_kind(out)
        model = tables.load(run)
        ways = {"decimal": decimal, "separator": _separator(separator), "encoding": encoding}
        found, notes = model.predict(model.read(data, **ways), coverage)
        tables.write(found, out)
    _show_notes(console, notes)
    console.print(f"Written: {out}, {len(found):,} rows: {', '.join(found.columns)}", soft_wrap=True)


def report(
    run: Run,
    data: Annotated[Path | None, typer.Option(help="Rows to predict and, with the target, to score.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the page; by default RUN/report.")] = None,
    decimal: Decimal = None,
    separator: Separator = None,
    encoding: Encoding = None,
) -> None:
    """Make one HTML page of a run: losses, calibration, uncertainty, the least certain rows, and what to change.

    Example: anchorwalk report runs/houses --data test.csv
    """
    console = plain()
    with shown(console):
        _check_libraries()
        from anchorwalk.app import tables

        model = tables.load(run)
        ways = {"decimal": decimal, "separator": _separator(separator), "encoding": encoding}
        table = None if data is None else model.read(data, **ways)
        page = model.report(table, out or run / "report", run.resolve().name).page
    console.print(f"Written: {page}", soft_wrap=True)


def _named(given: str) -> tuple[str, str]:
    """The two parts of --as NAME=KIND; the name may have a = of its own."""
    name, sign, kind = given.rpartition("=")
    if not sign:
        checks.reject("--as", repr(given), "NAME=number, NAME=date or NAME=text", "Name a column and what it is.")
    return name, kind


def _separator(given: str | None) -> str | None:
    """A tab can be typed as backslash and t."""
    return "\t" if given == "\\t" else given


def _ways(table: Any) -> str:
    """How a CSV file was read."""
    if "separator" not in table.attrs:
        return ""
    signs = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    decimal, sure = table.attrs["decimal"], table.attrs["sure"]
    read = "" if decimal == "." and sure else f", decimal {'commas' if decimal == ',' else 'points'}"
    other = "" if sure else f"; --decimal '{'.' if decimal == ',' else ','}' says otherwise"
    return f", {signs.get(table.attrs['separator'], table.attrs['separator'])} between fields{read}{other}"


def _check_libraries() -> None:
    missing = [name for name in WANTED if find_spec(name) is None]
    if missing:
        raise InvalidInput(f"this command needs {', '.join(missing)}: pip install 'anchorwalk[cli]'")


def _show_notes(console: Console, notes: Any) -> None:
    for note in notes:
        console.print(f"  {note}", style="dim", soft_wrap=True)


def _summary(model: Any) -> Table:
    plan, posterior = model.estimator.plan_, model.estimator.posterior_
    table = Table(show_header=False, title="The ensemble", title_justify="left")
    from anchorwalk.run import programs

    seconds = sum(float(info.seconds) for info in posterior.infos)
    rows = {
        "predicts": model.target.name + ("" if model.classes is None else f", {len(model.classes)} classes"),
        "features": f"{len(model.features)}",
        "members": f"{len(posterior)} in {plan.chains} chains"
        + (f", {posterior.diverged} diverged" if posterior.diverged else ""),
        "epochs": f"{plan.epochs:,}",
        "training": f"{seconds:.1f} seconds of all chains, and {programs.seconds():.1f} of compiling",
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table
