"""The figure of the main job: intervals against the truth, inside the gap and outside."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk.app.demo.energy import COVERAGE, Result

INK, BAND, HIT, MISS = "#1f2933", "#9db8d9", "#1d4e89", "#d1495b"
PARTS = {"outside": "outside the gap", "gap": "inside the gap"}


def draw(results: Sequence[Result], path: Path, title: str) -> None:
    """Draw one row of panels for each ensemble and save it; the ending of the name decides the format."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    size = (10, 2.9 * len(results) + 0.6)
    figure, axes = plt.subplots(
        len(results), 2, figsize=size, squeeze=False, sharey=True, width_ratios=(1, 2), layout="constrained"
    )
    for line, result in zip(axes, results, strict=True):
        for axis, part in zip(line, PARTS, strict=True):
            _panel(axis, result, part)
        line[0].set_ylabel(f"{result.method}, {result.members} members\nheating load (kWh/m²)")
    for axis in axes[-1]:
        axis.set_xlabel("test rows, in the order of their true load")
    figure.suptitle(title, fontsize=11, color=INK, x=0.01, ha="left")
    handles, labels = axes[0][1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(axis: Any, result: Result, part: str) -> None:
    values = result.intervals[part]
    y, low, high = values[:, np.argsort(values[0], kind="stable")]
    rank = np.arange(len(y))
    inside = (low <= y) & (y <= high)
    axis.vlines(rank, low, high, color=BAND, linewidth=max(1.5, 170 / len(y)), label=f"{COVERAGE:.0%} interval")
    axis.plot(rank[inside], y[inside], ".", color=HIT, markersize=3, label="truth inside it")
    axis.plot(rank[~inside], y[~inside], "x", color=MISS, markersize=4, label="truth outside it")
    share = f"{PARTS[part]}: {result.scores[part].coverage:.0%} covered"
    axis.set_title(share, fontsize=10, loc="left", color=INK)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
