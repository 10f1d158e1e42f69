"""The figure of docs/methods.md, from the records: distance to the reference by passes and by seconds: `make figures`."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from anchorwalk.benchmark.tables import TITLES
from methods_page import BUDGETS, DERMA, FIGURE, cells, middle, recorded
from pages import ROOT

PANELS = (
    *(("uci_gap-split5", "w1", "UCI-Gap, split 5: W1"), ("uci_gap-split6", "w1", "UCI-Gap, split 6: W1")),
    (DERMA, "total_variation", "DermaMNIST: total variation"),
)
COSTS = {"passes": "passes over the data", "seconds": "seconds"}
MARKS = "os^Dv<>PX*"


def draw(found):
    """Rows are costs, columns cases; a line for each method."""
    figure, axes = plt.subplots(2, len(PANELS), figsize=(12, 7.6), layout="constrained", squeeze=False)
    colours = plt.get_cmap("tab20").colors
    for column, (label, score, title) in enumerate(PANELS):
        for row, (cost, words) in enumerate(COSTS.items()):
            axis = axes[row][column]
            for place, name in enumerate(TITLES):
                all_of = [one for budget in BUDGETS if (one := cells(found, label, budget).get(name))]
                points = [(one[cost], value) for one in all_of if (value := middle(one, score)) is not None]
                if points:
                    style = {"color": colours[place % 20], "marker": MARKS[place % len(MARKS)], "markersize": 5}
                    axis.plot(*zip(*points, strict=True), linewidth=1, label=TITLES[name], **style)
            axis.set_xscale("log")
            axis.set_yscale("log")
            axis.set_xlabel(words)
            axis.set_title(f"{title}, less is better" if row == 0 else "", fontsize=9, loc="left")
    handles = {
        text: line for axis in axes.ravel() for line, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    if handles:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=7, fontsize=8, frameon=False)
    return figure


def main():
    found = recorded()
    if any(one["section"] == "table" for one in found):
        draw(found).savefig(ROOT / "docs" / FIGURE, dpi=110)


if __name__ == "__main__":
    main()
