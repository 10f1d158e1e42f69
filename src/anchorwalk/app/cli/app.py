"""The commands."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

import anchorwalk
from anchorwalk.app.cli import benchmark, reference, runs, tables
from anchorwalk.app.cli.errors import plain, show_tracebacks, shown
from anchorwalk.app.demo import BUDGET, GAP, Result, draw, run
from anchorwalk.benchmark.datasets import energy
from anchorwalk.run.programs import cache_programs

app = typer.Typer(
    help="Anchored and sequential anchored ensembles: honest uncertainty from neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(benchmark.app, name="benchmark", rich_help_panel="The paper's benchmark")
app.command(rich_help_panel="The paper's benchmark")(reference.reference)
COMMANDS: dict[str, tuple[Callable[..., None], ...]] = {
    "Tables": (tables.init, tables.fit, tables.predict, tables.report),
    "Stored runs": (runs.runs, runs.verify, runs.thin, runs.merge, runs.prune),
}
for panel, commands in COMMANDS.items():
    for command in commands:
        app.command(rich_help_panel=panel)(command)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(anchorwalk.__version__)
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the code an error came from.")] = False,
) -> None:
    """Anchored and sequential anchored ensembles: honest uncertainty from neural networks.

    From a table to calibrated predictions: anchorwalk fit data.csv --target y --out runs/x, then
    anchorwalk predict runs/x new.csv and anchorwalk report runs/x --data test.csv.

    Exit codes: 0 all is well, 1 an error of ours, 2 something to correct in the input, 130 ended by Ctrl-C.
    """
    show_tracebacks(debug)
    cache_programs()


@app.command(rich_help_panel="Tables")
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, the scores and the figure.")] = Path("runs/energy"),
    budget: Annotated[int, typer.Option(min=400, help="Epochs of each ensemble.")] = BUDGET,
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    gap: Annotated[
        str, typer.Option(help=f"The feature whose middle third is kept from training: {', '.join(energy().features)}.")
    ] = GAP,
) -> None:
    """Compare an anchored with a sequential anchored ensemble on the energy data, at the same budget."""
    console = plain()
    with shown(console):
        results = run(out, budget, seed, gap, log=console.print)
    console.print(_table(results, gap))
    written = [*(result.run for result in results), out / "scores.json"]
    if find_spec("matplotlib"):
        draw(results, out / "figure.png", f"Energy data, a gap in {gap}, {budget:,} epochs each")
        written.append(out / "figure.png")
    else:
        console.print("No figure: it needs matplotlib, pip install 'anchorwalk[plot]'")
    console.print("Written:", *(f"\n  {path}" for path in written), sep="", soft_wrap=True)


def _table(results: list[Result], gap: str) -> Table:
    table = Table(
        title=f"Energy data, heating load in kWh/m², a gap in {gap}",
        caption="NLL in nats, RMSE in kWh/m²: lower is better. Of the 90% intervals, 90% should hold the truth. "
        "Seconds are those of training, without compiling.",
        title_justify="left",
        caption_justify="left",
    )
    for name in ("", "members", "epochs", "seconds", "test rows", "NLL", "RMSE", "covered"):
        table.add_column(name, justify="right" if name else "left")
    names = {"gap": "in gap", "outside": "outside"}
    for result in results:
        head = (result.method, f"{result.members}", f"{result.epochs:,}", f"{result.seconds:.1f}")
        for part, score in result.scores.items():
            numbers = (f"{score.nll:.3f}", f"{score.rmse:.3f}", f"{score.coverage:.0%}")
            table.add_row(*head, f"{score.rows} {names[part]}", *numbers, end_section=part == "outside")
            head = ("", "", "", "")
    return table
