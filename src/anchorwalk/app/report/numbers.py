"""Predictions of numbers: calibration of intervals, predictions against the truth, the parts of the variance."""

import math
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.app.report import style
from anchorwalk.app.report.data import MOST_FEATURES, ReportData
from anchorwalk.app.report.elements import Evidence, Section, Table
from anchorwalk.app.report.formatting import count, number, percent, plain, share_with_range, shown, spread_out, wilson
from anchorwalk.app.report.style import BAND, BLUE, INK, MUTED, ORANGE, Picture
from anchorwalk.likelihoods import OrderedLikelihood
from anchorwalk.posterior import metrics
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.types import Array, HostArray, Inputs

COVERAGE = 0.9
LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
MOST_BARS, MOST_POINTS, MOST_ROWS, MOST_TARGETS = 150, 1000, 10, 6
"""Intervals in a figure, points in a scatter plot, rows and targets in a table."""
DRAWS, MOST_DRAWN = 400, 40_000_000
"""Draws for the CRPS, and numbers that they may be in all."""


@dataclass(frozen=True)
class Target:
    """One target's predictions in its original unit, rows first.

    Attributes:
        name: What it is called.
        mean: Predicted mean.
        epistemic: Standard deviation over members of the mean.
        aleatoric: Root of the mean over members of the noise's variance.
        y: The truth, or None.
        below: P(Y < y), or None.
        upto: P(Y <= y), or None.
    """

    name: str
    mean: HostArray
    epistemic: HostArray
    aleatoric: HostArray
    y: HostArray | None
    below: HostArray | None
    upto: HostArray | None

    @property
    def std(self) -> HostArray:
        """Standard deviation of the prediction."""
        return np.hypot(self.epistemic, self.aleatoric)

    def inside(self, coverage: float = COVERAGE) -> HostArray:
        """Whether each row's central interval holds the truth."""
        assert self.below is not None
        assert self.upto is not None
        tail = (1 - coverage) / 2
        return np.asarray((self.upto >= tail) & (self.below < 1 - tail))


def section(posterior: Posterior, prediction: Prediction, data: ReportData, rows: HostArray) -> Section:
    """Everything a report says of predicted numbers.

    Args:
        posterior: Makes intervals of the few rows that are drawn.
        prediction: On the rows `rows` of the data.
        data: All rows.
        rows: Numbers of those that are predicted.
    """
    likelihood = posterior.likelihood
    assert isinstance(likelihood, OrderedLikelihood)
    scale, shift = units(prediction, data, not _whole(likelihood))
    targets = split(posterior, prediction, data, rows, scale, shift)
    one = targets[data.shown]
    most = np.argsort(-one.std, kind="stable")[:MOST_ROWS]
    drawn = spread_out(len(rows), MOST_BARS)
    few = np.union1d(most, drawn)
    ends = posterior.predict(data.take(rows[few])).interval(COVERAGE)
    flat = [end.reshape(len(few), -1)[:, data.shown] * scale[data.shown] + shift[data.shown] for end in ends]
    interval = {int(row): (low, high) for row, low, high in zip(few, *flat, strict=True)}
    pictures = [predictions(one, drawn, np.array([interval[int(row)] for row in drawn]))]
    if one.y is not None:
        pictures.insert(0, calibration(one, whole=_whole(likelihood)))
    if len(posterior) > 1:
        pictures.append(parts(one))
    scores, tiles = (None, []) if one.y is None else _scores(targets, prediction, data, rows, scale, one)
    evidence = None if one.y is None else _evidence(one, _whole(likelihood))
    return Section(_intro(targets, one), tiles, scores, pictures, _rows(one, rows, most, interval, data), evidence)


def units(prediction: Prediction, data: ReportData, real: bool) -> tuple[HostArray, HostArray]:
    """Unit and origin of each target.

    Raises:
        InvalidInput: Units that do not fit the targets, or of counts.
    """
    shape = prediction.mean.shape[1:]
    if not real and (np.any(np.asarray(data.scale) != 1) or np.any(np.asarray(data.shift) != 0)):
        checks.reject("ReportData(scale=)", "a unit", "none for counts", "Leave scale= and shift= out.")
    try:
        scale, shift = (np.broadcast_to(np.asarray(v, float), shape).ravel() for v in (data.scale, data.shift))
    except ValueError:
        given = f"shapes {np.shape(data.scale)} and {np.shape(data.shift)}"
        checks.reject("ReportData(scale=, shift=)", given, f"a number, or shape {shape}", "Pass one for each target.")
    return scale, shift


