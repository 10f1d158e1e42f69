"""The related work at equal cost: `make methods` appends to results/methods.jsonl.

Each method has eight settings to choose among, on uci_gap's split 5 and on dermamnist: a fifth of the training rows is
held back, each setting is run three times (once on dermamnist) on the others, and the one with the lowest negative
log-likelihood on the rows held back is the method's. No test row and no reference is seen. Then come the runs of the
table, on all training rows, with these settings: splits 0, 1, 5 and 6 of uci_gap at 200, 1000 and 10,000 epochs, and
dermamnist at 200 and 1000. The planned ensemble has no settings: its own trials choose them, on rows that it holds
back. Settings are chosen at each budget by itself, but at 10,000 epochs those of 1000 are taken.

Cost is counted in passes over the data (`passes`) and in seconds of a processor core without compilation. A cell that
is recorded is not run again. Long runs keep their members in a folder, so that a kill costs one call of theirs; of
short ones it costs a cell. Methods, tasks, splits and budgets can be chosen: several processes may each take some.
"""

import argparse
import itertools
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk import files
from anchorwalk.benchmark import METHODS, Variant, open_case, records
from anchorwalk.benchmark.methods import RELATED, Searched
from anchorwalk.benchmark.methods.modes import training
from anchorwalk.benchmark.methods.planned import planned
from anchorwalk.benchmark.scores import score
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from anchorwalk.errors import InvalidInput, TrainingFailed
from anchorwalk.run import programs
from anchorwalk.serial import to_json

RESULTS = Path(__file__).parent.parent / "results" / "methods.jsonl"
RUNS = Path("runs/methods")
LONG = 5000
"""Passes from which on the runs of uci_gap are kept in folders; those of dermamnist and of HMC always are."""
HELD_BACK = 0.2
BUDGETS = {"uci_gap": (200, 1000, 10_000), "dermamnist": (200, 1000)}
SEARCHED_AT = {10_000: 1000}
"""Budgets whose settings are those of another."""
SEARCH_RUNS = {"uci_gap": 3, "dermamnist": 1}
SEARCH_SPLIT = 5
FACTORS = (1.0, 2.0)


def runs_of(task, budget):
    """Runs of a cell."""
    if task == "dermamnist":
        return 3
    return 20 if budget < 10_000 else 5


