"""Do chains of short trainings pay? `make sequential` appends to results/sequential.jsonl.

SOAP throughout, with bases renewed every 32 steps unless a plan's name says otherwise. Plans of one member a chain, at
several rates, stand beside sequential plans of the same epochs: with and without the optimiser's state handed on
(`keep_optimizer`) and the start moved with the anchor (`shift_start`), with steps of the walk from 0.05 to 1, and in
other shapes. On uci_gap ten runs of each, on dermamnist (the reference's first 1000 rows; pixels from 0 to 255, and
divided by 255) one. A cell that is recorded is not run again.
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
DERMA_SHAPE = (2, 20, 9, 10)
DERMA_SHAPES = ((1, 40, 9, 20), (4, 10, 9, 5), (1, 60, 6, 28))
DERMA_SINGLES = (
    *((5, 40, 1.0), (20, 10, 1.0), (10, 20, 1 / 3), (10, 20, 3.0)),
    *((5, 40, 1 / 3), (20, 10, 1 / 3), (10, 20, 0.1), (3, 66, 1.0)),
)
DERMA_LONG = ((10, 20, 9, 10), (5, 40, 9, 20))
DERMA_MANY = ((50, 20), (25, 40))


def training(epochs, rate, batch_size, refresh=32):
    return aw.Training(aw.SOAP(rate, end_rate=END * rate, refresh=refresh), epochs, batch_size)


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


def derma_training(epochs, factor, refresh):
    return training(epochs, factor * DERMA_RATE, DERMA_BATCH, refresh)


def derma_single(chains, epochs, factor=1.0, refresh=10):
    name = f"{chains} x {epochs}" + f", rate x {factor:.2g}" * (factor != 1)
    return {_renewed(name, refresh): aw.Plan(aw.AE(derma_training(epochs, factor, refresh)), chains)}


def derma_sequential(shape, step=1.0, keep=True, shift=True, refresh=10):
    chains, first, members, later = shape
    trainings = [derma_training(epochs, 1.0, refresh) for epochs in (first, later)]
    method = aw.SAE(*trainings, aw.GuidedWalk(step), keep_optimizer=keep, shift_start=shift)
    parts = [shown(shape), f"step {step:g}", *["kept"] * keep, *["shifted"] * shift]
    return {_renewed(", ".join(parts), refresh): aw.Plan(method, chains, members)}


def _renewed(name, refresh):
    return name if refresh == 32 else f"{name}, bases every {refresh} steps"


def derma_plans(budget):
    """By name; what is looked at first stands first."""
    found = {}
    if budget == 1000:
        for shape, (chains, epochs) in zip(DERMA_LONG, DERMA_MANY, strict=True):
            found |= derma_sequential(shape) | derma_single(chains, epochs)
        return found
    found |= derma_single(10, 20) | derma_sequential(DERMA_SHAPE)
    for chains, epochs, factor in DERMA_SINGLES:
        found |= derma_single(chains, epochs, factor)
    for shape in DERMA_SHAPES:
        found |= derma_sequential(shape)
    found |= derma_sequential(DERMA_SHAPE, 0.3)
    for keep, shift in ((False, False), (True, False), (False, True)):
        found |= derma_sequential(DERMA_SHAPE, 1.0, keep, shift)
    for refresh in (32, 5):  # how often the bases are renewed
        found |= derma_single(10, 20, refresh=refresh) | derma_sequential(DERMA_SHAPE, refresh=refresh)
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


def run_derma(path, runs_folder, pixels, budget):
    case, done = open_case("dermamnist", Variant(pixels=pixels, test_rows=1000)), records.read(path)
    for name, plan in derma_plans(budget).items():
        if f"{case.label}: {name}" in done:
            continue
        folder = runs_folder / f"{case.label} {name}".translate(str.maketrans(" ,", "__", "()"))
        posterior = aw.sample(
            jax.random.key(0), case.problem, plan, runner=aw.Local(threads=1, lanes=1), store=folder, callbacks=[]
        )
        add(path, case, name, plan, [seen(case, posterior)])
        print(case.label, name, scores_of(case, posterior), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", default=["uci_gap", "dermamnist"])
    parser.add_argument("--split", type=int, nargs="*", default=GAP_SPLITS)
    parser.add_argument("--pixels", nargs="*", default=["raw", "unit"])
    parser.add_argument("--budget", type=int, nargs="*", default=[200, 1000])
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--runs", type=Path, default=Path("runs/sequential"))
    arguments = parser.parse_args()
    aw.cache_programs()
    if "uci_gap" in arguments.task:
        for split in arguments.split:
            run_gap(arguments.out, split)
    if "dermamnist" in arguments.task:
        for budget, pixels in itertools.product(arguments.budget, arguments.pixels):
            run_derma(arguments.out, arguments.runs, pixels, budget)


if __name__ == "__main__":
    main()
