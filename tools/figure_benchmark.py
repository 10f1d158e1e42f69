"""The figure of docs/benchmark.md, from the records: W1 to the reference by budget."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

from anchorwalk.benchmark.losses import COLOURS
from anchorwalk.benchmark.paper import BUDGETS
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from pages import ROOT, benchmark, load

PLAIN = matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}")
LINES = (
    (-0.22, "ae", "AE, paper's plan"),
    (0, "sae", "SAE, paper's plan"),
    (0.22, "planned", "planned"),
)
FEATURES = {0: "relative compactness", 1: "surface area", 5: "orientation", 6: "glazing area"}


def main():
    found = Table(benchmark())
    figure, axes = plt.subplots(1, len(REFERENCED), figsize=(11, 3.6), layout="constrained")
    for axis, split in zip(axes, REFERENCED, strict=True):
        for shift, method, title in LINES:
            medians = []
            for place, budget in enumerate(BUDGETS):
                w1 = np.array(found.values("uci_gap", method, budget, "w1", Variant(split=split)))
                spots = place + shift + np.linspace(-0.07, 0.07, len(w1))
                axis.scatter(spots, np.sort(w1), s=5, color=COLOURS[method], alpha=0.35, linewidths=0)
                medians.append(np.median(w1))
            places = np.arange(len(BUDGETS)) + shift
            axis.plot(places, medians, color=COLOURS[method], marker="o", markersize=5, linewidth=1.3, label=title)
        floor = load("reference-uci_gap", f"uci_gap-split{split}")["floor"]["w1"]
        axis.axhline(floor, color="0.35", linewidth=1, linestyle=(0, (4, 3)), label="reference's own halves")
        axis.set_xlim(-0.5, 3.5)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(PLAIN)
        axis.yaxis.set_minor_formatter(PLAIN)
        axis.yaxis.set_minor_locator(matplotlib.ticker.LogLocator(subs=(2, 5)))
        axis.tick_params(axis="y", which="minor", labelsize=8)
        axis.set_xticks(range(len(BUDGETS)), [f"{budget:,}" for budget in BUDGETS], fontsize=8)
        axis.set_title(f"split {split}: {FEATURES[split]}", fontsize=9, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(axis="y", labelsize=8)
        axis.set_xlabel("budget (epochs)", fontsize=8)
    axes[0].set_ylabel("W1 to the reference posterior", fontsize=9)
    axes[REFERENCED.index(5)].legend(frameon=False, fontsize=8, loc="center left")  # nothing else is there
    figure.savefig(ROOT / "docs/figures/uci_gap.png", dpi=160)


if __name__ == "__main__":
    main()
