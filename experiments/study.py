"""What walks, moved targets and the number of chains change: `make study` appends to results/study-*.jsonl.

On uci_gap: the paper's plans of SAE with other walks and steps than the authors', at every budget; AE and SAE with
targets moved by draws of the noise; every number of chains that might share a budget, one member each; AE's plan of
1000 epochs with other optimisers, rates and batches than the authors'; and, for a few runs of AE, SAE and the planned
ensemble, how far members are from their optima, how well they fit and how predictions vary within and between chains.
On dermamnist: AE, and SAE with the guided walk's steps, at 200 epochs, scores and the inside of a run at once, and what
it changes when pixels are off by a few levels. A cell that is recorded is not run again.
"""

import argparse
import itertools
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import BUDGETS, METHODS, Variant, open_case, records
from anchorwalk.benchmark.methods import Entry
from anchorwalk.benchmark.references.references import distances
from anchorwalk.benchmark.scores import score
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED

RESULTS = Path(__file__).parent.parent / "results"
RUNS = {"uci_gap": 20, "dermamnist": 1}
STEPS = (0.05, 0.1, 0.2, 0.5)
WALKS = {"guided": aw.GuidedWalk, "autoregressive": aw.Autoregressive, "rotation": aw.Rotation}
KEPT = {
    "uci_gap": ("w1", "w2", "spread", "nll", "crps", "coverage_90"),
    "dermamnist": ("agreement", "total_variation", "accuracy", "nll", "confidence"),
}
INSIDE = ("loss_first", "loss_later", "gradient_first", "gradient_later", "spread_within", "spread_between")
INSIDE_RUNS = 5
CHAINS = (1, 2, 3, 4, 6, 10, 20, 50)
SHARED = (1000, 10_000)
OPTIMIZERS = {"Adam": aw.Adam, "Lion": aw.Lion}
RATES = (0.001, 0.003, 0.01)
BATCHES = (58, 16, 8)
END = 0.005
"""The last rate, as a share of the first, with all of them."""
LEVELS = (1, 2, 4)


def changed(choose, **settings):
    """The same plan with other settings of its method."""

    def chosen(case, budget):
        plan = choose(case, budget)
        return replace(plan, method=replace(plan.method, **settings))

    return chosen


def with_walk(walk):
    return changed(METHODS["sae"].choose, walk=walk)


