"""The related work at equal cost: `make methods` appends to results/methods.jsonl.

Each method has eight settings to choose among, on uci_gap's split 5 and on dermamnist: a fifth of the training rows is
held back, each setting is run three times (once on dermamnist) on the others, and the one with the lowest negative
log-likelihood on the rows held back is the method's. No test row and no reference is seen. Then come the runs of the
table, on all training rows, with these settings: splits 0, 1, 5 and 6 of uci_gap at 200, 1000 and 10,000 epochs, and
dermamnist at 200 and 1000. The planned ensemble has no settings: its own trials choose them, on rows that it holds
back. Settings are chosen at each budget by itself, but at 10,000 epochs those of 1000 are taken.

Cost is counted in passes over the data (`passes`) and in seconds without compilation. A cell that is recorded is not
run again.
"""

import argparse
import itertools
import time
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import METHODS, Variant, open_case, records
from anchorwalk.benchmark.methods import RELATED, Searched
from anchorwalk.benchmark.methods.modes import training
from anchorwalk.benchmark.scores import score
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from anchorwalk.errors import AnchorwalkError
from anchorwalk.run import programs
from anchorwalk.serial import to_json

RESULTS = Path(__file__).parent.parent / "results" / "methods.jsonl"
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


def timed(function, *arguments):
    """What a function gives, and its seconds without compilation."""
    began, compiled = time.perf_counter(), programs.seconds()
    found = function(*arguments)
    return found, time.perf_counter() - began - (programs.seconds() - compiled)


def made(case, plan, runs):
    """Posteriors of some runs."""
    keys = [jax.random.fold_in(jax.random.key(0), run) for run in range(runs)]
    if case.task == "uci_gap":
        runner = aw.Local(threads=1, lanes=min(40, runs * plan.chains))
        return aw.sample_many(keys, case.problem, plan, runner=runner, callbacks=[])
    runner = aw.Local(threads=1, lanes=1)
    return [aw.sample(key, case.problem, plan, runner=runner, callbacks=[]) for key in keys]


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


def search(path, case, name, budget):
    """The settings of a method at a budget: those on record, or those found now."""
    entry, names = SEARCHED[name], f"{case.label}: search: {name}: {budget}"
    done, small = records.read(path), held_back(case)
    tried = []
    for settings in entry.grid:
        place = f"{names}: {', '.join(f'{key} {value}' for key, value in settings.items())}"
        if place not in done:
            record = {"name": place, **about(case, "search", name, budget), "settings": settings, "nll": None}
            try:
                plan = entry.make(small, budget, **settings)
                runs = SEARCH_RUNS[case.task]
                found, seconds = timed(made, small, plan, runs)
                scores = [score(small, posterior).scores["nll"] for posterior in found]
                nll = float(np.mean(scores))
                record |= {"nll": nll if np.isfinite(nll) else None, "seconds": round(seconds / runs, 3)}
                record["passes"] = passes_of(small, plan)
            except AnchorwalkError as error:  # a budget too small for these settings, or chains that all ran away
                record["refused"] = str(error)
            records.append(path, record)
            print(place, record["nll"], record.get("refused", ""), flush=True)
            done[place] = record
        tried.append(done[place])
    good = [one for one in tried if one["nll"] is not None]
    return min(good, key=lambda one: one["nll"])["settings"] if good else None


def table(path, case, name, budget, settings):
    """The runs of a cell, unless they are there."""
    place = f"{case.label}: {name}: {budget}"
    if place in records.read(path):
        return
    count, trials = runs_of(case.task, budget), 0.0
    try:
        if name == "planned":  # each run would pay for the trials, whose passes are part of the budget
            plan, trials = timed(METHODS[name].choose, case, budget)
        else:
            plan = SEARCHED[name].make(case, budget, **settings)
        found, seconds = timed(made, case, plan, count)
    except AnchorwalkError as error:
        print(place, "refused:", error, flush=True)
        return
    runs = []
    for posterior in found:
        scores = records.rounded(score(case, posterior).scores)
        runs.append(scores | {"diverged": posterior.diverged})
    record = {"name": place, **about(case, "table", name, budget), "settings": settings, "chains": plan.chains}
    record |= {"members": plan.total, "seconds": round(trials + seconds / count, 3)}
    record["passes"] = budget if name == "planned" else passes_of(case, plan)
    record |= {"plan": to_json("method", plan.method), "floor": case.reference.floor, "runs": runs}
    records.append(path, record)
    first = "w1" if case.task == "uci_gap" else "total_variation"
    print(place, first, np.median([run[first] for run in runs]).round(4), f"{record['seconds']:.1f} s", flush=True)


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
                settings = search(arguments.out, searched_on, name, SEARCHED_AT.get(budget, budget))
                if settings is None:
                    continue
            for case in cases:
                table(arguments.out, case, name, budget, settings)


if __name__ == "__main__":
    main()
