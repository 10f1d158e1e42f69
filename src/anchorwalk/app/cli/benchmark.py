"""`anchorwalk benchmark`: the paper's experiments."""

import shlex
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from anchorwalk import checks, files
from anchorwalk.app.cli.errors import shown
from anchorwalk.benchmark import BUDGETS, METHODS, TASKS, Request, Variant, open_case, records
from anchorwalk.benchmark import run as run_request
from anchorwalk.benchmark.experiment import Outcome
from anchorwalk.benchmark.methods import known
from anchorwalk.benchmark.tasks import PROTOCOLS, Case
from anchorwalk.benchmark.workers import Job, run_all
from anchorwalk.run.runners import Ray
from anchorwalk.run.runners.cluster import connected
from anchorwalk.tree import nbytes

app = typer.Typer(help="The paper's experiments: run them, tabulate them, draw them.", no_args_is_help=True)
console = Console()

TaskName = Annotated[str, typer.Argument(help=f"One of {', '.join(TASKS)}.")]
Results = Annotated[Path, typer.Option("--results", help="Folder of the records.")]
Split = Annotated[list[int] | None, typer.Option("--split", help="Gap of uci_gap, 0 to 7; may be given several times.")]
Level = Annotated[int | None, typer.Option(help="Level of corruption of cifar10c, 1 to 5; the paper's is 4.")]
PriorVariance = Annotated[float | None, typer.Option(help="Prior variance, in place of the task's own.")]
Rows = Annotated[int | None, typer.Option(help="Train on this many rows only, the first ones.")]
TestRows = Annotated[int | None, typer.Option(help="Test on this many rows only, the first ones.")]
Pixels = Annotated[
    str | None, typer.Option(help="Scaling of dermamnist's images: unit (its own), standardised, or raw: 0 to 255.")
]


@app.command()
def run(
    task: TaskName,
    method: Annotated[
        list[str], typer.Option(help=f"{', '.join(METHODS)}, or an entry point's; may be given several times.")
    ],
    budget: Annotated[
        list[int], typer.Option(min=1, help="Epochs: 200, 500, 1000 or 10000; may be given several times.")
    ],
    runs: Annotated[int, typer.Option(min=1, help="Runs of each.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    results: Results = Path("results"),
    save_predictions: Annotated[bool, typer.Option(help="Keep the predictions beside each record.")] = False,
    protocol: Annotated[
        str, typer.Option(help="; ".join(f"{name}: {text}" for name, text in PROTOCOLS.items()))
    ] = "argmin",
    split: Split = None,
    level: Level = None,
    prior_variance: PriorVariance = None,
    rows: Rows = None,
    test_rows: TestRows = None,
    pixels: Pixels = None,
    members: Annotated[Path, typer.Option(help="Folder in which long runs keep their members.")] = Path(
        "runs/benchmark"
    ),
    keep_members: Annotated[bool, typer.Option("--keep-members", help="Keep them after a run is recorded.")] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes of one core each, for networks as small as that of uci_gap; 1 by default."),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option(help="Spread chains of several runs over a Ray cluster: auto, host:port, or local to start one."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bars.")] = False,
) -> None:
    """Train, score against truth and reference, and write a record for each run; a stopped command resumes."""
    with shown(console):
        for name in method:
            checks.choice("--method", name, tuple(known()))
            _check_budgets(name, budget)
        # The command in a record must work elsewhere, so it leaves out the path of this interpreter's script.
        command = shlex.join(["anchorwalk", *sys.argv[1:]])
        splits: list[int | None] = [*split] if split else [None]
        cluster = None if ray is None else Ray(workers=workers)
        processes = 1 if workers is None or cluster else workers
        jobs: list[Job] = []
        for one in splits:
            variant = Variant(one, level, prior_variance, rows, test_rows, pixels)
            case = open_case(task, variant, protocol)
            _introduce(case)
            requests = [
                Request(
                    *(name, epochs, runs, seed, protocol, results, save_predictions, members, keep_members, command),
                    cluster=cluster,
                )
                for epochs in budget
                for name in method
            ]
            jobs += [(task, variant, request) for request in requests]
            if processes == 1:
                with _on(ray, workers, case):
                    _run_here(case, jobs[-len(requests) :], quiet)
        if processes > 1:
            run_all(jobs, processes, _tell)


def _on(ray: str | None, workers: int | None, case: Case) -> AbstractContextManager[Any]:
    """Connected to a cluster for as long as several requests take."""
    room = 4 * nbytes(case.problem.data)
    return nullcontext() if ray is None else connected(None if ray == "local" else ray, workers, room)


def _run_here(case: Case, jobs: Sequence[Job], quiet: bool) -> None:
    """Run requests from this process, one after the other."""
    for job in jobs:
        request = job[2]
        outcome = run_request(case, request, _Teller(request.runs), quiet)
        _tell(job, outcome)
        if not outcome.complete:
            console.print("Interrupted. The same command resumes where it stopped.")
            raise typer.Exit(130)


def _check_budgets(method: str, budgets: list[int]) -> None:
    """Refuse, before any data are loaded, what a method has no plan for."""
    possible: tuple[int, ...] = getattr(known()[method], "budgets", None) or tuple(budgets)
    other = [budget for budget in budgets if budget not in possible]
    if other:
        remedy = "Choose one of these; `planned` and `map` take any budget."
        checks.reject(f"--budget of {method}", other[0], f"one of {', '.join(map(str, possible))}", remedy)