def split(
    posterior: Posterior, prediction: Prediction, data: ReportData, rows: HostArray, scale: HostArray, shift: HostArray
) -> list[Target]:
    """The predictions of each target by itself."""
    n = len(rows)
    mean, epistemic, aleatoric = (
        values.reshape(n, -1) for values in (prediction.mean, prediction.epistemic, prediction.aleatoric)
    )
    names = data.target_names(mean.shape[1])
    y = below = upto = None
    if data.y is not None:
        targets = np.asarray(data.y, np.float64)[rows]
        below, upto = (values.reshape(n, -1) for values in around(posterior, data.take(rows), targets))
        y = targets.reshape(n, -1) * scale + shift
    return [
        Target(
            name,
            mean[:, i] * scale[i] + shift[i],
            np.sqrt(epistemic[:, i]) * scale[i],
            np.sqrt(aleatoric[:, i]) * scale[i],
            None if y is None else y[:, i],
            None if below is None else below[:, i],
            None if upto is None else upto[:, i],
        )
        for i, name in enumerate(names)
    ]


def around(posterior: Posterior, x: Inputs, y: HostArray) -> tuple[HostArray, HostArray]:
    """P(Y < y) and P(Y <= y) of the mixture: one pass tells of every interval whether it holds the truth."""
    likelihood = posterior.likelihood
    assert isinstance(likelihood, OrderedLikelihood)
    before = likelihood.snap(np.nextafter(y, -np.inf))
    total: Any = 0.0
    passes = posterior.passes("report", [info for info in posterior.infos if info.good], x, None)
    for _, outputs in passes.outputs():
        with jax.enable_x64(True):  # in float32 the distribution function has too few steps near 1
            values = np.stack([before, y], axis=-1)
            total = total + np.asarray(_cdf(likelihood, np.asarray(outputs, np.float64), values))
    below, upto = np.moveaxis(total / passes.count, -1, 0)
    return np.where(before < y, below, 0.0), upto


@jax.jit
def _cdf(likelihood: OrderedLikelihood, outputs: Array, values: Array) -> Array:
    return likelihood.cdf(outputs, values)


def _whole(likelihood: OrderedLikelihood) -> bool:
    return float(likelihood.snap(np.array([0.5]))[0]) != 0.5


def calibration(one: Target, whole: bool) -> Picture:
    """Shares of rows whose intervals hold the truth, against what the intervals promise."""
    hits = np.array([one.inside(level).sum() for level in LEVELS])
    rows = len(one.mean)
    low, high = wilson(hits, rows)
    observed = hits / rows

    def body(figure: Any) -> None:
        axis = figure.subplots()
        axis.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="as promised")
        bars = [observed - low, high - observed]
        axis.errorbar(
            LEVELS, observed, bars, color=BLUE, marker="o", markersize=4, capsize=2.5, elinewidth=1.2, label="observed"
        )
        axis.set(xlabel="coverage that intervals promise", ylabel="share that holds the truth")
        axis.set(xlim=(0, 1), ylim=(0, 1.02))
        style.legend(figure, axis)

    at = int(one.inside().sum())
    words = f"Of the 90% intervals {share_with_range(at, rows)} hold the truth"
    words += _verdict(*wilson(at, rows))
    words += " Points below the line are intervals that are too narrow, above it too wide. Bars are binomial 95% ranges"
    words += ", with rows taken as independent."
    if whole:
        words += " Counts are whole, so that intervals hold somewhat more than they promise."
    return style.draw("calibration", "Do intervals hold what they promise?", words, body)


def _evidence(one: Target, whole: bool) -> Evidence:
    """How the intervals did, and which coverage holds what they promise."""
    rows, held = len(one.mean), int(one.inside().sum())
    levels = np.arange(0.5, 0.9951, 0.005)
    enough = [level for level in levels if one.inside(level).mean() >= COVERAGE]
    instead = float(enough[0]) if enough and abs(enough[0] - COVERAGE) > 0.01 else None
    return Evidence(True, COVERAGE, held, rows, instead, whole, _constant(one))


def _constant(one: Target) -> bool:
    return float(np.ptp(one.aleatoric)) <= 1e-6 * float(one.aleatoric.max())


def _verdict(low: Any, high: Any) -> str:
    if high < COVERAGE:
        return ", fewer than promised: the intervals are too narrow."
    if low > COVERAGE:
        return ", more than promised: the intervals are too wide."
    return ", which agrees with what they promise."


