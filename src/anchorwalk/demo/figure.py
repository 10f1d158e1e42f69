"""The figure of the main job: intervals against the truth, inside the gap and outside."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk.demo.energy import COVERAGE, Result, Score

INK, BAND, HIT, MISS = "#1f2933", "#9db8d9", "#1d4e89", "#d1495b"


def draw(results: Sequence[Result], path: Path) -> None:
    """Draw one row of panels for each ensemble and save it; the ending of the name decides the format."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        len(results), 2, figsize=(10, 3.1 * len(results)), squeeze=False, sharey=True, width_ratios=(1, 2.2),
        layout="constrained",
    )  # fmt: skip
    for line, result in zip(axes, results, strict=True):
        _panel(line[0], result, "outside", result.outside)
        _panel(line[1], result, "gap", result.gap)
        line[0].set_ylabel("heating load (kWh/m²)")
    for axis in axes[-1]:
        axis.set_xlabel("test rows, in the order of their true load")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _panel(axis: Any, result: Result, part: str, score: Score) -> None:
    y, _, low, high = result.intervals[part][:, np.argsort(result.intervals[part][0], kind="stable")]
    rank = np.arange(len(y))
    inside = (low <= y) & (y <= high)
    axis.vlines(rank, low, high, color=BAND, linewidth=max(1.2, 170 / len(y)), label=f"{COVERAGE:.0%} interval")
    axis.plot(rank[inside], y[inside], ".", color=HIT, markersize=4, label="truth inside it")
    axis.plot(rank[~inside], y[~inside], "x", color=MISS, markersize=5, label="truth outside it")
    where = "inside the gap" if part == "gap" else "outside the gap"
    axis.set_title(
        f"{result.method}, {result.members} members, {where}: {score.coverage:.0%} covered",
        fontsize=10,
        loc="left",
        color=INK,
    )
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(x=0.01)
