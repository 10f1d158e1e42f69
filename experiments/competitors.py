"""What the estimators are compared with: each a function (x, y, new, seed) that gives a `Predicted`.

Networks and processes of scikit-learn get standardised features, as its own documentation asks; trees need none. What
has no predictive distribution of its own is given a normal one: around its mean, with the spread of its members, if it
has any, and the mean squared residual, out of bag where bags are drawn and else on training rows.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import special, stats
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import BaggingRegressor, RandomForestRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, WhiteKernel
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from anchorwalk.integrations.sklearn import SAERegressor

COVERAGE = 0.9
DRAWS = 1000
BDE = "ANCHORWALK_BDE"
"""The environment variable that names the Python of an environment with sklearn-contrib-bde 1.0.2."""


class Predicted(NamedTuple):
    """Predictions of some rows."""

    mean: Any
    interval: tuple[Any, Any]
    draws: Any
    log_prob: Callable[[Any], Any]
    seconds: float | None = None  # where the caller cannot take the time


def scaled(model):
    return make_pipeline(StandardScaler(), model)


def scaled_target(model):
    return TransformedTargetRegressor(scaled(model), transformer=StandardScaler())


def ours(method="sae", kind=SAERegressor, **settings):
    def run(x, y, new, seed):
        model = kind(method, random_state=seed, **settings).fit(x, y)
        mean = model.predict(new)
        draws = model.sample_y(new, DRAWS, random_state=seed)

        def log_prob(truth):
            prediction, rows = model._predicted(new)
            scaling = model.target_scaling_
            padded = np.concatenate([scaling(truth), np.zeros(len(prediction.mean) - rows, np.float32)])
            return prediction.log_prob(padded)[:rows] - np.log(scaling.scale)

        return Predicted(mean, model.predict_interval(new, COVERAGE), draws.T, log_prob)

    return run


def normal(mean, std, seed):
    """A normal distribution for each row."""
    z = stats.norm.ppf((1 + COVERAGE) / 2)
    draws = mean + std * np.random.default_rng(seed).normal(size=(DRAWS, len(mean)))
    return Predicted(mean, (mean - z * std, mean + z * std), draws, lambda y: stats.norm.logpdf(y, mean, std))


def mixture(mean, std, seed, seconds):
    """Normal distributions of equal weight, shape (members, rows)."""
    rng = np.random.default_rng(seed)
    which = rng.integers(len(mean), size=(DRAWS, 1)), np.arange(mean.shape[1])
    draws = mean[which] + std[which] * rng.normal(size=(DRAWS, mean.shape[1]))
    low, high = np.quantile(draws, [(1 - COVERAGE) / 2, (1 + COVERAGE) / 2], axis=0)

    def log_prob(y):
        return special.logsumexp(stats.norm.logpdf(y, mean, std), axis=0) - np.log(len(mean))

    return Predicted(mean.mean(axis=0), (low, high), draws, log_prob, seconds)


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


def ngboost(x, y, new, seed):
    from ngboost import NGBRegressor

    found = NGBRegressor(random_state=seed, verbose=False).fit(x, y).pred_dist(new)
    return normal(found.loc, found.scale, seed)


def catboost(x, y, new, seed):
    """Knowledge and data uncertainty of ten virtual ensembles (Malinin, Prokhorenkova and Ustimenko 2021)."""
    from catboost import CatBoostRegressor

    options = {"loss_function": "RMSEWithUncertainty", "posterior_sampling": True, "allow_writing_files": False}
    model = CatBoostRegressor(random_seed=seed, verbose=False, **options).fit(x, y)
    kind = {"prediction_type": "TotalUncertainty", "virtual_ensembles_count": 10}
    mean, knowledge, data = model.virtual_ensembles_predict(new, **kind).T
    return normal(mean, np.sqrt(knowledge + data), seed)


def bde(x, y, new, seed):
    """bde in its own environment, with the configuration of its README; features and targets standardised."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, x=x, y=y, new=new, seed=seed)
        script = Path(__file__).parent / "bde_fit.py"
        subprocess.run([os.environ[BDE], script, given, found], check=True, env=bde_environment(), stdout=sys.stderr)
        with np.load(found) as stored:
            return mixture(stored["mean"], stored["std"], seed, float(stored["seconds"]))


def bde_environment():
    """That of this process without its search path for modules, which has another Python's."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


REGRESSORS = {
    "SAERegressor": ours("sae"),
    'SAERegressor("ae")': ours("ae"),
    'SAERegressor("deep_ensemble")': ours("deep_ensemble"),
    "MLPRegressor": mlp,
    "bagged MLPRegressor": bagged,
    "GaussianProcessRegressor": process,
    "RandomForestRegressor": forest,
}
MORE = {"NGBoost": ngboost, "CatBoost": catboost, "bde": bde}


def timed(predict, x, y, new, seed):
    """Predictions and the seconds of fit and prediction."""
    began = time.perf_counter()
    found = predict(x, y, new, seed)
    return found, time.perf_counter() - began if found.seconds is None else found.seconds
