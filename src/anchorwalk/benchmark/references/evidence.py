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
    """What speaks for a reference posterior.

    Attributes:
        kind: "quantiles" or "probabilities".
        values: The predictions, shape (rows, levels) or (rows, classes).
        floor: Distance between two halves of the chains, by score.
        summary: R-hat and effective sample size of predictions over the test rows, in numbers for a record.
    """

    kind: str
    values: HostArray
    floor: dict[str, float]
    summary: dict[str, Any]


def examine(problem: Problem, vectors: HostArray, x: Any, starts: HostArray | None = None) -> Evidence:
    """Predictions of the draws on test rows, and how well the chains agree on them.

    R-hat is the rank-normalised split R-hat (Vehtari et al. 2021). Halves are split by chain, so that their distance
    shows what the chains disagree on.

    Args:
        problem: Network and likelihood.
        vectors: Draws, shape (chains, draws, D).
        x: Test inputs.
        starts: The chains' starts, shape (chains, D), to compare their spread with the posterior's.
    """
    chains, draws, _ = vectors.shape
    mean, scale = _moments(problem, vectors.reshape(chains * draws, -1), x)
    mean = mean.reshape(chains, draws, *mean.shape[1:])
    scale = scale.reshape(mean.shape)
    halves = [slice(0, None, 2), slice(1, None, 2)]
    quantities = {"mean": mean}
    if isinstance(problem.likelihood, ClassLikelihood):
        kind = "probabilities"
        values = mean.mean((0, 1))
        parts = [mean[half].mean((0, 1)) for half in halves]
    else:
        kind = "quantiles"
        quantities["log_sd"] = np.log(scale)
        rows = mean.shape[2]
        values = normal_mixture_quantiles(mean.reshape(-1, rows), scale.reshape(-1, rows), LEVELS, ATOMS)
        parts = [
            normal_mixture_quantiles(mean[half].reshape(-1, rows), scale[half].reshape(-1, rows), LEVELS, ATOMS)
            for half in halves
        ]
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
        summary["spread_of_posterior_means"] = float(np.mean(mean.reshape(-1, *mean.shape[2:]).std(0)))
    return Evidence(kind, np.asarray(values, np.float64), distances(kind, parts[0], parts[1]), summary)


def _moments(problem: Problem, vectors: HostArray, x: Any) -> tuple[HostArray, HostArray]:
    """Mean and standard deviation of the target under each draw, shape (draws, rows, ...)."""
    like = problem.params_like
    inputs = jax.tree.map(np.asarray, x)

    @jax.jit
    def moments(vectors: Any) -> Any:
        def one(vector: Any) -> Any:
            outputs = problem.apply(tree.unravel(vector, like), inputs)
            return problem.likelihood.mean(outputs), problem.likelihood.variance(outputs)

        return jax.lax.map(one, vectors, batch_size=64)

    mean, variance = moments(np.asarray(vectors, np.float32))
    return np.asarray(mean, np.float64), np.sqrt(np.asarray(variance, np.float64))
