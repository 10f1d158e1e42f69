"""`anchorwalk reference`: a reference posterior by Hamiltonian Monte Carlo."""

import shlex
import sys
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from anchorwalk import checks
from anchorwalk.app.cli.errors import shown
from anchorwalk.benchmark import TASKS, Variant, open_case, records
from anchorwalk.methods.hmc import HMC
from anchorwalk.methods.tempering import Tempering
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.run.callbacks import Progress

console = Console()
WINDOWS = (50, 50, 100, 200, 400, 800, 1600, 3200, 6400)  # of tempering: iterations of each window, about
CALL = 20  # draws of one of its calls


def reference(
    task: Annotated[str, typer.Argument(help=f"One of {', '.join(TASKS)}.")],
    split: Annotated[int | None, typer.Option(help="Gap of uci_gap, 0 to 7.")] = None,
    level: Annotated[int | None, typer.Option(help="Level of corruption of cifar10c.")] = None,
    prior_variance: Annotated[float | None, typer.Option(help="Prior variance, in place of the task's own.")] = None,
    rows: Annotated[int | None, typer.Option(help="Condition on this many training rows only, the first ones.")] = None,
    test_rows: Annotated[int | None, typer.Option(help="Predict this many test rows only, the first ones.")] = None,
    method: Annotated[str, typer.Option(help="hmc, or tempering: in float32, for many chains.")] = "hmc",
    start: Annotated[
        list[str] | None,
        typer.Option(help="Where chains start: prior, or trained with SOAP; given twice, chains of each are pooled."),
    ] = None,
    epochs: Annotated[int, typer.Option(help="Epochs of the training that --start trained begins with.")] = 1000,
    rungs: Annotated[int, typer.Option(help="Temperatures of each chain of tempering.")] = 1,
    integrate_out: Annotated[
        str | None,
        typer.Option(help="Of hmc: the last layer, such as dense_1, whose weights of the mean are integrated out."),
    ] = None,
    chains: Annotated[int, typer.Option(help="Independent chains of each seed and start, an even number.")] = 8,
    draws: Annotated[int, typer.Option(help="Draws to keep of each chain; a larger number extends the run.")] = 600,
    thin: Annotated[int, typer.Option(help="Iterations for each draw that is kept.")] = 10,
    leapfrogs: Annotated[int, typer.Option(help="Steps of a trajectory.")] = 40,
    warmup: Annotated[int, typer.Option(help="Share of the usual iterations of warm-up, in percent.")] = 100,
    seed: Annotated[
        list[int] | None, typer.Option(help="Seed of the chains, 0 by default; chains of several seeds are pooled.")
    ] = None,
    folder: Annotated[Path, typer.Option(help="Folder of the runs; a killed run resumes.")] = Path("runs/reference"),
    out: Annotated[Path | None, typer.Option(help="The compact file; by default beside the run.")] = None,
    record: Annotated[Path | None, typer.Option(help="A JSON-lines file to which the evidence is appended.")] = None,
) -> None:
    """Sample the posterior by Hamiltonian Monte Carlo, with evidence of convergence on predictions."""
    with shown(console):
        if find_spec("blackjax") is None:
            checks.reject("reference", "no blackjax", "blackjax", "pip install 'anchorwalk[reference]'")
        from anchorwalk.benchmark.references.make import make
        from anchorwalk.benchmark.references.references import write
        from anchorwalk.plan.trials import recipe_for

        checks.choice("method", method, ("hmc", "tempering"))
        starts = list(dict.fromkeys(start or ["prior"]))
        for one in starts:
            checks.choice("start", one, ("prior", "trained"))
        case = open_case(task, Variant(split, level, prior_variance, rows, test_rows))
        chains_of = case if case.posterior_of is None else open_case(task, case.posterior_of)
        if chains_of is not case:
            console.print(f"{case.label} has the posterior of {chains_of.label}, whose chains are used.", markup=False)
        problem, trained = chains_of.problem, recipe_for(chains_of.problem, None, None)
        trainings = {one: trained.training(problem.n, epochs) if one == "trained" else None for one in starts}
        if method == "tempering" and integrate_out is not None:
            checks.reject("integrate-out", integrate_out, "nothing with --method tempering", "Pass --method hmc.")
        make_method = partial(_tempering, rungs) if method == "tempering" else partial(_hmc, integrate_out)
        plans = {
            one: Plan(make_method(draws, thin, leapfrogs, warmup, training), chains, draws)
            for one, training in trainings.items()
        }
        place = folder / chains_of.label
        evidence, found = make(problem, case.x_test, plans, seed or [0], place, lambda name: [Progress(name)])
        about = {"command": shlex.join(["anchorwalk", *sys.argv[1:]]), "task": task, "label": case.label, **found}
        path = out or folder / f"{case.label}.npz"
        write(path, evidence.kind, evidence.values, evidence.floor, about)
        if record is not None:
            full = {"name": case.label, "kind": "reference", **about, "floor": evidence.floor, **records.environment()}
            records.append(record, full)
    console.print(_table(case.label, evidence))
    console.print(f"Written: {path}" + (f", {record}" if record else ""), markup=False, highlight=False)


def _hmc(layer: str | None, draws: int, thin: int, leapfrogs: int, warmup: int, training: Training | None) -> HMC:
    block = max(thin, 50 // thin * thin)
    each = -(-50 * thin // block) * block // thin  # draws of a call, in whole blocks
    windows = tuple(-(-window // block) * block for window in HMC().windows)
    method = HMC(windows, thin, leapfrogs, block, each, training=training, integrate_out=layer)
    return method.shortened(warmup)


def _tempering(rungs: int, draws: int, thin: int, leapfrogs: int, warmup: int, training: Training | None) -> Tempering:
    windows = tuple(8 * max(1, round(window * warmup / 800)) for window in WINDOWS)
    each = min(draws, CALL)
    return Tempering(rungs, windows=windows, thin=thin, leapfrogs=leapfrogs, draws=each, training=training)


def _table(label: str, evidence: Any) -> Table:
    table = Table(
        title=f"{label}: {evidence.summary['chains']} chains of {evidence.summary['draws']} draws",
        caption="Rank-normalised split R-hat and bulk effective sample size, over the test rows. Between two halves of "
        "the chains: "
        + ", ".join(f"{name} {value:.4f}" for name, value in evidence.floor.items())
        + "".join(
            f"; between chains of different starts: {name} {value:.4f}"
            for one in evidence.summary.get("between_starts", [])
            for name, value in one.items()
        ),
        title_justify="left",
        caption_justify="left",
    )
    for name in ("prediction", "R-hat, median", "90% of rows below", "rows below 1.05", "ESS, median", "ESS, 10%"):
        table.add_column(name, justify="right" if name != "prediction" else "left")
    for name in ("mean", "log_sd"):
        if name in evidence.summary:
            s = evidence.summary[name]
            numbers = (f"{s['r_hat_median']:.3f}", f"{s['r_hat_90']:.3f}", f"{s['share_below_1.05']:.0%}")
            table.add_row(name.replace("_", " "), *numbers, f"{s['ess_median']:.0f}", f"{s['ess_10']:.0f}")
    return table
