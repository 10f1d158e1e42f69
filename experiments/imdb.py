"""Which prior made imdb's reference, and AE and SAE with it: `make imdb`.

One member of 30 epochs is trained with each prior, and the prior is chosen whose member is nearer to the reference
on every other row that it has; AE and SAE at 200 epochs are then scored on the remaining rows, too. What is
recorded is not run again; `--prior V` trains that prior's member alone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import Variant, open_case, records
from anchorwalk.benchmark.references.references import distances
from anchorwalk.benchmark.scores import score

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PRIORS = (1.0, 1 / 40)
EPOCHS, BUDGET = 30, 200


def halves(case, probabilities):
    """Scores on the rows that choose the prior (even ones), and on those that do not."""
    reference = case.reference.values
    found = {}
    for name, first in (("choosing", 0), ("scoring", 1)):
        part = slice(first, len(reference), 2)
        found[name] = records.rounded(distances("probabilities", probabilities[part], reference[part]))
    return found


def member(variance):
    """Train and record one member with this prior variance."""
    path, name = RESULTS / "prior-imdb.jsonl", f"{variance:g}"
    if name in (recorded := records.read(path)):
        return recorded[name]
    case = open_case("imdb", Variant(prior_variance=variance))
    training = case.settings.training("first", EPOCHS, case.problem.n)
    posterior = aw.sample(jax.random.key(0), case.problem, aw.Plan(aw.AE(training)))
    scored = score(case, posterior)
    record = {
        "name": name,
        "kind": "prior",
        "command": "make imdb",
        "task": "imdb",
        "prior_variance": variance,
        "epochs": EPOCHS,
        "first": repr(training),
        "seed": 0,
        "scores": records.rounded(scored.scores),
        "halves": halves(case, scored.predictions["probabilities"]),
        "seconds": round(sum(info.seconds for info in posterior.infos), 1),
        **records.environment(),
    }
    records.append(path, record)
    return record


def run(method, variance):
    """The benchmark's own command, and its predictions by halves."""
    arguments = ["benchmark", "run", "imdb", "--method", method, "--budget", str(BUDGET), "--save-predictions"]
    if variance != PRIORS[0]:
        arguments += ["--prior-variance", f"{variance:g}"]
    subprocess.run([sys.executable, "-m", "anchorwalk", *arguments], check=True, cwd=ROOT)
    case = open_case("imdb", Variant(prior_variance=variance))
    name = records.name_of(case.label, method, BUDGET, "argmin", 0, 0)
    with np.load(RESULTS / f"{name}.predictions.npz") as archive:
        return halves(case, archive["probabilities"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--prior", type=float, nargs="*", default=PRIORS)
    arguments = parser.parse_args()
    aw.cache_programs()
    members = [member(variance) for variance in arguments.prior]
    if len(members) < len(PRIORS):
        return
    best = min(members, key=lambda record: record["halves"]["choosing"]["total_variation"])["prior_variance"]
    found = {method: run(method, best) for method in ("ae", "sae")}
    about = {"name": "halves", "kind": "halves", "command": "make imdb", "task": "imdb"}
    about |= {"budget": BUDGET, "prior_variance": best, "halves": found}
    records.append(RESULTS / "halves-imdb.jsonl", {**about, **records.environment()})


if __name__ == "__main__":
    main()
