"""Evidence that chains have converged where it counts: on predictions."""

from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.benchmark.references.references import LEVELS, distances
from anchorwalk.likelihoods import ClassLikelihood
from anchorwalk.posterior.metrics import convergence
from anchorwalk.posterior.mixture import normal_mixture_quantiles
from anchorwalk.problem import Problem
from anchorwalk.types import HostArray

GOOD = 1.05
"""R-hat below which a test row counts as converged."""
ATOMS = 2**16
"""Atoms that stand for a reference's predictive mixture."""


class Evidence(NamedTuple):
    """What speaks for a reference posterior."""

    kind: str  # "quantiles" or "probabilities"
    values: HostArray  # the predictions, shape (rows, levels) or (rows, classes)
    floor: dict[str, float]  # distance between two halves of the chains, by score
    summary: dict[str, Any]  # R-hat and effective sample size of predictions over the test rows, for a record


def examine(problem: Problem, vectors: HostArray, x: Any, starts: HostArray | None = None) -> Evidence:
    """Predictions of draws, shape (chains, draws, D), on test rows, and how well the chains agree on them.

    R-hat is the rank-normalised split R-hat (Vehtari et al. 2021). Halves are split by chain, so that their distance
    shows what the chains disagree on. The spread of the chains' `starts`, shape (chains, D), is compared with the
    posterior's.
    """
    chains, draws, _ = vectors.shape
    mean, scale = (part.reshape(chains, draws, *part.shape[1:]) for part in _moments(problem, vectors, x))
    classes = isinstance(problem.likelihood, ClassLikelihood)

    def predictions(some: slice) -> HostArray:
        """Of some of the chains."""
        if classes:
            return np.asarray(mean[some].mean((0, 1)))
        means, scales = (part[some].reshape(-1, part.shape[2]) for part in (mean, scale))
        return normal_mixture_quantiles(means, scales, LEVELS, ATOMS)

    kind = "probabilities" if classes else "quantiles"
    floor = distances(kind, predictions(slice(0, None, 2)), predictions(slice(1, None, 2)))
    quantities = {"mean": mean} if classes else {"mean": mean, "log_sd": np.log(scale)}
    summary: dict[str, Any] = {"chains": chains, "draws": draws}
    for name, quantity in quantities.items():
        flat = quantity.reshape(chains, draws, -1)
        r_hat, size = convergence.r_hat(flat), convergence.effective_size(flat)
        summary[name] = {
            "r_hat_median": float(np.median(r_hat)),
            "r_hat_90": float(np.quantile(r_hat, 0.9)),
            "r_hat_max": float(np.max(r_hat)),
            "share_below_1.05": float(np.mean(r_hat < GOOD)),
            "ess_median": float(np.median(size)),
            "ess_10": float(np.quantile(size, 0.1)),
        }
    if starts is not None:
        start_mean, _ = _moments(problem, starts, x)
        summary["spread_of_starts"] = float(np.mean(start_mean.std(0)))
        summary["spread_of_posterior_means"] = float(np.mean(mean.std((0, 1))))
    return Evidence(kind, np.asarray(predictions(slice(None)), np.float64), floor, summary)


def _moments(problem: Problem, vectors: HostArray, x: Any) -> tuple[HostArray, HostArray]:
    """Mean and standard deviation of the target under each draw, shape (draws, rows, ...), of all chains in turn."""
    inputs = jax.tree.map(np.asarray, x)

    def one(vector: Any) -> Any:
        outputs = problem.apply(tree.unravel(vector, problem.params_like), inputs)
        return problem.likelihood.mean(outputs), problem.likelihood.variance(outputs)

    flat = np.asarray(vectors, np.float32).reshape(-1, vectors.shape[-1])
    mean, variance = jax.jit(lambda all_: jax.lax.map(one, all_, batch_size=64))(flat)
    return np.asarray(mean, np.float64), np.sqrt(np.asarray(variance, np.float64))