def predictions(one: Target, drawn: HostArray, ends: HostArray) -> Picture:
    """Intervals of single rows, in the order of the truth or, where it is not known, of the predicted mean."""
    order = np.argsort((one.mean if one.y is None else one.y)[drawn], kind="stable")
    rank, mean, (low, high) = np.arange(len(drawn)), one.mean[drawn][order], ends[order].T

    def body(figure: Any) -> None:
        axis = figure.subplots()
        wide = float(np.clip(200 / len(drawn), 1.3, 9))
        axis.vlines(rank, low, high, color=BAND, linewidth=wide, label="90% interval")
        axis.plot(rank, mean, "_", color=INK, markersize=max(2.5, wide), markeredgewidth=0.9, label="mean")
        if one.y is not None:
            y, inside = one.y[drawn][order], one.inside()[drawn][order]
            axis.plot(rank[inside], y[inside], ".", color=BLUE, markersize=4, label="truth inside")
            axis.plot(rank[~inside], y[~inside], "x", color=ORANGE, markersize=4.5, label="outside")
        what = "predicted mean" if one.y is None else "truth"
        axis.set(xlabel=f"rows, in the order of their {what}", ylabel=plain(one.name, 40))
        axis.set_xticks([])
        axis.margins(x=0.02)
        style.legend(figure, axis)

    width = float(np.median(high - low))
    words = f"Each bar is a row's 90% interval, {number(width)} wide in the median"
    if one.y is None:
        words += "; the truth is not known here."
    else:
        error = float(np.median(np.abs(one.mean - one.y)))
        words += f"; half of the means are within {number(error)} of the truth."
        words += f" The truth of {count(int((~one.inside()).sum()), 'row')} of {len(one.mean):,} lies outside."
    return style.draw("predictions", "Predictions, row by row", words + shown(len(drawn), len(one.mean)), body)