def anchored(case, budget, chains, factor):
    return aw.Plan(aw.AE(training(case, budget // chains, factor)), chains)


def ensemble(case, budget, chains, factor):
    return aw.Plan(aw.DeepEnsemble(training(case, budget // chains, factor)), chains)


def single(case, budget, factor):
    return aw.Plan(aw.MAP(training(case, budget, factor)))


def sequential(case, budget, chains, step, share):
    """Chains of one long training and eight later ones."""
    each = budget // chains
    first = max(1, round(share * each))
    later = max(1, (each - first) // 8)
    pair = training(case, first), training(case, later)
    method = aw.SAE(*pair, aw.GuidedWalk(step), keep_optimizer=True, shift_start=True)
    return aw.Plan(method, chains, 1 + (each - first) // later)


OWN = (
    Searched.of("map", single, factor=(1.0, 0.25, 0.35, 0.5, 0.7, 1.4, 2.0, 2.8)),
    Searched.of("deep_ensemble", ensemble, chains=(5, 2, 3, 10), factor=FACTORS),
    Searched.of("ae", anchored, chains=(5, 2, 3, 10), factor=FACTORS),
    Searched.of("sae", sequential, chains=(2, 1), step=(1.0, 0.3), share=(0.3, 0.5)),
)
"""The library's own methods, with the trainings that all have here; the paper's plans have a page of their own."""
SEARCHED = {method.name: method for method in (*OWN, *RELATED)}
NAMES = (*SEARCHED, "planned")


class Clock:
    """Seconds of a processor core since it was made, without compilation; as a callback it notes them in a file.

    Other processes on the machine do not count, and what a killed process had spent does.
    """

    def __init__(self, file=None):
        self.file, self.before = file, float(file.read_text()) if file and file.exists() else 0.0
        self.began = self._now()

    @staticmethod
    def _now():
        return np.array([time.process_time(), time.perf_counter(), programs.seconds()])

    def seconds(self):
        """Compilation had its share of the processor's seconds, as of all others."""
        work, everything, compiling = self._now() - self.began
        return self.before + work * max(0.0, 1 - compiling / everything)

    def __call__(self, round_info):
        if self.file:
            files.put(self.file, str(self.seconds()).encode())


def folder_of(runs, place):
    """Where the runs of a cell are until it is recorded."""
    return runs / re.sub(r"[^\w.-]+", "_", place)


def made(case, plan, runs, folder=None):
    """Posteriors of some runs, and the seconds of one."""
    keys = [jax.random.fold_in(jax.random.key(0), run) for run in range(runs)]
    short = case.task == "uci_gap" and plan.epochs < LONG and not isinstance(plan.method, aw.HMC)
    if folder is None or short:
        stores, clock = [None] * runs, Clock()
    else:
        folder.mkdir(parents=True, exist_ok=True)
        stores, clock = [folder / f"run{run:03d}" for run in range(runs)], Clock(folder / "seconds")
    if case.task == "uci_gap":
        runner = aw.Local(threads=1, lanes=min(40, runs * plan.chains))
        found = aw.sample_many(keys, case.problem, plan, runner=runner, stores=stores, callbacks=[clock])
    else:
        runner = aw.Local(threads=1, lanes=1)
        each = zip(keys, stores, strict=True)
        found = [
            whole(aw.sample(key, case.problem, plan, runner=runner, store=store, callbacks=[clock]))
            for key, store in each
        ]
    return list(map(whole, found)), clock.seconds() / runs


def whole(posterior):
    """The same, unless Ctrl-C ended its run: half of a run is no result."""
    if not posterior.complete:
        raise KeyboardInterrupt
    return posterior


def scores_of(case, posterior):
    """All scores; none of a run whose chains all ran away."""
    return score(case, posterior).scores if len(posterior) else {}


def passes_of(case, plan):
    """What a plan costs on a case: of a Laplace approximation it depends on the network's outputs."""
    return plan.chains * sum(call.passes for call in plan.method.calls(case.problem, plan.members))


def held_back(case):
    """The case with a part of its training rows to choose settings on, in place of its test rows."""
    problem = case.problem.hold_back(jax.random.key(1), HELD_BACK)
    rows = problem.validation
    return replace(case, problem=problem, x_test=rows.x, y_test=rows.y, reference=None)


def about(case, section, name, budget):
    """What all records have, and the name of one."""
    shared = {"kind": "methods", "command": "make methods", "task": case.task, **case.variant.chosen, "seed": 0}
    shared |= {**records.environment(), "label": case.label, "section": section, "method": name, "budget": budget}
    return shared


def search(path, case, name, budget, runs=RUNS):
    """The settings of a method at a budget: those on record, or those found now."""
    entry, names = SEARCHED[name], f"{case.label}: search: {name}: {budget}"
    done, small = records.read(path), held_back(case)
    tried = []
    for settings in entry.grid:
        place = f"{names}: {', '.join(f'{key} {value}' for key, value in settings.items())}"
        if place not in done:
            record = {"name": place, **about(case, "search", name, budget), "settings": settings, "nll": None}
            record |= tried_on(small, entry, budget, settings, folder_of(runs, place))
            keep(path, record, runs)
            print(place, record["nll"], record.get("refused", ""), flush=True)
            done[place] = record
        tried.append(done[place])
    good = [one for one in tried if one["nll"] is not None]
    return min(good, key=lambda one: one["nll"])["settings"] if good else None


def tried_on(small, entry, budget, settings, folder):
    """How settings do on the rows held back."""
    try:
        plan = entry.make(small, budget, **settings)
    except InvalidInput as error:  # a budget too small for these settings
        return {"refused": str(error)}
    try:
        found, seconds = made(small, plan, SEARCH_RUNS[small.task], folder)
    except TrainingFailed as error:
        return {"refused": str(error)}
    nll = float(np.mean([scores_of(small, posterior).get("nll", np.nan) for posterior in found]))
    about_it = {"seconds": round(seconds, 3), "passes": passes_of(small, plan)}
    return about_it | {"nll": nll if np.isfinite(nll) else None}


def keep(path, record, runs):
    """Record a cell; its folder is not needed any more."""
    records.append(path, record)
    shutil.rmtree(folder_of(runs, record["name"]), ignore_errors=True)


def table(path, case, name, budget, settings, runs=RUNS):
    """The runs of a cell, unless they are there; no settings where no setting could be run."""
    place = f"{case.label}: {name}: {budget}"
    if place in records.read(path):
        return
    record = {"name": place, **about(case, "table", name, budget), "settings": settings, "runs": []}
    if settings is None and name != "planned":
        record["refused"] = "no setting of the search could be run"
    else:
        record |= cell(case, name, budget, settings, folder_of(runs, place))
    keep(path, record, runs)
    first = "w1" if case.task == "uci_gap" else "total_variation"
    values = [run[first] for run in record["runs"] if first in run]
    said = f"{np.median(values):.4f}, {record['seconds']:.1f} s" if values else record.get("refused", "ran away")
    print(place, said, flush=True)


def cell(case, name, budget, settings, folder):
    """What a cell's record has of its own."""
    trials, spent = 0.0, 0
    try:
        if name == "planned":  # each run would pay for the trials
            clock = Clock()
            spent, plan = planned(case, budget).spent, METHODS[name].choose(case, budget)
            trials = clock.seconds()
        else:
            plan = SEARCHED[name].make(case, budget, **settings)
    except InvalidInput as error:
        return {"refused": str(error)}
    try:
        found, seconds = made(case, plan, runs_of(case.task, budget), folder)
    except TrainingFailed as error:
        return {"refused": str(error)}
    runs = [records.rounded(scores_of(case, one)) | {"diverged": one.diverged} for one in found]
    record = {"chains": plan.chains, "members": plan.total, "seconds": round(trials + seconds, 3)}
    record |= {"passes": spent + passes_of(case, plan), "plan": to_json("method", plan.method)}
    return record | {"floor": case.reference.floor, "runs": runs}


def variants(task, splits):
    """What of a task is in the table; what settings are chosen on stands first."""
    if task == "dermamnist":
        return [Variant(pixels="raw", test_rows=1000)]
    return [Variant(split=split) for split in sorted(splits, key=lambda split: split != SEARCH_SPLIT)]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=["uci_gap", "dermamnist"])
    parser.add_argument("--split", type=int, nargs="*", default=REFERENCED)
    parser.add_argument("--budget", type=int, nargs="*", default=[200, 1000, 10_000])
    parser.add_argument("--method", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=RUNS)
    arguments = parser.parse_args()
    aw.cache_programs()
    for task, budget in itertools.product(arguments.task, arguments.budget):
        if budget not in BUDGETS[task]:
            continue
        cases = [open_case(task, variant) for variant in variants(task, arguments.split)]
        searched_on = open_case(task, variants(task, [SEARCH_SPLIT])[0])
        for name in arguments.method:
            settings = None
            if name != "planned":
                searched_at = SEARCHED_AT.get(budget, budget)
                settings = search(arguments.out, searched_on, name, searched_at, arguments.runs)
            for case in cases:
                table(arguments.out, case, name, budget, settings, arguments.runs)


if __name__ == "__main__":
    main()