def _tell(job: Job, outcome: Outcome) -> None:
    task, variant, request = job
    chosen = "".join(f" {words}" for words in variant.words)
    came = f"{outcome.new} runs made, {outcome.recorded} were there"
    console.print(f"{task}{chosen} {request.method} {request.budget}: {came}", markup=False, highlight=False)


def _introduce(case: Any) -> None:
    reference = case.reference
    lines = [f"{case.label}: {case.problem.n:,} training rows, {len(case.y_test):,} test rows"]
    if reference is None:
        lines.append(
            f"No reference posterior for {case.label}: scores against the truth only. For a published one, put "
            f"hmc_{case.task}.npz with an array `probs` into the folder that ANCHORWALK_DATA names."
        )
    else:
        floor = ", ".join(f"{name} {value:.4f}" for name, value in reference.floor.items())
        lines.append(f"Reference: {reference.source}, {reference.rows:,} of the test rows")
        lines.append(f"Its own halves differ by {floor}" if floor else "Its half-against-half distance is not known")
    lines += [f"Note: {note}" for note in case.notes]
    console.print(*lines, sep="\n", markup=False, highlight=False)


class _Teller:
    """Prints each record's scores, or every tenth where there are many."""

    def __init__(self, runs: int) -> None:
        self.every = 1 if runs <= 10 else 10

    def __call__(self, name: str, record: dict[str, Any]) -> None:
        if record["run"] % self.every:
            return
        floor = (record["reference"] or {}).get("floor") or {}
        parts = []
        for score, value in record["scores"].items():
            parts.append(f"{score} {value:.4g}" + (f" (floor {floor[score]:.4f})" if score in floor else ""))
        console.print(f"{name}: {', '.join(parts)}", markup=False, highlight=False, soft_wrap=True)


@app.command()
def table(
    results: Results = Path("results"),
    out: Annotated[Path, typer.Option(help="Folder for tables.md and tables.tex.")] = Path("runs/tables"),
    protocol: Annotated[str, typer.Option(help=f"Protocol of the runs: {', '.join(PROTOCOLS)}.")] = "argmin",
) -> None:
    """The paper's Tables 1 and 2 from the records, ours beside the paper's."""
    from anchorwalk.benchmark.tables import Table, latex, markdown

    with shown(console):
        checks.choice("--protocol", protocol, tuple(PROTOCOLS))
        if not results.is_dir():
            checks.reject(
                "--results", repr(str(results)), "a folder with records", "Make some: anchorwalk benchmark run."
            )
        content = Table(records.read_all(results), protocol)
        text = markdown(content)
        out.mkdir(parents=True, exist_ok=True)
        files.write(out / "tables.md", text.encode())
        files.write(out / "tables.tex", latex(content).encode())
    console.print(Markdown(text))
    console.print(f"Written: {out / 'tables.md'}, {out / 'tables.tex'}", markup=False, highlight=False)


@app.command()
def losses(
    task: TaskName = "uci_gap",
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    out: Annotated[Path, typer.Option(help="The picture.")] = Path("runs/losses.png"),
    split: Annotated[int | None, typer.Option(help="Gap of uci_gap, 0 to 7.")] = None,
) -> None:
    """The paper's Figure 1 from a real run: the losses of 21 SAE members in the epochs of 2 AE members."""
    from anchorwalk.benchmark import losses as figure

    with shown(console):
        case = open_case(task, Variant(split=split))
        found = figure.run(case, seed)
        figure.draw(found, out, f"{TASKS[task].title}: loss while training, {figure.FIRST_EPOCHS * 2} epochs each")
    console.print(f"Written: {out}", markup=False, highlight=False)


@app.command()
def anchors(
    out: Annotated[Path | None, typer.Option(help="A JSON-lines file to append to, for the record.")] = None,
) -> None:
    """What the anchors of the paper's plans are worth, for every task and budget; nothing is trained."""
    from anchorwalk.benchmark.anchors import markdown, worth

    with shown(console):
        found = worth(BUDGETS)
        if out is not None:
            record = {
                "name": "anchors",
                "kind": "anchors",
                "command": "anchorwalk benchmark anchors",
                "rows": [vars(row) for row in found],
            }
            records.append(out, record)
    console.print(Markdown(markdown(found)))


@app.command()
def cost(
    task: Annotated[list[str] | None, typer.Option(help="Only these tasks; may be given several times.")] = None,
    out: Annotated[Path | None, typer.Option(help="A JSON-lines file to append to, for the record.")] = None,
) -> None:
    """What full runs cost on this machine, from a few measured training steps; needs no data."""
    from anchorwalk.benchmark.cost import SHAPES, markdown, measure

    with shown(console):
        names = task or list(SHAPES)
        for name in names:
            checks.choice("--task", name, tuple(SHAPES))
        found = [measure(name) for name in names]
        if out is not None:
            about = {"name": "cost", "kind": "cost", "command": "anchorwalk benchmark cost", **records.environment()}
            record = {**about, "rows": [vars(row) for row in found]}
            records.append(out, record)
    console.print(Markdown(markdown(found, BUDGETS)))
