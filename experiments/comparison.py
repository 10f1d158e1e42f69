"""Estimators beside scikit-learn's own on ten data sets, at their defaults: `make comparison`.

It appends to results/comparison.jsonl. Each data set is split five times at random, 70% of the rows for training.
`make comparison-uci` (`uci_comparison.py`) does the tables of UCI. `competitors.py` has what estimators are beside.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import numpy as np
from sklearn import datasets
from sklearn.ensemble import BaggingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from anchorwalk.benchmark import records
from anchorwalk.integrations.sklearn import SAEClassifier
from anchorwalk.posterior import metrics
from anchorwalk.run import programs
from competitors import REGRESSORS, scaled, timed

RESULTS = Path(__file__).parent.parent / "results"
SPLITS = 5


def gap():
    """A wave with a gap in its middle third, from which a third of the rows nevertheless comes for the test."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, 300)
    return x[:, None], np.sin(4 * x) + 0.1 * rng.normal(size=300)


REGRESSION = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "friedman1": lambda: datasets.make_friedman1(500, noise=1.0, random_state=0),
    "friedman2": lambda: datasets.make_friedman2(500, noise=50.0, random_state=0),
    "friedman3": lambda: datasets.make_friedman3(500, noise=0.1, random_state=0),
    "gap": gap,
}
CLASSIFICATION = {
    "iris": lambda: datasets.load_iris(return_X_y=True),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "moons": lambda: datasets.make_moons(500, noise=0.3, random_state=0),
}


def split(name, x, y, seed):
    """Rows of training and test; in the gap of "gap" all rows are for the test."""
    if name == "gap":
        inside = np.abs(x[:, 0]) < 1 / 3
        some = np.random.default_rng(seed).uniform(size=len(x)) < 0.2
        test = inside | some
        return x[~test], x[test], y[~test], y[test]
    stratify = y if name in CLASSIFICATION else None
    return train_test_split(x, y, test_size=0.3, random_state=seed, stratify=stratify)


CLASSIFIERS = {
    "SAEClassifier": lambda seed: SAEClassifier(random_state=seed),
    'SAEClassifier("ae")': lambda seed: SAEClassifier("ae", random_state=seed),
    'SAEClassifier("deep_ensemble")': lambda seed: SAEClassifier("deep_ensemble", random_state=seed),
    "MLPClassifier": lambda seed: scaled(MLPClassifier(random_state=seed)),
    "bagged MLPClassifier": lambda seed: BaggingClassifier(scaled(MLPClassifier(random_state=seed)), random_state=seed),
    "GaussianProcessClassifier": lambda seed: scaled(GaussianProcessClassifier(1.0 * RBF(1.0), random_state=seed)),
    "RandomForestClassifier": lambda seed: RandomForestClassifier(random_state=seed),
}


def score_regression(predict, parts, seed, unit=None):
    """Scores in a unit of the target, by default its training rows' standard deviation."""
    x, new, y, truth = parts
    found, seconds = timed(predict, x, y, new, seed)
    unit = y.std() if unit is None else unit
    return {
        "nll": metrics.negative_log_likelihood(found.log_prob(truth) + np.log(unit)),
        "crps": metrics.crps(found.draws, truth, fair=True) / unit,
        "coverage": metrics.coverage(*found.interval, truth),
        "rmse": metrics.rmse(found.mean, truth) / unit,
        "seconds": seconds,
    }


def score_classification(make, parts, seed):
    x, new, y, truth = parts
    began = time.perf_counter()
    model = make(seed).fit(x, y)
    probabilities = model.predict_proba(new)
    seconds = time.perf_counter() - began
    # Forests and bags give zero to what none of their members saw: a hundredth of a row's chance keeps NLL finite.
    floor = 0.01 / len(x)
    kept = np.maximum(probabilities, floor)
    return {
        "nll": metrics.log_loss(kept / kept.sum(axis=1, keepdims=True), truth),
        "brier": metrics.brier(probabilities, truth),
        "ece": metrics.expected_calibration_error(probabilities, truth),
        "accuracy": metrics.accuracy(probabilities, truth),
        "seconds": seconds,
    }


def run(name, splits):
    regression = name in REGRESSION
    x, y = (REGRESSION if regression else CLASSIFICATION)[name]()
    methods, score = (REGRESSORS, score_regression) if regression else (CLASSIFIERS, score_classification)
    found = {method: [] for method in methods}
    for method, maker in methods.items():
        jax.clear_caches()  # the first fit compiles, as in a fresh process; the others find programs
        programs.forget()
        for seed in range(splits):
            found[method].append(score(maker, split(name, x, y, seed), seed))
    return {
        "name": name,
        "kind": "comparison",
        "task": "regression" if regression else "classification",
        "data": name,
        "rows": len(x),
        "features": x.shape[1],
        "splits": splits,
        "command": "make comparison",
        **records.environment(),
        "scores": found,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=[*REGRESSION, *CLASSIFICATION])
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that have not converged say so at their defaults
    for name in arguments.only:
        record = run(name, arguments.splits)
        records.append(arguments.out / "comparison.jsonl", record)
        for method, scores in record["scores"].items():
            middle = {key: round(float(np.median([one[key] for one in scores])), 3) for key in scores[0]}
            print(name, method, middle, flush=True)


if __name__ == "__main__":
    main()
