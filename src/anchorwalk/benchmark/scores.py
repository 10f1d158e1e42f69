"""All scores of a posterior on a case: against the truth, and against the reference."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree
from anchorwalk.benchmark.references.references import LEVELS
from anchorwalk.benchmark.tasks import Case
from anchorwalk.likelihoods import ClassLikelihood
from anchorwalk.posterior import metrics
from anchorwalk.posterior.mixture import normal_mixture_quantiles
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.types import HostArray

INTERVALS = (0.5, 0.9)
"""Central intervals whose coverage is scored."""


class Scored(NamedTuple):
    """Scores by name, and the predictions that they are of: `probabilities`, or `quantiles` with their `levels`."""

    scores: dict[str, float]
    predictions: dict[str, HostArray]


def score(case: Case, posterior: Posterior) -> Scored:
    """Score a posterior's predictions on the test rows."""
    if isinstance(case.problem.likelihood, ClassLikelihood):
        return _classes(case, posterior)
    return _numbers(case, posterior)


def _classes(case: Case, posterior: Posterior) -> Scored:
    probabilities = posterior.predict(case.x_test).probabilities
    y = case.y_test
    scores = {
        "accuracy": metrics.accuracy(probabilities, y),
        "nll": metrics.log_loss(probabilities, y),
        "brier": metrics.brier(probabilities, y),
        "ece": metrics.expected_calibration_error(probabilities, y),
        "confidence": float(np.mean(np.max(probabilities, axis=1))),
    }
    if case.reference is not None:
        scores |= case.reference.compare(probabilities)
    return Scored(scores, {"probabilities": probabilities.astype(np.float32)})


def _numbers(case: Case, posterior: Posterior) -> Scored:
    mean, scale = member_normals(case, [member.params for member in posterior])
    y = np.asarray(case.y_test, np.float64)
    density = -0.5 * ((y - mean) / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)
    top = np.max(density, axis=0)
    quantiles = normal_mixture_quantiles(mean, scale, LEVELS).astype(np.float64)
    scores = {
        "nll": metrics.negative_log_likelihood(top + np.log(np.mean(np.exp(density - top), axis=0))),
        "rmse": metrics.rmse(mean.mean(0), y),
        "crps": metrics.crps(quantiles.T, y),
        "spread": float(np.mean(np.sqrt(mean.var(0) + np.mean(scale**2, axis=0)))),
    }
    for share in INTERVALS:
        low, high = (quantiles[:, int(LEVELS * level)] for level in ((1 - share) / 2, (1 + share) / 2))
        scores[f"coverage_{share:.0%}".rstrip("%")] = metrics.coverage(low, high, y)
    if case.reference is not None:
        scores |= case.reference.compare(quantiles)
    levels = (np.arange(LEVELS) + 0.5) / LEVELS
    return Scored(scores, {"quantiles": quantiles.astype(np.float32), "levels": levels})


def member_normals(case: Case, members: list[Any]) -> tuple[HostArray, HostArray]:
    """Mean and standard deviation of every member's normal on every test row, shape (members, rows)."""
    mean, variance = _normals(case.problem.apply, case.problem.likelihood, tree.stack(members), case.x_test)
    return np.asarray(mean, np.float64), np.sqrt(np.asarray(variance, np.float64))


def _normals(apply: Any, likelihood: Any, members: Any, x: Any) -> Any:
    # Members in blocks of a fixed size, so that one program serves any number of them.
    count, size = jax.tree.leaves(members)[0].shape[0], 128
    parts = []
    for start in range(0, count, size):
        rows = np.minimum(np.arange(start, start + size), count - 1)
        parts.append(_forward(apply, likelihood, tree.lane(members, rows), jnp.asarray(x, jnp.float32)))
    return tuple(np.concatenate([np.asarray(part[i]) for part in parts])[:count] for i in (0, 1))


def _forward_all(apply: Any, likelihood: Any, members: Any, x: Any) -> Any:
    outputs = jax.vmap(apply, in_axes=(0, None))(members, x)
    return likelihood.mean(outputs), likelihood.variance(outputs)


_forward = jax.jit(_forward_all, static_argnames="apply")
