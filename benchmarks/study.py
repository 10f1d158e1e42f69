"""What the walk and moved targets change on uci_gap: `make study` writes results/study-uci_gap-split*.json.

The paper's plans of SAE with other walks and steps than the authors', at every budget; AE and SAE with targets
moved by draws of the noise; and, for a few runs of AE, SAE and the planned ensemble, how far members are from their
optima and how predictions vary within and between chains. A cell that is recorded is not run again.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import jax

import anchorwalk as aw
from anchorwalk.benchmarks import BUDGETS, METHODS, Variant, open_case, records
from anchorwalk.benchmarks.methods import Anchored
from anchorwalk.benchmarks.scores import score
from anchorwalk.benchmarks.tasks.uci_gap import REFERENCED

RESULTS = Path(__file__).parent.parent / "results"
RUNS = 20
STEPS = (0.05, 0.1, 0.2, 0.5)
WALKS = {"guided": aw.GuidedWalk, "autoregressive": aw.Autoregressive, "rotation": aw.Rotation}
KEPT = ("w1", "w2", "spread", "nll", "crps", "coverage_90")
INSIDE = ("loss_first", "loss_later", "gradient_first", "gradient_later", "spread_within", "spread_between")
INSIDE_RUNS = 5


def with_walk(walk):
    return lambda case, budget: (METHODS["sae"].choose(case, budget)[0], walk)


def methods():
    """By name: what is run, beside the paper's own AE and SAE, which have records already."""
    found = {
        f"{name} {step:g}": Anchored(name, with_walk(walk(step_size=step)))
        for name, walk in WALKS.items()
        for step in STEPS
    }
    found["independent"] = Anchored("independent", with_walk(aw.Independent()))
    for name in ("ae", "sae"):
        found[f"{name} perturbed"] = Anchored(name, METHODS[name].choose, perturb_targets=True)
    return found


def cell(case, method, budget, runs):
    root, found = jax.random.key(0), []
    together = method.together(case, budget)
    for start in range(0, runs, together):
        keys = [jax.random.fold_in(root, run) for run in range(start, min(start + together, runs))]
        for posterior in method.run(keys, case, budget, None, True):
            scores = score(case, posterior).scores
            found.append({name: float(f"{scores[name]:.6g}") for name in KEPT})
    return found


def evaluated(choose):
    """The same plan, with the loss and its gradient on all the data after each training."""

    def chosen(case, budget):
        plan, walk = choose(case, budget)
        then = plan.then and replace(plan.then, evaluate=True)
        return replace(plan, first=replace(plan.first, evaluate=True), then=then), walk

    return chosen


def inside(case, name, budget):
    """What is seen in a few runs: the anchored loss and gradient, and the variation of predicted means."""
    method = Anchored(name, evaluated(METHODS[name].choose))
    keys = [jax.random.fold_in(jax.random.key(0), run) for run in range(INSIDE_RUNS)]
    found = [posterior.diagnose(case.x_test) for posterior in method.run(keys, case, budget, None, True)]
    return [{part: float(f"{getattr(one, part):.6g}") for part in INSIDE} for one in found]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--split", type=int, nargs="*", default=REFERENCED)
    parser.add_argument("--budget", type=int, nargs="*", default=BUDGETS)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    for part in (look_inside, run_cells):  # the short one first
        for split in arguments.split:
            path = arguments.out / f"study-uci_gap-split{split}.json"
            record = json.loads(path.read_text()) if path.exists() else {"kind": "study", "cells": {}, "inside": {}}
            part(open_case("uci_gap", Variant(split=split)), record, path, arguments)


def look_inside(case, record, path, arguments):
    for budget in arguments.budget:
        for name in ("ae", "sae", "planned"):
            place = f"{name}, {budget}"
            if place not in record.setdefault("inside", {}):
                record["inside"][place] = inside(case, name, budget)
                save(path, record, case)
                print(case.label, "inside", place, flush=True)


def run_cells(case, record, path, arguments):
    for budget in arguments.budget:
        for name, method in methods().items():
            place = f"{name}, {budget}"
            if len(record["cells"].get(place, [])) >= arguments.runs:
                continue
            record["cells"][place] = cell(case, method, budget, arguments.runs)
            save(path, record, case)
            w1 = sorted(one["w1"] for one in record["cells"][place])
            print(case.label, place, "median w1", round(w1[len(w1) // 2], 4), flush=True)


def save(path, record, case):
    about = {"task": "uci_gap", "split": case.variant.split, "seed": 0, "floor": case.reference.floor}
    record |= {"command": "make study", **about, **records.surroundings()}
    records.save(path, record)


if __name__ == "__main__":
    main()
