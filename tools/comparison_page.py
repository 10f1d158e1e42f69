"""Writes docs/comparison.md from results/comparison.jsonl and uci.jsonl. Command: `make comparison docs-tables`."""

import math
from statistics import mean, median, stdev

from pages import ROOT, every, lines
from pages import table as rows_of

HEAD = """# Beside scikit-learn's own estimators

Made by `make comparison docs-tables` from results/comparison.jsonl: ten data sets that scikit-learn bundles or generates, {splits} random splits each, 70% of the rows for training;
medians over the splits. Every estimator is at its defaults, with two exceptions in favour of scikit-learn's: features are standardised for networks and processes, and Gaussian
processes for regression get a kernel with a length scale for each feature and noise, since their default has neither. What has no predictive distribution of its own is given a normal one around its
mean: with the spread of its members, and with the mean squared residual, out of bag where bags are drawn and else on training rows. NLL is in nats, with targets in units of their training rows' standard
deviation, as are CRPS and RMSE; 90% of the targets should be covered. Classes that a method holds for impossible count as a hundredth of one training row. Less is better for all but accuracy.
Our defaults were chosen on one split of diabetes, friedman1, friedman2 and each set of classes, among other tables. So our scores here may be too good. The tables of UCI, below, are the test.
Seconds are of fit and prediction on a shared machine, an order of magnitude. Our first fit compiles its programs; later fits of tables of a like size do not. Bold is the best of a column.

"""
COLUMNS = {
    "regression": ("nll", "crps", "coverage", "rmse", "first", "later"),
    "classification": ("nll", "brier", "ece", "accuracy", "first", "later"),
}
NAMES = {"nll": "NLL", "crps": "CRPS", "coverage": "covered", "rmse": "RMSE", "brier": "Brier", "ece": "ECE"}
NAMES |= {"first": "first fit, s", "later": "later fits, s"}


UCI = """
# On the tables of UCI

Made by `make comparison-uci docs-tables` from results/uci.jsonl, with the published splits: all 20 of small tables and 5 of those of 5,000 rows or more, and their gaps, in which the middle third of one feature
is for the test. Tables without published splits have 5 seeds. Scores are means over splits, NLL in the target's own unit ± the standard error of the mean. What was cut took longer than 15 minutes. A mean rank is
over the tables that a method has all splits of that the first method has; the number of these stands beside it.

Our defaults were chosen on the training rows of airfoil and bike, on generated data, and on the few rows of the other tables that no published split tests on. They were chosen on the tables of classes, too:
scores there are no test. Then they were frozen, and the test rows were run once. After that only compilation changed: trials share the program of the plan. Other work ran on the machine, so seconds
are an order of magnitude.
"""
PUBLISHED = {
    "deep ensembles (Lakshminarayanan et al. 2017)": {
        "boston": 2.41,
        "energy": 1.38,
        "wine": 0.94,
        "power": 2.79,
        "kin8nm": -1.20,
    },
    "NGBoost (Duan et al. 2020)": {"boston": 2.43, "energy": 0.60, "wine": 0.91, "power": 2.79, "kin8nm": -0.49},
}
OURS = {"regression": "SAERegressor", "classification": "SAEClassifier"}
KINDS = {"standard": "published splits", "random": "random splits", "gap": "gaps"}


def load_uci():
    """The cells of UCI; none before the first is recorded."""
    return list(every("uci").values()) if "uci" in lines() else []


def load():
    """The records, regression first."""
    return sorted(every("comparison").values(), key=lambda record: (record["task"] != "regression", record["data"]))


def medians(record):
    """Median of each score over the splits, by method; of the seconds that of the first split, and of the others."""
    found = {}
    for method, scores in record["scores"].items():
        names = COLUMNS[record["task"]][:4]
        found[method] = {name: median(one[name] for one in scores) for name in names}
        found[method]["first"] = scores[0]["seconds"]
        found[method]["later"] = median(one["seconds"] for one in scores[1:])
    return found


def badness(name, value):
    """What is to be small."""
    return {"accuracy": -value, "coverage": abs(value - 0.9)}.get(name, value)


def table(record):
    names, found = COLUMNS[record["task"]], medians(record)
    best = {name: min(badness(name, scores[name]) for scores in found.values()) for name in names}
    lines = [f"| | {' | '.join(NAMES.get(name, name) for name in names)} |", "|---|" + "---:|" * len(names)]
    for method, scores in found.items():
        cells = []
        for name in names:
            text = f"{scores[name]:.1%}" if name in ("coverage", "accuracy") else f"{scores[name]:.3g}"
            cells.append(f"**{text}**" if badness(name, scores[name]) == best[name] else text)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def ranks(records, task):
    """Mean rank by NLL and by the other proper score of each method over the data sets of a task."""
    scores = COLUMNS[task][:2]
    found = {}
    for record in (one for one in records if one["task"] == task):
        by_method = medians(record)
        for score in scores:
            order = sorted(by_method, key=lambda method: by_method[method][score])
            for place, method in enumerate(order, start=1):
                found.setdefault(method, {}).setdefault(score, []).append(place)
    lines = [f"| {task} | mean rank by {NAMES[scores[0]]} | by {NAMES[scores[1]]} |", "|---|---:|---:|"]
    for method, places in sorted(found.items(), key=lambda item: sum(item[1][scores[0]])):
        cells = (f"{sum(places[score]) / len(places[score]):.1f}" for score in scores)
        lines.append(f"| {method} | {' | '.join(cells)} |")
    return "\n".join(lines)


