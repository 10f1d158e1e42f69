"""Settings of the estimators, by cross-validation: `make defaults` appends to results/defaults.jsonl.

Rows are those that no comparison tests on: training rows of airfoil and bike, the classification sets, generated data,
and of tables with published splits what is in none of the standard test sets that are evaluated (a random tenth of the
rows is tested twenty times, so an eighth is left of small tables). Gaps together take nearly all rows; theirs are among
these. Each candidate is fitted on two thirds of them and scored on the third, three times.

Candidates are today's defaults, each setting changed by itself, and random draws of all settings. A fit that is
recorded is not run again; `--show` prints the difference of each candidate to today's defaults.
"""

import argparse
import time
import warnings
from pathlib import Path
from statistics import mean

import numpy as np
from sklearn import datasets
from sklearn.model_selection import KFold, StratifiedKFold

import comparison
import competitors
import uci
from anchorwalk.benchmark import records
from anchorwalk.errors import AnchorwalkError
from anchorwalk.integrations.sklearn import SAEClassifier

RESULTS = Path(__file__).parent.parent / "results" / "defaults.jsonl"
FOLDS, DRAWN = 3, 40
TODAY = {
    "hidden": (50, 50),
    "batch_size": "auto",
    "budget": "auto",
    "chains": None,
    "learning_rate": None,
    "prior": None,
}
GRID = {
    "hidden": ((50,), (50, 50), (100, 100), (50, 50, 50)),
    "batch_size": ("auto", 8, 32, 64),
    "budget": ("auto", 300, 1000, 10_000),
    "chains": (None, 4, 16),
    "learning_rate": (None, 3e-3, 3e-2),
    "prior": (None, 0.5, 1.0, 2.0),
}
"""Of both estimators; `prior` is one scale for all parameters, None what trials choose."""
TODAY_NUMBERS = {"noise": "varying", "perturb_targets": True}
GRID_NUMBERS = {"noise": ("constant", "varying"), "perturb_targets": (True, False)}
GENERATED = {
    "friedman1-noisy": lambda: datasets.make_friedman1(600, noise=2.0, random_state=100),
    "uneven-wave": lambda: uneven_wave(600, 101),
    "circles": lambda: datasets.make_circles(400, noise=0.15, factor=0.6, random_state=102),
    "blobs": lambda: datasets.make_blobs(400, centers=5, n_features=6, cluster_std=4.0, random_state=103),
}


def uneven_wave(rows, seed):
    """A wave whose noise grows to the right."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (rows, 2))
    return x, np.sin(4 * x[:, 0]) + 0.1 * np.exp(x[:, 0]) * rng.normal(size=rows)


def candidates(numbers, drawn=DRAWN):
    """Settings to try, the first of them today's."""
    today, grid = (TODAY | TODAY_NUMBERS, GRID | GRID_NUMBERS) if numbers else (TODAY, GRID)
    rng = np.random.default_rng(0)
    found = [today, *(today | {name: value} for name, values in grid.items() for value in values)]
    found += [{name: values[rng.integers(len(values))] for name, values in grid.items()} for _ in range(drawn)]
    return list({name_of(one): one for one in found}.values())


def name_of(settings):
    plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
    return ", ".join(f"{name}={value}" for name, value in plain.items())  # JSON has lists for tuples


def rows_of(data):
    """Features and targets to choose on, and whether they are numbers."""
    if data in GENERATED:
        x, y = GENERATED[data]()
        return x, y, y.dtype.kind == "f"
    chosen, table = uci.never_tested(data), uci.load(data)
    return table["x"][chosen], table["y"][chosen], not uci.is_classes(data)


def folds(x, y, numbers):
    """The parts of each fold: x, x_new, y, y_new."""
    kind = KFold if numbers else StratifiedKFold
    for train, test in kind(FOLDS, shuffle=True, random_state=0).split(x, y):
        yield x[train], x[test], y[train], y[test]


def score(settings, parts, fold, numbers):
    """One fit on a fold."""
    if numbers:
        return comparison.score_regression(competitors.ours(**settings), parts, fold)
    return comparison.score_classification(lambda seed: SAEClassifier(random_state=seed, **settings), parts, fold)


def run(data, out, drawn=DRAWN, most=None):
    """All candidates on one table."""
    x, y, numbers = rows_of(data)
    done = records.read(out)
    for settings in candidates(numbers, drawn)[:most]:
        for fold, parts in enumerate(folds(x, y, numbers)):
            name = f"{data}: {name_of(settings)}: fold {fold}"
            if name in done:
                continue
            record = {"name": name, "kind": "defaults", "data": data, "rows": len(parts[0]), "fold": fold}
            record |= {"settings": settings, "scores": None, **records.environment()}
            began = time.perf_counter()
            try:
                record["scores"] = records.rounded(score(settings, parts, fold, numbers))
            except AnchorwalkError as error:  # such as a budget too small for trials
                record["refused"] = str(error)
            records.append(out, record | {"total_seconds": round(time.perf_counter() - began, 3)})
            print(name, record["scores"] or record["refused"], flush=True)


def show(out):
    """Differences to today's defaults in NLL, averaged over tables and folds that both have."""
    found = {}
    for record in records.read(out).values():
        if record["scores"] is not None:
            place = record["data"], record["fold"]
            found.setdefault(name_of(record["settings"]), {})[place] = record["scores"]
    for today in (name_of(TODAY | TODAY_NUMBERS), name_of(TODAY)):
        base, lines = found.get(today, {}), []
        for name, scores in found.items():
            common = sorted(set(scores) & set(base))
            if common:
                change = {key: mean(scores[one][key] - base[one][key] for one in common) for key in ("nll", "seconds")}
                lines.append((change["nll"], len(common), change["seconds"], name))
        for nll, count, seconds, name in sorted(lines):
            print(f"{nll:+.3f} nats, {seconds:+.1f} s, {count} fits: {name}")


def main():
    parser = argparse.ArgumentParser()
    tables = [name for name, missing in uci.names().items() if not missing]
    parser.add_argument("--data", nargs="*", default=[*GENERATED, *tables])
    parser.add_argument("--drawn", type=int, default=DRAWN, help="random candidates")
    parser.add_argument("--candidates", type=int, help="the first so many")
    parser.add_argument("--show", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name, missing in uci.names().items():
        if missing:
            print(name, "left out:", missing, flush=True)
    for data in () if arguments.show else arguments.data:
        run(data, arguments.out, arguments.drawn, arguments.candidates)
    show(arguments.out)


if __name__ == "__main__":
    main()
