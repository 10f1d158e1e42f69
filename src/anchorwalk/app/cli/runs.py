"""`anchorwalk runs`, `verify`, `thin`, `merge` and `prune`: stored runs, without the networks that made them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from anchorwalk import checks, files
from anchorwalk.app.cli.errors import shown
from anchorwalk.errors import AnchorwalkError
from anchorwalk.run.store import beside, maintenance
from anchorwalk.run.store.folders import UNFINISHED

console = Console()
Run = Annotated[Path, typer.Argument(help="The run's folder, as it was given to sample(store=).")]
Out = Annotated[Path, typer.Option(help="The new folder; it must be empty or not there yet.")]


def runs(
    folder: Annotated[Path, typer.Argument(help="Where to look for runs, at any depth.")] = Path("runs"),
) -> None:
    """List stored runs: what they are, how far they are, how much room they take."""
    with shown(console):
        if not folder.is_dir():
            given = f"{str(folder)!r}, which is {'no folder' if folder.exists() else 'not there'}"
            checks.reject("runs", given, "a folder", "Name one that has runs in it.")
        found = maintenance.find(folder)
    if not found:
        console.print(f"No runs in {folder}. `sample(..., store=FOLDER)` makes one.", markup=False)
        return
    title = escape(f"Runs in {folder}")
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 0))
    table.add_column("run", overflow="fold")
    table.add_column("task", overflow="fold")
    for name in ("members", "epochs", "left", "diverged", "size"):
        table.add_column(name, justify="right", no_wrap=True)
    for path in found:
        name = escape(str(path.relative_to(folder)))
        if path.name.endswith(UNFINISHED):
            table.add_row(name, "[red]unfinished; repeat the command that makes it, or remove it[/]", *[""] * 5)
            continue
        try:
            run = maintenance.summarize(path)
        except AnchorwalkError as error:
            table.add_row(name, f"[red]{type(error).__name__}[/]; see anchorwalk verify", *[""] * 5)
            continue
        table.add_row(
            name,
            "\n".join([escape(_target(path) + run.task), *_notes(run)]),
            f"{run.members:,}/{run.planned:,}",
            f"{run.epochs:,}/{run.epochs_planned:,}",
            _duration(run.seconds_left),
            f"{run.diverged:,}",
            _size(run.bytes),
        )
    console.print(table)


def _notes(run: maintenance.Summary) -> Iterator[str]:
    """What happened to a run, a line each."""
    if run.damaged:
        yield f"[red]{run.damaged} damaged files, see anchorwalk verify[/]"
    if run.losses:
        yield f"{run.losses} workers lost, see log.jsonl"
    if run.given_up:
        chains = ", ".join(map(str, run.given_up))
        yield f"[red]given up: chains {chains}; the same call of sample resumes them[/]"


def verify(run: Run) -> None:
    """Read every file of a run and compare its checksum; exit code 1 if a file is damaged or missing."""
    with shown(console):
        damaged = maintenance.verify(run)
        summary = maintenance.summarize(run)
    for name, reason in damaged.items():
        console.print(f"{run / name}: {reason}", style="red", markup=False, highlight=False)
    if damaged:
        rest = f"{summary.members:,} members are whole as far as sizes tell; `anchorwalk prune {run}` keeps those."
        console.print(rest, markup=False, highlight=False)
        raise typer.Exit(1)
    console.print(
        f"{run}: {summary.members:,} members, {_size(summary.bytes)}, all whole.", markup=False, highlight=False
    )


def thin(run: Run, every: Annotated[int, typer.Option(min=1, help="Keep every K-th member.")], out: Out) -> None:
    """Copy every K-th member of each chain into a new, smaller run; the old one stays."""
    with shown(console):
        count = maintenance.thin(run, out, every)
    console.print(f"Written: {out}, {count:,} members", markup=False, highlight=False)


def merge(
    runs: Annotated[list[Path], typer.Argument(help="Runs that hold different chains of one plan.")], out: Out
) -> None:
    """Put chains of one plan, run in different places with sample(chains=), into one run."""
    with shown(console):
        count = maintenance.merge(runs, out)
    console.print(f"Written: {out}, {count:,} members", markup=False, highlight=False)


def prune(
    run: Run,
    states: Annotated[
        bool, typer.Option("--states", help="Remove chain states too: the run can only be read then.")
    ] = False,
) -> None:
    """Take damaged files out of a run (they are kept beside it as *.damaged), and leftovers of killed processes."""
    with shown(console):
        actions = maintenance.prune(run, states)
    for line in actions or ["Nothing to do."]:
        console.print(line, markup=False, highlight=False)


def _target(run: Path) -> str:
    """What a run of `anchorwalk fit` predicts; empty for other runs."""
    try:
        return f"{files.from_json(beside.read(run, 'table.json'))['target']['name']}: "
    except (AnchorwalkError, OSError, ValueError, KeyError, TypeError):
        return ""


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.1f} h"
