"""The figure of docs/closer.md, from the records of the study: W1 against the loss that members reach."""

import json
from pathlib import Path
from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from anchorwalk.benchmarks import records
from anchorwalk.benchmarks.losses import AE_COLOUR, SAE_COLOUR
from anchorwalk.benchmarks.tasks.uci_gap import REFERENCED

ROOT = Path(__file__).parent.parent.parent
BUDGETS = (200, 500, 1000, 10_000)
METHODS = {"ae": ("AE, paper's plan", AE_COLOUR), "sae": ("SAE, paper's plan", SAE_COLOUR)}
METHODS["planned"] = ("planned", "#3a7d44")


def reached(runs):
    """Mean loss of a run's members, later ones where there are any, the median over runs."""
    later = [one["loss_later"] for one in runs]
    return median(one["loss_first"] for one in runs) if later[0] != later[0] else median(later)


def main():
    found = [r for r in records.read_all(ROOT / "results") if r["task"] == "uci_gap" and r["protocol"] == "argmin"]
    figure, axes = plt.subplots(1, len(REFERENCED), figsize=(11, 3.5), layout="constrained")
    for axis, split in zip(axes, REFERENCED, strict=True):
        path = ROOT / f"results/study-uci_gap-split{split}.json"
        inside = json.loads(path.read_text()).get("inside", {}) if path.exists() else {}
        for method, (title, colour) in METHODS.items():
            points = []
            for budget in BUDGETS:
                at = ({"split": split}, method, budget)
                w1 = [r["scores"]["w1"] for r in found if (r["variant"], r["method"], r["budget"]) == at]
                if f"{method}, {budget}" in inside and w1:
                    points.append((reached(inside[f"{method}, {budget}"]), median(w1)))
            if points:
                axis.plot(*zip(*points, strict=True), color=colour, linewidth=0.8, alpha=0.5)
                sizes = [12, 24, 40, 75][: len(points)]
                axis.scatter(*zip(*points, strict=True), s=sizes, color=colour, label=title, linewidths=0)
        axis.set_title(f"split {split}", fontsize=9, loc="left")
        axis.invert_xaxis()
        axis.set_ylim(0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.set_xlabel("anchored loss of members (nats a row)", fontsize=8)
    axes[0].set_ylabel("W1 to the reference posterior", fontsize=9)
    axes[-1].legend(frameon=False, fontsize=8, loc="lower left", title="larger: more epochs", title_fontsize=8)
    figure.savefig(ROOT / "docs/figures/closer.png", dpi=160)


if __name__ == "__main__":
    main()