def uci_cells(found):
    """Scores by task, kind of split, table and method: lists over splits, and the method's patience where it was cut."""
    cells = {}
    for record in sorted(
        found, key=lambda one: (one["task"] != "regression", list(KINDS).index(one["split"]), one["data"])
    ):
        tables = cells.setdefault((record["task"], record["split"]), {})
        cell = tables.setdefault(record["data"], {}).setdefault(record["method"], {"scores": {}, "cut": None})
        if "cut" in record:
            cell["cut"] = record["cut"]
        else:
            cell["scores"][record["number"]] = record["scores"] | {"first": record["first"]}
    return cells


def with_error(values):
    """A mean and its standard error."""
    error = f" ± {stdev(values) / math.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{mean(values):.2f}{error}"


def uci_row(task, method, cell):
    """A line of a table's scores."""
    found = list(cell["scores"].values())
    cut = f"cut after {cell['cut'] / 60:g} min" if cell["cut"] else ""
    if not found:
        return [method, "0", *[""] * 4, cut, ""]
    names = COLUMNS[task][:4]
    numbers = [f"{mean(one[name] for one in found):.3g}" for name in names]
    numbers[0] = with_error([one["nll"] for one in found])
    seconds = [[one["seconds"] for one in found if one["first"] == first] for first in (True, False)]
    shown = [f"{median(part):.3g}" if part else "" for part in seconds]
    return [method, str(len(found)), *numbers, cut or shown[0], shown[1]]


def uci_ranks(task, tables):
    """Mean rank of each method over the tables in which it has the splits of our own, and the number of these."""
    places = {}
    for cells in tables.values():
        splits = set(cells.get(OURS[task], {"scores": {}})["scores"])
        whole = {name: cell["scores"] for name, cell in cells.items() if splits and splits <= set(cell["scores"])}
        for score in COLUMNS[task][:2]:
            means = {name: mean(found[number][score] for number in splits) for name, found in whole.items()}
            for place, name in enumerate(sorted(means, key=means.get), start=1):
                places.setdefault(name, {}).setdefault(score, []).append(place)
    first, second = COLUMNS[task][:2]
    lines = [
        [name, f"{mean(of[first]):.1f}", f"{mean(of[second]):.1f}", str(len(of[first]))] for name, of in places.items()
    ]
    heads = ["", f"mean rank by {NAMES[first]}", f"by {NAMES[second]}", "tables"]
    return rows_of(heads, sorted(lines, key=lambda line: float(line[1])))


def published(tables):
    """Our NLL beside figures that papers print, which have other rows of the same splits' kind."""
    own = {
        name: cells[OURS["regression"]]["scores"].values()
        for name, cells in tables.items()
        if OURS["regression"] in cells
    }
    names = [name for name in next(iter(PUBLISHED.values())) if own.get(name)]
    ours = ["SAERegressor", *(with_error([one["nll"] for one in own[name]]) for name in names)]
    rows = [ours, *([paper, *(f"{figures[name]:.2f}" for name in names)] for paper, figures in PUBLISHED.items())]
    return (
        "\n## Beside published figures\n\nNLL as papers print it.\n\n" + rows_of(["", *names], rows) + "\n"
        if names
        else ""
    )


def render_uci(found):
    """The part of the page on UCI; nothing without records."""
    if not found:
        return ""
    text = UCI
    for (task, kind), tables in uci_cells(found).items():
        text += f"\n## {task.capitalize()}, {KINDS[kind]}\n\n{uci_ranks(task, tables)}\n"
        if (task, kind) == ("regression", "standard"):
            text += published(tables)
        heads = ["", "splits", *(NAMES.get(name, name) for name in COLUMNS[task])]
        for name, cells in tables.items():
            text += f"\n### {name}, {KINDS[kind]}\n\n"
            text += rows_of(heads, [uci_row(task, method, cell) for method, cell in cells.items()]) + "\n"
    return text


def render(records, uci=()):
    text = HEAD.format(splits=records[0]["splits"])
    text += f"{ranks(records, 'regression')}\n\n{ranks(records, 'classification')}\n"
    for record in records:
        text += f"\n## {record['data']}: {record['task']}, {record['rows']:,} rows, {record['features']} features\n\n{table(record)}\n"
    return text + render_uci(uci)


if __name__ == "__main__":
    (ROOT / "docs" / "comparison.md").write_text(render(load(), load_uci()))
