"""The figures of docs/paper_plans.md, from the records: W1 by loss and by number of chains, total variation by agreement."""

from statistics import median

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from anchorwalk.benchmark.losses import COLOURS
from anchorwalk.benchmark.paper import BUDGETS, FIGURES
from anchorwalk.benchmark.tables import Table
from anchorwalk.benchmark.tasks import Variant
from anchorwalk.benchmark.tasks.uci_gap import REFERENCED
from pages import ROOT, benchmark, load, study_of

TITLES = {"ae": "AE, paper's plan", "sae": "SAE, paper's plan"}
SHARED = {1000: "0.55", 10_000: "0.15"}
SCORED = ("agreement", "total_variation")
CLASSES = {
    "cifar10": ("CIFAR-10, ResNet-20", "argmin", None),
    "cifar10c": ("CIFAR-10-C, AlexNet", "argmin", None),
    "imdb": ("IMDB", "argmin", None),
    "dermamnist": ("DermaMNIST, as the authors ran it", "authors", Variant(pixels="raw")),
}
"""Tasks of classes: title, protocol and variant of our runs."""
PLAIN = matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}")


def w1(found, split, method, budget):
    values = found.values("uci_gap", method, budget, "w1", Variant(split=split))
    return median(values) if values else None


def reached(runs):
    """Mean loss of a run's members, later ones where there are any, the median over runs."""
    later = [one["loss_later"] for one in runs]
    return median(one["loss_first"] for one in runs) if later[0] != later[0] else median(later)


def panels():
    figure, axes = plt.subplots(1, len(REFERENCED), figsize=(11, 3.5), layout="constrained")
    for axis, split in zip(axes, REFERENCED, strict=True):
        axis.set_title(f"split {split}", fontsize=9, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
    axes[0].set_ylabel("W1 to the reference posterior", fontsize=9)
    return figure, dict(zip(REFERENCED, axes, strict=True))


def by_loss(found):
    figure, axes = panels()
    for split, axis in axes.items():
        inside = study_of(f"uci_gap-split{split}")["inside"]
        for method, title in TITLES.items():
            points = [
                (reached(inside[f"{method}, {budget}"]), w1(found, split, method, budget))
                for budget in BUDGETS
                if f"{method}, {budget}" in inside
            ]
            axis.plot(*zip(*points, strict=True), color=COLOURS[method], linewidth=0.8, alpha=0.5)
            sizes = [12, 24, 40, 75][: len(points)]
            axis.scatter(*zip(*points, strict=True), s=sizes, color=COLOURS[method], label=title, linewidths=0)
        axis.invert_xaxis()
        axis.set_ylim(0, 1.05 * axis.get_ylim()[1])
        axis.set_xlabel("anchored loss of members (nats a row)", fontsize=8)
    last = axes[REFERENCED[-1]]
    last.legend(frameon=False, fontsize=8, loc="lower left", title="larger: more epochs", title_fontsize=8)
    figure.savefig(ROOT / "docs/figures/losses_and_w1.png", dpi=160)


def by_chains(found):
    """Every number of chains that may share a budget, one member each."""
    figure, axes = panels()
    for split, axis in axes.items():
        cells = study_of(f"uci_gap-split{split}")["cells"]
        for budget, grey in SHARED.items():
            medians = {
                int(place.split()[0]): median(one["w1"] for one in runs)
                for place, runs in cells.items()
                if place.endswith(f" chains, {budget}")
            }
            points = sorted(medians.items())
            if points:
                axis.plot(*zip(*points, strict=True), color=grey, marker=".", linewidth=1.2, label=f"{budget:,} epochs")
        floor = load("reference-uci_gap", f"uci_gap-split{split}")["floor"]["w1"]
        axis.axhline(floor, color="0.35", linewidth=1, linestyle=(0, (4, 3)))
        axis.axhline(w1(found, split, "sae", 10_000), color=COLOURS["sae"], linewidth=1, linestyle=":")
        axis.set_xscale("log")
        axis.set_xticks([1, 2, 5, 10, 20, 50])
        axis.xaxis.set_major_formatter(PLAIN)
        axis.xaxis.set_minor_formatter(matplotlib.ticker.NullFormatter())
        axis.set_ylim(0)
        axis.set_xlabel("chains that share the budget", fontsize=8)
    handles, labels = axes[REFERENCED[-1]].get_legend_handles_labels()
    handles += [
        plt.Line2D([], [], color=COLOURS["sae"], linestyle=":"),
        plt.Line2D([], [], color="0.35", linestyle="--"),
    ]
    labels += ["SAE, paper's plan, 10,000", "reference's own halves"]
    figure.legend(handles, labels, frameon=False, fontsize=8, loc="outside lower center", ncols=len(labels))
    figure.savefig(ROOT / "docs/figures/chains.png", dpi=160)


def by_agreement(every):
    """AE's and SAE's total variation by agreement, one point a budget: the paper's, and ours where there are some."""
    figure, axes = plt.subplots(1, len(CLASSES), figsize=(11, 3.3), layout="constrained")
    for axis, (task, (title, protocol, variant)) in zip(axes, CLASSES.items(), strict=True):
        found = Table(every, protocol)
        for method in ("ae", "sae"):
            style = {"color": COLOURS[method], "linewidth": 1}
            paper = [[FIGURES[task, method, budget, score].median for score in SCORED] for budget in BUDGETS]
            axis.plot(*zip(*paper, strict=True), marker="o", markersize=4, label=f"{method.upper()}, paper", **style)
            values = [[found.values(task, method, budget, score, variant) for score in SCORED] for budget in BUDGETS]
            ours = [[median(score) for score in point] for point in values if point[0]]
            if ours:
                label = f"{method.upper()}, ours"
                marks = {"marker": "D", "markersize": 5, "markerfacecolor": "white", "linestyle": ":"}
                axis.plot(*zip(*ours, strict=True), label=label, **marks, **style)
        axis.set_title(title, fontsize=9, loc="left")
        axis.spines[["top", "right"]].set_visible(False)
        axis.tick_params(labelsize=8)
        axis.set_xlabel("agreement", fontsize=8)
    axes[0].set_ylabel("total variation", fontsize=9)
    axes[-1].legend(frameon=False, fontsize=8)
    figure.savefig(ROOT / "docs/figures/equal.png", dpi=160)


def main():
    every = benchmark()
    found = Table(every)
    by_loss(found)
    by_chains(found)
    by_agreement(every)


if __name__ == "__main__":
    main()
