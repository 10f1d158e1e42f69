"""Do chains of short trainings pay? `make sequential` appends to results/sequential.jsonl.

SOAP throughout. Plans of one member a chain, at three rates each, stand beside sequential plans of the same epochs:
with and without the optimiser's state handed on (`keep_optimizer`) and the start moved with the anchor (`shift_start`),
with steps of the walk from 0.05 to 1, and in other shapes. On uci_gap ten runs of each, on dermamnist (pixels from 0 to
255, the reference's first 1000 rows) one. A cell that is recorded is not run again.
"""

import argparse
import itertools
import math
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import Variant, open_case, records
from study import inside_of, scores_of

RESULTS = Path(__file__).parent.parent / "results" / "sequential.jsonl"
GAP_RUNS, GAP_SPLITS = 10, (5, 6, 0)
RATE, BATCH, END = 0.01, 8, 0.01
"""Of SOAP: its rate up to 200 epochs, falling with the root of longer ones; rows of a batch; its last rate's share."""
SINGLES = ((2, 500), (3, 330), (5, 200), (10, 100))
FACTORS = (0.5, 1.0, 2.0)
STEPS = (0.05, 0.2, 0.5, 1.0)
SHAPE = (1, 200, 9, 100)
"""Chains, epochs of the first training, members, epochs of a later one."""
SHAPES = ((1, 400, 11, 60), (2, 200, 5, 75), (2, 100, 9, 50), (2, 330, 6, 34))
DERMA_RATE, DERMA_BATCH = 3e-3, 56


def training(epochs, rate, batch_size):
    return aw.Training(aw.SOAP(rate, end_rate=END * rate), epochs, batch_size)


def gap_rate(epochs):
    return RATE * min(1.0, math.sqrt(200 / epochs))


def gap_single(chains, epochs, factor):
    return aw.Plan(aw.AE(training(epochs, factor * gap_rate(epochs), BATCH)), chains)


def gap_sequential(shape, walk, keep=True, shift=True):
    chains, first, members, later = shape
    rate = gap_rate(first)
    method = aw.SAE(
        training(first, rate, BATCH), training(later, rate, BATCH), walk, keep_optimizer=keep, shift_start=shift
    )
    return aw.Plan(method, chains, members)


def shown(shape):
    chains, first, members, later = shape
    return f"{chains} x ({first} + {members - 1} x {later})"


def gap_plans():
    """By name; what is looked at first stands first."""
    found = {}
    for step in reversed(STEPS):
        for keep, shift in itertools.product((True, False), (True, False)):
            parts = [f"step {step:g}", *["kept"] * keep, *["shifted"] * shift]
            found[f"{shown(SHAPE)}, {', '.join(parts)}"] = gap_sequential(SHAPE, aw.GuidedWalk(step), keep, shift)
    for (chains, epochs), factor in itertools.product(SINGLES, FACTORS):
        found[f"{chains} x {epochs}, rate x {factor:g}"] = gap_single(chains, epochs, factor)
    for shape in SHAPES:
        found[f"{shown(shape)}, step 1, kept, shifted"] = gap_sequential(shape, aw.GuidedWalk(1.0))
    found[f"{shown(SHAPE)}, independent, kept, shifted"] = gap_sequential(SHAPE, aw.Independent())
    return found


def derma_plans():
    first, then = training(20, DERMA_RATE, DERMA_BATCH), training(10, DERMA_RATE, DERMA_BATCH)
    found = {"10 x 20": aw.Plan(aw.AE(first), 10)}
    for keep_and_shift in (True, False):
        method = aw.SAE(first, then, aw.GuidedWalk(1.0), keep_optimizer=keep_and_shift, shift_start=keep_and_shift)
        name = "2 x (20 + 8 x 10), step 1" + ", kept, shifted" * keep_and_shift
        found[name] = aw.Plan(method, 2, 9)
    return found


def add(path, case, name, plan, runs):
    about = {"kind": "sequential", "command": "make sequential", "task": case.task, **case.variant.chosen, "seed": 0}
    about |= {"floor": case.reference.floor, **records.environment(), "label": case.label, "place": name}
    about |= {"epochs": plan.epochs, "members": plan.total, "chains": plan.chains, "runs": runs}
    records.append(path, {"name": f"{case.label}: {name}", **about})


def seen(case, posterior):
    """Scores, and what is seen inside of a run."""
    seconds = float(np.sum([info.seconds for info in posterior.infos]))
    about = {"diverged": posterior.diverged, "seconds": round(seconds, 2)}
    return scores_of(case, posterior) | inside_of(case, posterior) | about


def run_gap(path, split):
    case, done = open_case("uci_gap", Variant(split=split)), records.read(path)
    for name, plan in gap_plans().items():
        if f"{case.label}: {name}" in done:
            continue
        keys = [jax.random.fold_in(jax.random.key(0), run) for run in range(GAP_RUNS)]
        runner = aw.Local(threads=1, lanes=min(40, GAP_RUNS * plan.chains))
        found = aw.sample_many(keys, case.problem, plan, runner=runner, callbacks=[])
        runs = [seen(case, posterior) for posterior in found]
        add(path, case, name, plan, runs)
        print(case.label, name, "median w1", np.median([one["w1"] for one in runs]).round(4), flush=True)


def run_derma(path, runs_folder):
    case, done = open_case("dermamnist", Variant(pixels="raw", test_rows=1000)), records.read(path)
    for number, (name, plan) in enumerate(derma_plans().items()):
        if f"{case.label}: {name}" in done:
            continue
        posterior = aw.sample(jax.random.key(0), case.problem, plan, store=runs_folder / str(number), callbacks=[])
        add(path, case, name, plan, [seen(case, posterior)])
        print(case.label, name, scores_of(case, posterior), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=["uci_gap", "dermamnist"])
    parser.add_argument("--split", type=int, nargs="*", default=GAP_SPLITS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=Path("runs/sequential"))
    arguments = parser.parse_args()
    aw.cache_programs()
    if "uci_gap" in arguments.task:
        for split in arguments.split:
            run_gap(arguments.out, split)
    if "dermamnist" in arguments.task:
        run_derma(arguments.out, arguments.runs)


if __name__ == "__main__":
    main()