def shared_by(chains):
    def choose(case, budget):
        first = case.settings.training("first", budget // chains, case.problem.n)
        return aw.Plan(aw.AE(first), chains)

    return Entry(f"{chains} chains", choose)


def optimized(kind, rate, batch_size):
    def choose(case, budget):
        first = METHODS["ae"].choose(case, budget).method.training
        first = replace(first, optimizer=OPTIMIZERS[kind](rate, end_rate=END * rate), batch_size=batch_size)
        return aw.Plan(aw.AE(first), budget // first.epochs)

    return Entry("ae", evaluated(choose))


def gap_methods(budget):
    """By name: what is run, beside the paper's own AE and SAE, which have records already."""
    found = {f"{chains} chains": shared_by(chains) for chains in CHAINS} if budget in SHARED else {}
    found |= {
        f"{name} {step:g}": Entry(name, with_walk(walk(step_size=step)))
        for name, walk in WALKS.items()
        for step in STEPS
    }
    found["independent"] = Entry("independent", with_walk(aw.Independent()))
    for name in ("ae", "sae"):
        found[f"{name} perturbed"] = Entry(name, changed(METHODS[name].choose, perturb_targets=True))
    return found


def derma_methods():
    found = {}
    for step in STEPS:
        found[f"guided {step:g}"] = Entry("guided", evaluated(with_walk(aw.GuidedWalk(step_size=step))))
    return found | {"ae": Entry("ae", evaluated(METHODS["ae"].choose))}


def evaluated(choose):
    """The same plan, with the loss and its gradient on all the data after each training."""

    def chosen(case, budget):
        plan = choose(case, budget)
        if isinstance(plan.method, aw.SAE):
            return replace(plan, method=plan.method.evaluating(True))
        return replace(plan, method=replace(plan.method, training=replace(plan.method.training, evaluate=True)))

    return chosen


def posteriors(case, method, budget, runs):
    root = jax.random.key(0)
    together = method.together(case, budget)
    for start in range(0, runs, together):
        keys = [jax.random.fold_in(root, run) for run in range(start, min(start + together, runs))]
        yield from method.run(keys, case, budget, None, True)


def scores_of(case, posterior):
    scores = score(case, posterior).scores
    return records.rounded({name: scores[name] for name in KEPT[case.task]})


def inside_of(case, posterior):
    """What is seen in a run: the anchored loss and gradient, the fit, and the variation of predicted means."""
    found = posterior.diagnose(case.x_test)
    return records.rounded({part: getattr(found, part) for part in INSIDE} | fits_of(case, posterior))


def fits_of(case, posterior):
    """The data's part of the loss: mean negative log-likelihood of training rows under members, in nats a row."""
    good = [info for info in posterior.infos if info.good]
    data = case.problem.data
    passes = posterior.passes("study", good, data.x, None)
    fits = np.array([-np.mean(posterior.likelihood.log_prob(outputs, data.y)) for _, outputs in passes.outputs()])
    first = np.array([info.index == 0 for info in good])
    return {"fit_first": fits[first].mean(), "fit_later": fits[~first].mean() if not first.all() else np.nan}


def pixels_off(case, posterior):
    """By how many levels of 255 pixels are off (standard deviation): scores then, and how far predictions moved."""
    rng = np.random.default_rng(0)
    rows = case.reference.rows
    x = np.asarray(case.x_test[:rows])
    plain = posterior.predict(x).probabilities
    found = {}
    for level in LEVELS:
        moved = posterior.predict((x + rng.normal(0, level / 255, x.shape)).astype(x.dtype)).probabilities
        own = {f"own_{name}": value for name, value in distances("probabilities", moved, plain).items()}
        found[str(level)] = records.rounded(case.reference.compare(moved) | own)
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--task", nargs="*", choices=list(RUNS), default=list(RUNS))
    parser.add_argument("--split", type=int, nargs="*", default=REFERENCED)
    parser.add_argument("--budget", type=int, nargs="*", default=BUDGETS)
    parser.add_argument("--runs", type=int)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    aw.cache_programs()
    if "uci_gap" in arguments.task:
        for part in (look_inside, try_optimizers, run_gap):  # the short ones first
            for split in arguments.split:
                case = open_case("uci_gap", Variant(split=split))
                part(case, Study(case, arguments.out), arguments)
    if "dermamnist" in arguments.task and 200 in arguments.budget:
        case = open_case("dermamnist", Variant())
        run_derma(case, Study(case, arguments.out), arguments)


class Study:
    """The cells of a case, as far as they are recorded: runs by section and place."""

    def __init__(self, case, folder):
        self.case, self.path = case, folder / f"study-{case.task}.jsonl"
        self.names = {name: record["runs"] for name, record in records.read(self.path).items()}

    def runs(self, section, place):
        """What is recorded of a cell."""
        return self.names.get(self._name(section, place), [])

    def add(self, section, place, runs):
        case = self.case
        about = {"kind": "study", "command": "make study", "task": case.task, **case.variant.chosen, "seed": 0}
        about |= {"floor": case.reference.floor, **records.environment()}
        about |= {"label": case.label, "section": section, "place": place, "runs": runs}
        records.append(self.path, {"name": self._name(section, place), **about})

    def _name(self, section, place):
        return f"{self.case.label}: {section}, {place}"


def look_inside(case, study, arguments):
    for budget in arguments.budget:
        for name in ("ae", "sae", "planned"):
            place = f"{name}, {budget}"
            if not all("fit_first" in one for one in study.runs("inside", place) or [{}]):
                method = Entry(name, evaluated(METHODS[name].choose))
                found = posteriors(case, method, budget, INSIDE_RUNS)
                study.add("inside", place, [inside_of(case, posterior) for posterior in found])


def try_optimizers(case, study, arguments):
    """Every run's W1 and mean loss on all rows, of AE with the paper's plan of 1000 epochs."""
    for kind, rate, batch_size in itertools.product(OPTIMIZERS, RATES, BATCHES):
        place = f"{kind} {rate:g}, {batch_size}"
        if not study.runs("optimizers", place):
            found = [
                records.rounded({"w1": score(case, one).scores["w1"], "loss": one.diagnose(case.x_test).loss_first})
                for one in posteriors(case, optimized(kind, rate, batch_size), 1000, arguments.runs or RUNS["uci_gap"])
            ]
            study.add("optimizers", place, found)
            print(case.label, place, found[0], flush=True)


def run_gap(case, study, arguments):
    runs = arguments.runs or RUNS["uci_gap"]
    for budget in arguments.budget:
        for name, method in gap_methods(budget).items():
            place = f"{name}, {budget}"
            if len(study.runs("cells", place)) < runs:
                found = [scores_of(case, posterior) for posterior in posteriors(case, method, budget, runs)]
                study.add("cells", place, found)
                w1 = sorted(one["w1"] for one in found)
                print(case.label, place, "median w1", round(w1[len(w1) // 2], 4), flush=True)


def run_derma(case, study, arguments):
    runs = arguments.runs or RUNS["dermamnist"]
    for name, method in derma_methods().items():
        place = f"{name}, 200"
        if len(study.runs("cells", place)) < runs:
            found = list(posteriors(case, method, 200, runs))
            study.add("inside", place, [inside_of(case, posterior) for posterior in found])
            study.add("pixels", place, [pixels_off(case, posterior) for posterior in found])
            study.add("cells", place, [scores_of(case, posterior) for posterior in found])  # last: it says "done"


if __name__ == "__main__":
    main()
