"""Predictions of classes: reliability, confidence, confusion, the parts of the entropy."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from anchorwalk.app.report import style
from anchorwalk.app.report.data import MOST_FEATURES, ReportData
from anchorwalk.app.report.elements import Evidence, Section, Table
from anchorwalk.app.report.formatting import count, number, percent, plain, share_with_range, shown, spread_out, wilson
from anchorwalk.app.report.style import BAND, BLUE, GREEN, INK, MUTED, ORANGE, Picture
from anchorwalk.posterior import metrics
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.types import HostArray

BINS = 10
MOST_POINTS, MOST_ROWS, MOST_CLASSES, MOST_TARGETS = 1000, 10, 12, 6
"""Points in a scatter plot, rows in a table, classes in a confusion matrix, targets in a table."""


@dataclass(frozen=True)
class Target:
    """One target's predictions, rows first.

    Attributes:
        name: What it is called.
        classes: Names of its classes.
        probabilities: Of each class, averaged over members.
        epistemic: Mutual information of class and parameters, in nats.
        aleatoric: Mean over members of the entropy, in nats.
        y: The true classes, or None.
    """

    name: str
    classes: list[str]
    probabilities: HostArray
    epistemic: HostArray
    aleatoric: HostArray
    y: HostArray | None

    @property
    def top(self) -> HostArray:
        """The most probable class of each row."""
        return np.asarray(self.probabilities.argmax(axis=1))

    @property
    def confidence(self) -> HostArray:
        """Its probability."""
        return np.asarray(self.probabilities.max(axis=1))

    @property
    def right(self) -> HostArray:
        """Whether it is the true one."""
        return np.asarray(self.top == self.y)


def section(posterior: Posterior, prediction: Prediction, data: ReportData, rows: HostArray) -> Section:
    """Everything a report says of predicted classes.

    Args:
        posterior: The ensemble.
        prediction: On the rows `rows` of the data.
        data: All rows.
        rows: Numbers of those that are predicted.
    """
    targets = split(prediction, data, rows)
    one = targets[data.shown]
    pictures = [confidence(one)]
    scores: Table | None = None
    tiles: list[tuple[str, str, str]] = []
    if one.y is not None:
        pictures.insert(0, reliability(one))
        if len(one.classes) <= MOST_CLASSES:
            pictures.append(confusion(one))
        nll = metrics.negative_log_likelihood(prediction.log_prob(np.asarray(data.y)[rows]))
        scores, tiles = _scores(targets, one, nll)
    if len(posterior) > 1:
        pictures.append(parts(one))
    words = f"{count(len(rows), 'row')} of {count(len(one.classes), 'class', 'classes')}"
    words += "" if one.y is None else ", the truth of which is known"
    if len(targets) > 1:
        words += f"; {len(targets)} targets, of which the figures show “{one.name}”"
    evidence = None
    if one.y is not None:
        evidence = Evidence(False, float(one.confidence.mean()), int(one.right.sum()), len(rows))
    return Section(words + ".", tiles, scores, pictures, _rows(one, rows, data), evidence)


def split(prediction: Prediction, data: ReportData, rows: HostArray) -> list[Target]:
    """The predictions of each target by itself; the probability of a 1 becomes those of both classes."""
    n, mean = len(rows), prediction.probabilities
    if prediction.entropy.shape == mean.shape:
        mean = np.stack([1 - mean, mean], axis=-1)
    table = mean.reshape(n, -1, mean.shape[-1])
    epistemic = prediction.mutual_information.reshape(n, -1)
    aleatoric = np.maximum(prediction.entropy.reshape(n, -1) - epistemic, 0)
    y = None if data.y is None else np.asarray(data.y)[rows].reshape(n, -1).astype(int)
    classes = data.class_names(table.shape[-1])
    return [
        Target(name, classes, table[:, i], epistemic[:, i], aleatoric[:, i], None if y is None else y[:, i])
        for i, name in enumerate(data.target_names(table.shape[1]))
    ]


def reliability(one: Target) -> Picture:
    """Share of hits against confidence in the most probable class, by bins."""
    bin_of = np.searchsorted(np.arange(1, BINS) / BINS, one.confidence, side="left")
    rows = np.bincount(bin_of, minlength=BINS)
    used = rows > 0
    hits = np.bincount(bin_of, weights=one.right, minlength=BINS)[used]
    confident = np.bincount(bin_of, weights=one.confidence, minlength=BINS)[used] / rows[used]
    low, high = wilson(hits, rows[used])
    observed = hits / rows[used]

    def body(figure: Any) -> None:
        axis = figure.subplots()
        middle = (np.arange(BINS) + 0.5) / BINS
        axis.bar(middle, rows / rows.sum(), width=0.9 / BINS, color=BAND, alpha=0.6, label="share of rows")
        axis.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)), label="as promised")
        bars = [observed - low, high - observed]
        axis.errorbar(
            confident,
            observed,
            bars,
            color=BLUE,
            marker="o",
            markersize=4,
            capsize=2.5,
            elinewidth=1.2,
            label="observed",
        )
        axis.set(xlabel="probability of the predicted class", ylabel="share that is right")
        axis.set(xlim=(0, 1.01), ylim=(0, 1.02))
        style.legend(figure, axis)

    mean, n = float(one.confidence.mean()), len(one.right)
    words = f"{share_with_range(int(one.right.sum()), n)} are right, at a mean confidence of {percent(mean)}"
    low_all, high_all = wilson(int(one.right.sum()), n)
    if mean > high_all:
        words += ": the ensemble is too sure of itself."
    elif mean < low_all:
        words += ": the ensemble is less sure than it could be."
    else:
        words += ": on the whole, confidence agrees with the truth."
    words += " Points below the line are bins of too much confidence. Bars are binomial 95% ranges, with rows taken as"
    words += " independent; bins of few rows have long ones."
    return style.draw("calibration", "Does confidence mean what it says?", words, body)


def confidence(one: Target) -> Picture:
    """How many rows have which confidence, the right and the wrong."""
    start = math.floor(20 * min(1 / len(one.classes), float(one.confidence.min()))) / 20
    edges = np.linspace(start, 1, max(2, round((1 - start) * 20) + 1))
    values = np.clip(one.confidence, start, 1)

    def body(figure: Any) -> None:
        axis = figure.subplots()
        middle, width = (edges[:-1] + edges[1:]) / 2, 0.9 * (edges[1] - edges[0])
        if one.y is None:
            axis.bar(middle, np.histogram(values, edges)[0], width=width, color=BLUE, label="rows")
        else:
            right, wrong = (np.histogram(values[mask], edges)[0] for mask in (one.right, ~one.right))
            axis.bar(middle, right, width=width, color=BLUE, label="right")
            axis.bar(middle, wrong, width=width, bottom=right, color=ORANGE, label="wrong")
        axis.set(xlabel="probability of the predicted class", ylabel="rows")
        axis.yaxis.get_major_locator().set_params(integer=True)
        style.legend(figure, axis)

    sure = one.confidence > 0.9
    words = f"How sure the ensemble is: {percent(float(sure.mean()))} of the rows have a class of more than 90%"
    if one.y is None:
        words += "."
    elif sure.any():
        words += f", and {percent(float(one.right[sure].mean()))} of these are right."
    else:
        words += "."
    if one.y is not None and one.right.any() and not one.right.all():
        middles = [percent(float(np.median(one.confidence[mask]))) for mask in (one.right, ~one.right)]
        words += (
            f" In the median, right ones have {middles[0]} and wrong ones {middles[1]}: the further apart, the better."
        )
    heading = "How sure is it?" if one.y is None else "How sure, and rightly so?"
    return style.draw("predictions", heading, words, body)


def confusion(one: Target) -> Picture:
    """Predicted against true classes."""
    size = len(one.classes)
    assert one.y is not None
    table = np.zeros((size, size), int)
    np.add.at(table, (one.y, one.top), 1)
    shares = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    labels = [plain(name, 14) for name in one.classes]

    def body(figure: Any) -> None:
        from matplotlib.patches import Rectangle

        axis = figure.subplots()
        for true in range(size):
            for predicted in range(size):
                ink = BLUE if true == predicted else ORANGE
                place = (predicted - 0.47, true - 0.47)
                alpha = 0.04 + 0.5 * shares[true, predicted]
                axis.add_patch(Rectangle(place, 0.94, 0.94, facecolor=ink, alpha=alpha, linewidth=0))
                if table[true, predicted]:
                    text = f"{table[true, predicted]:,}"
                    axis.text(
                        predicted, true, text, ha="center", va="center", fontsize=9 if size <= 8 else 7, color=INK
                    )
        long = max(map(len, labels)) * size > 44
        axis.set_xticks(range(size), labels, rotation=40 if long else 0, ha="right" if long else "center")
        axis.set_yticks(range(size), labels)
        axis.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), xlabel="predicted", ylabel="true")
        axis.grid(visible=False)
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)

    words = "Rows by true and predicted class, shaded by their share of the true class."
    wrong = table - np.diag(np.diag(table))
    if wrong.any():
        true, predicted = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        words += f" Most often, “{one.classes[true]}” is taken for “{one.classes[predicted]}”: {wrong.max():,} of "
        words += f"{count(int(table[true].sum()), 'row')}."
    else:
        words += " Nothing is confused."
    return style.draw("confusion", "What is taken for what", words, body)


def parts(one: Target) -> Picture:
    """What members disagree on against the entropy that they agree on."""
    chosen = spread_out(len(one.epistemic), MOST_POINTS)
    groups = [(np.ones(len(chosen), bool), BLUE, "rows")]
    if one.y is not None:
        right = one.right[chosen]
        groups = [(right, BLUE, "right"), (~right, ORANGE, "wrong")]

    def body(figure: Any) -> None:
        axis = figure.subplots()
        for mask, ink, name in groups:
            x, y = one.aleatoric[chosen][mask], one.epistemic[chosen][mask]
            axis.plot(x, y, "o", color=ink, markersize=3.2, markeredgewidth=0, alpha=0.6, label=name)
        axis.set(xlabel="aleatoric: expected entropy (nats)", ylabel="epistemic: information (nats)")
        high = math.log(len(one.classes))
        axis.axvline(high, color=GREEN, linewidth=1, linestyle=(0, (4, 3)), label="all classes alike")
        axis.set_xlim(-0.03 * high, 1.05 * high)
        axis.set_ylim(bottom=-0.03 * max(float(one.epistemic.max()), 1e-6))
        style.legend(figure, axis)

    total = one.epistemic + one.aleatoric
    share = float(one.epistemic.sum() / max(total.sum(), np.finfo(float).tiny))
    words = (
        f"{percent(share)} of all entropy is epistemic, what members disagree on and more data could take away; the "
    )
    words += "rest is aleatoric: single members are unsure themselves."
    if one.y is not None and one.right.any() and not one.right.all():
        middles = [number(float(np.median(one.epistemic[mask])), 2) for mask in (one.right, ~one.right)]
        words += f" In the median, right rows have {middles[0]} nats of it and wrong ones {middles[1]}."
    heading = "What is noise, and what is not known"
    return style.draw("parts", heading, words + shown(len(chosen), len(one.epistemic)), body)


def _scores(targets: list[Target], one: Target, nll: float) -> tuple[Table, list[tuple[str, str, str]]]:
    seen = targets[:MOST_TARGETS]
    rows = len(one.right)
    error, chance = calibration_error(one)
    alone = len(targets) == 1
    head = ["Score", *(["Value"] if alone else [target.name for target in seen]), "What it is"]
    lines = [
        ["Accuracy", *(percent(float(target.right.mean())) for target in seen), "share of rows that are right"],
        ["Negative log-likelihood", number(nll), "in nats a row; less is better"] if alone else [],
        ["Brier score", *(number(metrics.brier(t.probabilities, t.y)) for t in seen), "from 0 to 2; less is better"],
        [
            "Calibration error (ECE)",
            *(number(calibration_error(target)[0], 2) for target in seen),
            f"in {BINS} bins; chance alone would make it about {number(chance, 2)}",
        ],
    ]
    note = "" if alone else f"Negative log-likelihood of all {len(targets)} targets together: {number(nll)} nats a row."
    if len(targets) > len(seen):
        note += f" The first {len(seen)} targets are shown."
    low, high = wilson(int(one.right.sum()), rows)
    tiles = [
        ("Accuracy", percent(float(one.right.mean())), f"95% range {percent(low)} to {percent(high)}"),
        ("Negative log-likelihood", number(nll), "nats a row"),
        ("Calibration error", number(error, 2), f"about {number(chance, 2)} by chance"),
    ]
    return Table(head, [line for line in lines if line], note, words=(0, len(head) - 1), lines=True), tiles


def calibration_error(one: Target) -> tuple[float, float]:
    """The expected calibration error, and what chance alone would make of it were the confidences right."""
    error = metrics.expected_calibration_error(one.probabilities, one.y, bins=BINS)
    bin_of = np.searchsorted(np.arange(1, BINS) / BINS, one.confidence, side="left")
    variance = np.bincount(bin_of, weights=one.confidence * np.maximum(1 - one.confidence, 0))
    return error, float(math.sqrt(2 / math.pi) * np.sqrt(variance).sum() / len(one.right))


def _rows(one: Target, rows: HostArray, data: ReportData) -> Table:
    most = np.argsort(-(one.epistemic + one.aleatoric), kind="stable")[:MOST_ROWS]
    names, values = data.features(rows[most])
    truth = [] if one.y is None else ["Truth"]
    head = ["Row", "Predicted", "Probabilities", "Epistemic", "Aleatoric", *truth, *names]
    lines = []
    for place, features in zip(most, values, strict=True):
        p = one.probabilities[place]
        best = np.argsort(-p, kind="stable")[:3]
        line = [f"{rows[place]:,}", one.classes[best[0]]]
        line += [", ".join(f"{plain(one.classes[c], 20)} {percent(float(p[c]))}" for c in best)]
        line += [number(one.epistemic[place]), number(one.aleatoric[place])]
        if one.y is not None:
            line.append(one.classes[one.y[place]] + ("" if one.right[place] else " ✕"))
        lines.append([*line, *features])
    note = "The rows with the largest entropy, counted from 0; entropies in nats."
    if one.y is not None:
        note += " ✕: another class was predicted."
    if data.names is not None and len(data.names) > MOST_FEATURES:
        note += f" Its {len(data.names)} features are too many to be shown."
    return Table(head, lines, note, words=(1, 2, *((5,) if truth else ())))
