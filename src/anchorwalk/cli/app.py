"""The commands."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

import anchorwalk
from anchorwalk.demo import BUDGET, Result, Score, draw, run
from anchorwalk.errors import AnchorwalkError

app = typer.Typer(
    help="Anchored and sequential anchored ensembles: honest uncertainty from neural networks.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def main() -> None:
    """Anchored and sequential anchored ensembles: honest uncertainty from neural networks."""


@app.command()
def version() -> None:
    """Print the version."""
    typer.echo(anchorwalk.__version__)


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs, the scores and the figure.")] = Path("runs/energy"),
    budget: Annotated[int, typer.Option(min=200, help="Epochs of each ensemble.")] = BUDGET,
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
) -> None:
    """Compare an anchored with a sequential anchored ensemble on the energy data, at the same budget."""
    console = Console()
    try:
        results = run(out, budget, seed, tell=console.print)
    except AnchorwalkError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(2) from None
    console.print(_table(results, budget))
    written = [out / "scores.json", *(out / f"{r.method.lower()}-{budget}-{seed}" for r in results)]
    if find_spec("matplotlib"):
        draw(results, out / "figure.png")
        written.append(out / "figure.png")
    else:
        console.print("No figure: pip install 'anchorwalk[plot]'")
    console.print("Written: " + ", ".join(map(str, written)))


def _table(results: list[Result], budget: int) -> Table:
    table = Table(
        title=f"Energy data, {budget:,} epochs each; heating load in kWh/m²",
        caption="NLL in nats, RMSE in kWh/m²: lower is better. Coverage of the 90% intervals: 90% is right. "
        "Seconds include compilation.",
        title_justify="left",
        caption_justify="left",
    )
    for name in ("", "members", "epochs", "seconds", "test rows", "NLL", "RMSE", "coverage"):
        table.add_column(name, justify="right" if name else "left")
    for result in results:
        head = (result.method, f"{result.members}", f"{result.epochs:,}", f"{result.seconds:.1f}")
        table.add_row(*head, f"{result.gap.rows} in the gap", *_scores(result.gap))
        table.add_row("", "", "", "", f"{result.outside.rows} outside", *_scores(result.outside), end_section=True)
    return table


def _scores(score: Score) -> tuple[str, str, str]:
    return f"{score.nll:.3f}", f"{score.rmse:.3f}", f"{score.coverage:.0%}"
