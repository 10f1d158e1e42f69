"""Estimators beside scikit-learn's own on ten data sets, at their defaults: `make comparison`.

It appends to results/comparison.jsonl.

Each data set is split five times at random, 70% of the rows for training. Networks and processes of scikit-learn get
standardised features, as its own documentation asks; forests need none. What has no predictive distribution of its
own is given a normal one: around its mean, with the spread of its members, if it has any, and the mean squared
residual, out of bag where bags are drawn and else on training rows.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax
import numpy as np
from scipy import stats
from sklearn import datasets
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingClassifier, BaggingRegressor, RandomForestClassifier, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchorwalk.benchmark import records
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.posterior import metrics
from anchorwalk.run import programs

RESULTS = Path(__file__).parent.parent / "results"
SPLITS = 5
COVERAGE = 0.9


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


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def scaled_target(model):
    return TransformedTargetRegressor(scaled(model), transformer=StandardScaler())


def ours(method):
    def run(x, y, new, seed):
        model = SAERegressor(method, random_state=seed).fit(x, y)
        mean = model.predict(new)
        low, high = model.predict_interval(new, COVERAGE)
        draws = model.sample_y(new, 1000, random_state=seed)

        def log_prob(truth):
            prediction, rows = model._predicted(new)
            scaling = model.target_scaling_
            padded = np.concatenate([scaling(truth), np.zeros(len(prediction.mean) - rows, np.float32)])
            return prediction.log_prob(padded)[:rows] - np.log(scaling.scale)

        return mean, (low, high), draws.T, log_prob

    return run


def normal(mean, std, seed):
    """What is scored of a normal prediction."""
    z = stats.norm.ppf((1 + COVERAGE) / 2)
    draws = mean + std * np.random.default_rng(seed).normal(size=(1000, len(mean)))
    return mean, (mean - z * std, mean + z * std), draws, lambda y: stats.norm.logpdf(y, mean, std)


def mlp(x, y, new, seed):
    model = scaled_target(MLPRegressor(random_state=seed)).fit(x, y)
    noise = np.mean((model.predict(x) - y) ** 2)
    return normal(model.predict(new), np.full(len(new), np.sqrt(noise)), seed)


def bagged(x, y, new, seed):
    member = scaled_target(MLPRegressor(random_state=seed))
    model = BaggingRegressor(member, oob_score=True, random_state=seed).fit(x, y)
    seen = np.isfinite(model.oob_prediction_) & (model.oob_prediction_ != 0)
    noise = np.mean((model.oob_prediction_[seen] - y[seen]) ** 2)
    members = np.stack([one.predict(new) for one in model.estimators_])
    return normal(members.mean(axis=0), np.sqrt(members.var(axis=0) + noise), seed)


def process(x, y, new, seed):
    kernel = 1.0 * RBF(np.ones(x.shape[1])) + WhiteKernel()
    model = scaled(GaussianProcessRegressor(kernel, normalize_y=True, random_state=seed)).fit(x, y)
    return normal(*model.predict(new, return_std=True), seed)


def forest(x, y, new, seed):
    model = RandomForestRegressor(oob_score=True, random_state=seed).fit(x, y)
    noise = np.mean((model.oob_prediction_ - y) ** 2)
    members = np.stack([tree.predict(new) for tree in model.estimators_])
    # Out-of-bag residuals hold the spread of the trees' mean already; that of single trees is not added.
    return normal(members.mean(axis=0), np.full(len(new), np.sqrt(noise)), seed)


REGRESSORS = {
    "SAERegressor": ours("sae"),
    'SAERegressor("ae")': ours("ae"),
    'SAERegressor("deep_ensemble")': ours("deep_ensemble"),
    "MLPRegressor": mlp,
    "bagged MLPRegressor": bagged,
    "GaussianProcessRegressor": process,
    "RandomForestRegressor": forest,
}
CLASSIFIERS = {
    "SAEClassifier": lambda seed: SAEClassifier(random_state=seed),
    'SAEClassifier("ae")': lambda seed: SAEClassifier("ae", random_state=seed),
    'SAEClassifier("deep_ensemble")': lambda seed: SAEClassifier("deep_ensemble", random_state=seed),
    "MLPClassifier": lambda seed: scaled(MLPClassifier(random_state=seed)),
    "bagged MLPClassifier": lambda seed: BaggingClassifier(scaled(MLPClassifier(random_state=seed)), random_state=seed),
    "GaussianProcessClassifier": lambda seed: scaled(GaussianProcessClassifier(1.0 * RBF(1.0), random_state=seed)),
    "RandomForestClassifier": lambda seed: RandomForestClassifier(random_state=seed),
}


def score_regression(predict, parts, seed):
    x, new, y, truth = parts
    began = time.perf_counter()
    mean, (low, high), draws, log_prob = predict(x, y, new, seed)
    seconds = time.perf_counter() - began
    unit = y.std()
    return {
        "nll": metrics.negative_log_likelihood(log_prob(truth) + np.log(unit)),
        "crps": metrics.crps(draws, truth, fair=True) / unit,
        "coverage": metrics.coverage(low, high, truth),
        "rmse": metrics.rmse(mean, truth) / unit,
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
