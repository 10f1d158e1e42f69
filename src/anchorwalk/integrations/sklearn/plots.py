"""Plots of the estimators, with matplotlib."""

from typing import Any

import numpy as np
from sklearn.calibration import CalibrationDisplay

from anchorwalk import checks
from anchorwalk.types import HostArray

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#6b7785"
MOST_ROWS = 300
"""Rows that are drawn one by one; of more, so many are drawn, evenly spaced."""
BINS = 10


def axes(ax: Any) -> Any:
    """The axes that were given, or new ones."""
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("plot needs matplotlib: pip install 'anchorwalk[plot]'") from error
    return pyplot.subplots(layout="constrained")[1] if ax is None else ax


def losses(curve: HostArray, ax: Any) -> Any:
    """The loss in each epoch."""
    ax = axes(ax)
    ax.plot(np.arange(1, len(curve) + 1), curve, color=BLUE, linewidth=1)
    ax.set(xlabel="epoch of a chain", ylabel="loss (nats a row)")
    return ax


def intervals(x: Any, y: Any, mean: HostArray, low: HostArray, high: HostArray, coverage: float, ax: Any) -> Any:
    """Means and intervals: along the feature where there is one that is a number or a date, else row by row."""
    ax, truth = axes(ax), None if y is None else np.asarray(y, np.float64)
    if truth is not None and truth.shape != mean.shape:
        checks.reject("plot(y=)", f"shape {truth.shape}", f"shape {mean.shape}", "Pass the target of each row.")
    feature = np.asarray(x)[:, 0] if np.ndim(x) == 2 and np.shape(x)[1] == 1 else np.array("none")
    line = feature.dtype.kind in "biufM"
    order = np.argsort(feature if line else mean if truth is None else truth, kind="stable")
    if not line:
        order = order[np.linspace(0, len(order) - 1, min(len(order), MOST_ROWS)).round().astype(int)]
    place = feature[order] if line else np.arange(len(order))
    name = f"{coverage:.0%} interval"
    if line:
        ax.fill_between(place, low[order], high[order], color=BLUE, alpha=0.2, linewidth=0, label=name)
        ax.plot(place, mean[order], color=BLUE, label="mean")
    else:
        ax.vlines(place, low[order], high[order], color=BLUE, alpha=0.35, label=name)
        ax.plot(place, mean[order], "_", color=BLUE, label="mean")
    if truth is not None:
        inside = ((low <= truth) & (truth <= high))[order]
        ax.plot(place[inside], truth[order][inside], ".", color=GREY, markersize=4, label="truth, inside")
        ax.plot(place[~inside], truth[order][~inside], "x", color=ORANGE, markersize=5, label="truth, outside")
    if feature.dtype.kind == "M":
        from matplotlib import dates

        short: Any = dates.ConciseDateFormatter  # matplotlib's has no types
        ax.xaxis.set_major_formatter(short(ax.xaxis.get_major_locator()))
    by = "mean" if truth is None else "truth"
    label = str(x.columns[0]) if hasattr(x, "columns") else "feature"
    ax.set(xlabel=label if line else f"rows, in the order of their {by}", ylabel="target")
    ax.legend()
    return ax


def confidence(top: HostArray, right: HostArray | None, ax: Any) -> Any:
    """How probable the predicted classes are; with the truth, how often they are right (scikit-learn's display)."""
    ax = axes(ax)
    if right is None:
        ax.hist(top, np.linspace(0, 1, 2 * BINS + 1), color=BLUE)
        ax.set(xlabel="probability of the predicted class", ylabel="rows")
        return ax
    CalibrationDisplay.from_predictions(right, top, n_bins=BINS, pos_label=True, ax=ax, name="predictions", color=BLUE)
    ax.set(xlabel="probability of the predicted class", ylabel="share that is right")
    return ax
