"""From a problem to a reference posterior: chains of Hamiltonian Monte Carlo, and evidence that they have converged."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.benchmark.references.references import LEVELS, distances
from anchorwalk.likelihoods import ClassLikelihood
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.metrics import convergence
from anchorwalk.posterior.mixture import normal_mixture_quantiles
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.sample import sample
from anchorwalk.run.store import DiskStore
from anchorwalk.types import HostArray

GOOD = 1.05  # R-hat below which a test row counts as converged
ATOMS = 2**16  # atoms that stand for a reference's predictive mixture


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
    inputs = jax.tree.map(_single, x)

    def one(vector: Any) -> Any:
        outputs = problem.apply(tree.unravel(vector, problem.params_like), inputs)
        return problem.likelihood.mean(outputs), problem.likelihood.variance(outputs)

    flat = np.asarray(vectors, np.float32).reshape(-1, vectors.shape[-1])
    mean, variance = jax.jit(lambda all_: jax.lax.map(one, all_, batch_size=64))(flat)
    return np.asarray(mean, np.float64), np.sqrt(np.asarray(variance, np.float64))


class Chains(NamedTuple):
    """What the chains of a seed left: vectors of parameters, starts, and what the method says of each draw."""

    vectors: HostArray  # (chains, draws, D)
    starts: HostArray  # (chains, D)
    values: dict[str, HostArray]  # by name, each (chains, draws)


def run(seed: int, problem: Problem, plan: Plan, folder: Path, callbacks: Sequence[Callback]) -> Chains:
    """Run or resume the chains of a seed."""
    store = DiskStore(folder)
    posterior = sample(jax.random.key(seed), problem, plan, store=store, callbacks=callbacks)
    if not posterior.complete:
        raise KeyboardInterrupt
    starts = np.stack([store.state(chain).start for chain in range(plan.chains)])
    shape, infos = (plan.chains, plan.members), posterior.infos
    values = {name: np.reshape([info.value(name) for info in infos], shape) for name in infos[0].values}
    return Chains(vectors_of(posterior, plan), starts, values)


def vectors_of(posterior: Posterior, plan: Plan) -> HostArray:
    """Draws as vectors, shape (chains, draws, D)."""
    vectors = [np.asarray(tree.ravel(member.params)) for member in posterior]
    return np.stack(vectors).reshape(plan.chains, plan.members, -1)


def make(
    problem: Problem,
    x_test: Any,
    plan: Plan,
    seeds: Sequence[int],
    folder: Path,
    callbacks: Callable[[int], Sequence[Callback]] = lambda seed: (),
) -> tuple[Evidence, dict[str, Any]]:
    """Run or resume the chains and examine them: the evidence, and all that a record should say of them.

    Each seed makes chains of its own, in FOLDER-seedS, and all are pooled: a reference can grow without being made
    anew. `callbacks` gives those of a seed's run.
    """
    if plan.chains % 2:
        checks.reject("chains", plan.chains, "an even number", "Halves of the chains are compared.")
    runs = [run(s, problem, plan, folder.with_name(f"{folder.name}-seed{s}"), list(callbacks(s))) for s in seeds]
    pooled: Chains = jax.tree.map(lambda *parts: np.concatenate(parts), *runs)
    evidence = examine(problem, pooled.vectors, x_test, pooled.starts)
    tenths = np.array_split(pooled.values["log_density"], 10, axis=1)
    digits = {"acceptance": 3, "divergent": 4, "step_size": 5}
    about = {
        "seeds": list(seeds),
        "plan": plan.to_json(),
        **{name: [round(float(v), n) for v in pooled.values[name].mean(axis=1)] for name, n in digits.items()},
        "log_density_by_tenths": [round(float(part.mean()), 1) for part in tenths if part.size],
        "evidence": evidence.summary,
    }
    return evidence, about


def _single(leaf: Any) -> HostArray:
    array = np.asarray(leaf)
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array
