"""Writes docs/comparison.md from results/comparison.jsonl. Command: `make comparison docs-tables`."""

from statistics import median

from pages import ROOT, every

HEAD = """# Beside scikit-learn's own estimators

Made by `make comparison docs-tables` from results/comparison.jsonl: ten data sets that scikit-learn bundles or generates, {splits} random splits each, 70% of the rows for training;
medians over the splits. Every estimator is at its defaults, with two exceptions in favour of scikit-learn's: features are standardised for networks and processes, and Gaussian
processes for regression get a kernel with a length scale for each feature and noise, since their default has neither. What has no predictive distribution of its own is given a normal one around its
mean: with the spread of its members, and with the mean squared residual, out of bag where bags are drawn and else on training rows. NLL is in nats, with targets in units of their training rows' standard
deviation, as are CRPS and RMSE; 90% of the targets should be covered. Classes that a method holds for impossible count as a hundredth of one training row. Less is better for all but accuracy.
Our defaults were not chosen on these rows but on generated data of other kinds and seeds (lines, waves, friedman1 with other noise, circles, blobs) and the energy data.
Seconds are of fit and prediction on a shared machine, an order of magnitude. Our first fit compiles its programs; later fits of tables of a like size do not. Bold is the best of a column.

"""
COLUMNS = {
    "regression": ("nll", "crps", "coverage", "rmse", "first", "later"),
    "classification": ("nll", "brier", "ece", "accuracy", "first", "later"),
}
NAMES = {"nll": "NLL", "crps": "CRPS", "coverage": "covered", "rmse": "RMSE", "brier": "Brier", "ece": "ECE"}
NAMES |= {"first": "first fit, s", "later": "later fits, s"}


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


def render(records):
    text = HEAD.format(splits=records[0]["splits"])
    text += f"{ranks(records, 'regression')}\n\n{ranks(records, 'classification')}\n"
    for record in records:
        text += f"\n## {record['data']}: {record['task']}, {record['rows']:,} rows, {record['features']} features\n\n{table(record)}\n"
    return text


if __name__ == "__main__":
    (ROOT / "docs" / "comparison.md").write_text(render(load()))