def parts(one: Target) -> Picture:
    """What members disagree on against the noise that they agree on, as standard deviations."""
    chosen = spread_out(len(one.mean), MOST_POINTS)
    constant = _constant(one)
    pair = np.stack([one.aleatoric[chosen], one.epistemic[chosen]])
    low, high = float(pair.min(axis=1).max()), float(pair.max(axis=1).min())
    meet = 0 < high >= low  # whether any part of the line of equal ones is within the figure
    wide = pair.min() > 0 and bool((pair.max(axis=1) > 20 * pair.min(axis=1)).any())
    groups = [(np.ones(len(chosen), bool), BLUE, "rows")]
    if one.y is not None:
        inside = one.inside()[chosen]
        groups = [(inside, BLUE, "truth inside the interval"), (~inside, ORANGE, "outside")]

    def scatter(figure: Any) -> None:
        axis = figure.subplots()
        x, y = pair
        for mask, ink, name in groups:
            axis.plot(x[mask], y[mask], "o", color=ink, markersize=3.2, markeredgewidth=0, alpha=0.6, label=name)
        if wide:
            for which in "xy":
                style.log_axis(axis, which)
        if meet:
            axis.axline((high, high), (high / 2, high / 2), color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        axis.set(xlabel="aleatoric: noise (standard deviation)", ylabel="epistemic: members' disagreement")
        style.legend(figure, axis)

    def histogram(figure: Any) -> None:
        axis = figure.subplots()
        axis.hist(one.epistemic, bins=30, color=BLUE, alpha=0.8, label="rows")
        axis.axvline(one.aleatoric[0], color=ORANGE, label="aleatoric: the same noise for all rows")
        axis.set(xlabel="epistemic: members' disagreement (standard deviation)", ylabel="rows")
        style.legend(figure, axis)

    words = _parts_words(one)
    if constant:
        words += f" The noise has the same standard deviation for all rows, {number(one.aleatoric[0])}."
    else:
        words += (" On the dashed line both are equal." if meet else "") + shown(len(chosen), len(one.mean))
    heading = "What is noise, and what is not known"
    return style.draw("parts", heading, words, histogram if constant else scatter)


def _parts_words(one: Target) -> str:
    share = one.epistemic**2 / np.maximum(one.std**2, np.finfo(float).tiny)
    words = f"In the median row, {percent(float(np.median(share)))} of the predicted variance is epistemic, "
    words += "what more data could take away; the rest is noise in the data."
    tenth = np.argsort(-one.epistemic, kind="stable")[: len(one.mean) // 10]
    if one.y is not None and len(tenth) >= 5:
        rest = np.setdiff1d(np.arange(len(one.mean)), tenth)
        worst, others = (metrics.rmse(one.mean[rows], one.y[rows]) for rows in (tenth, rest))
        words += (
            f" In the tenth of rows with the most of it the RMSE is {number(worst)}, in the others {number(others)}."
        )
    return words


def _scores(
    targets: list[Target], prediction: Prediction, data: ReportData, rows: HostArray, scale: HostArray, one: Target
) -> tuple[Table, list[tuple[str, str, str]]]:
    nll = metrics.negative_log_likelihood(prediction.log_prob(np.asarray(data.y)[rows])) + float(np.log(scale).sum())
    draws = int(np.clip(MOST_DRAWN // (len(rows) * len(targets)), 20, DRAWS))
    drawn = prediction.draws(jax.random.key(0), draws).reshape(draws, len(rows), -1).astype(np.float64)
    seen = targets[:MOST_TARGETS]
    crps, rmse, covered = [], [], []
    for i, target in enumerate(seen):
        assert target.y is not None
        # In the unit that was trained on, both: moving and scaling a sample does nothing else to the score.
        crps.append(
            metrics.crps(drawn[:, :, i], np.asarray(data.y, float)[rows].reshape(len(rows), -1)[:, i], fair=True)
        )
        rmse.append(metrics.rmse(target.mean, target.y))
        covered.append(int(target.inside().sum()))
    one_target = len(targets) == 1
    head = ["Score", *(["Value"] if one_target else [target.name for target in seen]), "What it is"]
    lines = [
        ["Negative log-likelihood", number(nll), "in nats a row; less is better"] if one_target else [],
        ["CRPS", *(number(c * s) for c, s in zip(crps, scale, strict=False)), "in the target's unit; less is better"],
        ["RMSE", *map(number, rmse), "of the predicted mean, in the target's unit"],
        ["Coverage of 90% intervals", *(percent(hits / len(rows)) for hits in covered), "90% are promised"],
    ]
    note = (
        ""
        if one_target
        else f"Negative log-likelihood of all {len(targets)} targets together: {number(nll)} nats a row."
    )
    if len(targets) > len(seen):
        note += f" The first {len(seen)} targets are shown."
    own = next(i for i, target in enumerate(targets) if target is one)
    tiles = [("Negative log-likelihood", number(nll), "nats a row")]
    if own < len(seen):
        low, high = wilson(covered[own], len(rows))
        tiles += [
            ("90% intervals hold", percent(covered[own] / len(rows)), f"95% range {percent(low)} to {percent(high)}"),
            ("RMSE", number(rmse[own]), one.name if one.name != "target" else "in the target's unit"),
        ]
    return Table(head, [line for line in lines if line], note, words=(0, len(head) - 1), lines=True), tiles


def _intro(targets: list[Target], one: Target) -> str:
    words = f"{count(len(one.mean), 'row')}" + ("" if one.y is None else ", the truth of which is known")
    if len(targets) > 1:
        words += f"; {len(targets)} targets, of which the figures show “{one.name}”"
    return words + "."


def _rows(one: Target, rows: HostArray, most: HostArray, interval: dict[int, Any], data: ReportData) -> Table:
    names, values = data.features(rows[most])
    head = ["Row", "Mean", "90% interval", "Epistemic", "Aleatoric", *([] if one.y is None else ["Truth"]), *names]
    lines = []
    for place, features in zip(most, values, strict=True):
        low, high = interval[int(place)]
        digits = 2 + max(1, math.ceil(math.log10(max(abs(low), abs(high), 1e-300) / max(high - low, 1e-300) + 1)))
        line = [f"{rows[place]:,}", number(one.mean[place], digits)]
        line += [f"{number(low, digits)} to {number(high, digits)}"]
        line += [number(one.epistemic[place]), number(one.aleatoric[place])]
        if one.y is not None:
            line.append(number(one.y[place], digits) + ("" if one.inside()[place] else " ✕"))
        lines.append([*line, *features])
    note = "The rows with the largest predictive standard deviation, counted from 0."
    if one.y is not None:
        note += " ✕: the truth lies outside the interval."
    if data.names is not None and len(data.names) > MOST_FEATURES:
        note += f" Its {len(data.names)} features are too many to be shown."
    return Table(head, lines, note)
