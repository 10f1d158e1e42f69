"""The figure of docs/closer.md, from the records: distance to the reference by epochs. Command: `make figures`."""

from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from anchorwalk.benchmark.losses import COLOURS
from anchorwalk.benchmark.paper import BUDGETS, FIGURES
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from closer_page import GOOD, floor, former, w1
from pages import ROOT, benchmark

GREY = "0.6"
PLAIN = matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}")


def line(axis, points, colour, title, **style):
    points = {budget: value for budget, value in points.items() if value is not None}
    axis.plot(points.keys(), points.values(), color=colour, marker="o", markersize=5, label=title, **style)


def medians(values):
    return {budget: median(found) if (found := values(budget)) else None for budget in BUDGETS}


def gap(axis, found, split):
    lines = [("ae", found, COLOURS["ae"], "AE, paper's plan"), ("sae", found, COLOURS["sae"], "SAE, paper's plan")]
    lines += [("planned", former(), GREY, "planner of version 0.1"), ("planned", found, COLOURS["planned"], "plan_for")]
    for method, table, colour, title in lines:
        line(axis, medians(lambda budget, t=table, m=method: w1(t, split, m, budget)), colour, title)
    axis.axhline(floor(split), color="0.35", linewidth=1, linestyle=(0, (4, 3)), label="halves of the reference")
    axis.set_yscale("log")
    axis.yaxis.set_major_formatter(PLAIN)
    axis.yaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
    axis.set_yticks([0.005, 0.01, 0.02, 0.05, 0.1])
    axis.set_ylim(0.003)
    axis.set_title(f"UCI-Gap, split {split}: W1, less is better", fontsize=9, loc="left")


def derma(axis, found):
    for method in ("ae", "sae"):
        paper = {budget: FIGURES["dermamnist", method, budget, "agreement"].median for budget in BUDGETS}
        line(axis, paper, COLOURS[method], f"{method.upper()} in the paper")
    ours = medians(lambda b: found.values("dermamnist", "planned", b, "agreement", Variant(pixels="raw")))
    line(axis, ours, COLOURS["planned"], "plan_for")
    axis.set_title("DermaMNIST: agreement, more is better", fontsize=9, loc="left")


def main():
    found = Table(benchmark())
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained")
    for axis, split in zip(axes, GOOD, strict=False):
        gap(axis, found, split)
    derma(axes[2], found)
    for axis in axes:
        axis.set_xscale("log")
        axis.set_xticks(BUDGETS, [f"{budget:,}" for budget in BUDGETS], fontsize=8)
        axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        axis.set_xlabel("epochs", fontsize=8)
        axis.tick_params(labelsize=8)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].legend(frameon=False, fontsize=8, loc="lower left", bbox_to_anchor=(0, 0.08))
    axes[2].legend(frameon=False, fontsize=8, loc="lower right")
    figure.savefig(ROOT / "docs/figures/closer.png", dpi=160)


if __name__ == "__main__":
    main()
