"""What bfloat16 storage does to predictions: the same run stored exactly and rounded, on two tasks.

Command: `python experiments/rounding.py`; it appends to results/rounding.jsonl.
"""

import json
import tempfile
from pathlib import Path

import jax
import numpy as np

import anchorwalk as aw
from anchorwalk.benchmark import Variant, open_case, records
from anchorwalk.posterior.metrics import agreement, total_variation

ROOT = Path(__file__).parent.parent


def runs(case, plan):
    """The posterior of a run, and of the same run rounded; members are the same to the last bit before."""
    with tempfile.TemporaryDirectory() as folder:
        for name, dtype in (("exact", None), ("rounded", "bfloat16")):
            store = aw.DiskStore(Path(folder) / name, dtype)
            posterior = aw.sample(jax.random.key(0), case.problem, plan, store=store, callbacks=[aw.Progress(name)])
            yield posterior, sum(part.bytes for part in store.manifest.members)


def compare(task, variant, plan_of):
    case = open_case(task, variant)
    plan = plan_of(case)
    found = []
    for posterior, size in runs(case, plan):
        prediction = posterior.predict(case.x_test)
        classes = not hasattr(case.problem.likelihood, "cdf")
        values = prediction.probabilities if classes else np.stack([prediction.mean, prediction.std])
        found.append((np.asarray(values), size, len(posterior)))
    (exact, size, members), (rounded, half, _) = found
    about = {"task": case.label, "members": members, "rows": len(case.y_test), "bytes": size, "bytes_rounded": half}
    if classes:
        changes = {"agreement": agreement(exact, rounded), "total_variation": total_variation(exact, rounded)}
        changes["largest_change"] = float(np.max(np.abs(exact - rounded)))
    else:
        shift = np.abs(exact[0] - rounded[0]) / exact[1]
        changes = {"mean_shift_in_sds": float(shift.mean()), "largest_shift_in_sds": float(shift.max())}
        changes["mean_change_of_sd"] = float(np.mean(np.abs(rounded[1] / exact[1] - 1)))
    return about | {name: float(value) for name, value in changes.items()}


def uci(case):
    settings = case.settings
    trainings = settings.training("first", 100, case.problem.n), settings.training("then", 10, case.problem.n)
    return aw.Plan.paper("sae", 1000, *trainings, later_epochs=10)


def derma(case):
    settings = case.settings
    trainings = settings.training("first", 40, case.problem.n), settings.training("then", 2, case.problem.n)
    return aw.Plan(aw.SAE(*trainings), members=11)


def main():
    aw.cache_programs()
    found = [
        compare("uci_gap", Variant(split=5), uci),
        compare("dermamnist", Variant(rows=2000), derma),
    ]
    about = {"name": "rounding", "kind": "rounding", "command": "python experiments/rounding.py", "runs": found}
    records.append(ROOT / "results" / "rounding.jsonl", {**about, **records.environment()})
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
