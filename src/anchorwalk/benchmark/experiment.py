"""Runs of a method on a task, scored and recorded one by one."""

import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark import records
from anchorwalk.benchmark.methods import Entry, Method, find
from anchorwalk.benchmark.scores import Scored, score
from anchorwalk.benchmark.tasks import TASKS, Case, Variant
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.runners import Ray
from anchorwalk.run.store import fingerprint

RUNS = 8
"""Runs at a time on a cluster, in multiples of those that go together on one machine, where nobody says."""


@dataclass(frozen=True)
class Request:
    """What to run: R runs of a method on a case at a budget.

    Args:
        method: A name of METHODS or of an entry point, or a method such as `Entry(name, choose)`.
        budget: Epochs.
        runs: How many.
        seed: Run r has the key fold_in(key(seed), r).
        protocol: "argmin" or "authors".
        results: Folder of the records.
        save_predictions: Whether the predictions are kept beside each record.
        members: Folder in which runs by themselves keep their members until they are recorded.
        keep_members: Whether the members stay there after that.
        command: The command that asked for it, for the record.
        cluster: Where chains are trained, those of several runs at a time; None for this machine. Scores are the same.
    """

    method: str | Method
    budget: int
    runs: int
    seed: int = 0
    protocol: str = "argmin"
    results: Path = Path("results")
    save_predictions: bool = False
    members: Path = Path("runs/benchmark")
    keep_members: bool = False
    command: str = ""
    cluster: Ray | None = None


def open_case(task: str, variant: Variant, protocol: str = "argmin") -> Case:
    """The case of a task by name.

    Raises:
        InvalidInput: An unknown name, or options that do not fit it.
    """
    checks.choice("task", task, tuple(TASKS))
    return TASKS[task].case(variant, protocol)


class Outcome(NamedTuple):
    """What a request came to.

    Attributes:
        new: Runs that this call made.
        recorded: Runs whose records were there before.
        complete: False where Ctrl-C ended it before.
    """

    new: int
    recorded: int
    complete: bool


def run(
    case: Case,
    request: Request,
    done: Callable[[str, dict[str, Any]], None] = lambda name, record: None,
    quiet: bool = False,
) -> Outcome:
    """Make the runs that are not recorded yet.

    Args:
        case: What to fit.
        request: How often, and with what.
        done: Called with the name and the record of each run when it is recorded.
        quiet: No progress bars.

    Returns:
        How many runs were made.

    Raises:
        InvalidInput: An unknown method, a budget without a plan, counts out of range, or records of the same name that
            were made with other settings or scored against another reference.
    """
    checks.count("runs", request.runs)
    checks.count("seed", request.seed, least=0)
    method = find(request.method)
    about = _about(case, request, method)  # refuses a budget without a plan before anything is written
    try:
        request.results.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        checks.reject(
            "results", f"{str(request.results)!r} ({error.strerror})", "a folder to write to", "Choose another."
        )
    names = {r: _name(case, request, method, r) for r in range(request.runs)}
    path = records.path_of(request.results, case.task, method.name)
    records.check_same(path, names.values(), about)
    missing = records.missing(path, names, request.save_predictions)
    recorded, new = len(names) - len(missing), 0
    together = method.together(case, request.budget)
    spread = method if isinstance(method, Entry) and request.cluster is not None else None
    if request.cluster is not None:
        if spread is None:
            checks.reject("--ray", f"the method {method.name!r}", "one that is a plan", "Run it without --ray.")
        together *= request.cluster.workers or RUNS
    root = jax.random.key(request.seed)
    for start in range(0, len(missing), together):
        block = missing[start : start + together]
        keys = [jax.random.fold_in(root, r) for r in block]
        folders = [request.members / names[r] for r in block]
        if spread is None or request.cluster is None:
            alone = folders[0] if together == 1 else None
            made: Iterable[Posterior] = method.run(keys, case, request.budget, alone, quiet)
        else:
            made = spread.spread(keys, case, request.budget, folders, quiet, request.cluster)
        for r, folder, posterior in zip(block, folders, made, strict=True):
            if not posterior.complete:  # Ctrl-C: what a run by itself has trained is in its folder, to resume from
                return Outcome(new, recorded, complete=False)
            scored = score(case, posterior)
            record = {"name": names[r], **about, **_own_part(r, posterior, len(block), scored)}
            predictions = scored.predictions if request.save_predictions else None
            # Again, as another process may have written some in the meantime.
            records.check_same(path, names.values(), about)
            records.write(path, record, predictions)
            new += 1
            done(names[r], record)
            if not request.keep_members:
                shutil.rmtree(folder, ignore_errors=True)
    return Outcome(new, recorded, complete=True)


def _name(case: Case, request: Request, method: Method, r: int) -> str:
    return records.name_of(case.label, method.name, request.budget, request.protocol, request.seed, r)


def _own_part(r: int, posterior: Posterior, side_by_side: int, scored: Scored) -> dict[str, Any]:
    """What is a run's own in its record."""
    return {
        "run": r,
        "members": len(posterior),
        "diverged": posterior.diverged,
        "seconds": round(float(np.sum([info.seconds for info in posterior.infos])), 3),
        "side_by_side": side_by_side,
        "scores": records.rounded(scored.scores),
    }


def _about(case: Case, request: Request, method: Method) -> dict[str, Any]:
    """What the records of a request share."""
    reference = case.reference
    return {
        "kind": "benchmark",
        "task": case.task,
        "variant": case.variant.chosen,
        "method": method.name,
        "budget": request.budget,
        "protocol": request.protocol,
        "seed": request.seed,
        "command": request.command,
        **method.settings(case, request.budget),
        "prior_variance": case.settings.prior_variance,
        "train_rows": case.problem.n,
        "test_rows": len(case.y_test),
        "data_hash": fingerprint.of_tree((case.problem.data, case.x_test, case.y_test)),
        "reference": None
        if reference is None
        else {
            "source": reference.source,
            "rows": reference.rows,
            "hash": fingerprint.of_tree(reference.values),
            "floor": reference.floor,
        },
        "notes": list(case.notes),
        **records.environment(),
    }
