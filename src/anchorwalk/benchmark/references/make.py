"""From a problem to a reference posterior: chains of Hamiltonian Monte Carlo, and evidence that they have converged."""

from collections.abc import Callable, Mapping, Sequence
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


def examine(problem: Problem, vectors: Mapping[str, HostArray], x: Any) -> Evidence:
    """Predictions of draws on test rows, and how well the chains agree on them.

    `vectors` are draws of the shape (chains, draws, D), by how their chains were started. R-hat is the rank-normalised
    split R-hat (Vehtari et al. 2021). Halves are split by chain, so that their distance shows what the chains disagree
    on. Chains of each start are compared with those of the others.
    """
    parts = [_moments(problem, draws, x) for draws in vectors.values()]
    classes = isinstance(problem.likelihood, ClassLikelihood)

    def predictions(some: Sequence[tuple[HostArray, HostArray]]) -> HostArray:
        """Of all of these draws."""
        if classes:
            return np.asarray(np.concatenate([mean.reshape(-1, *mean.shape[2:]) for mean, _ in some]).mean(0))
        means, scales = (np.concatenate([one[k].reshape(-1, one[k].shape[2]) for one in some]) for k in (0, 1))
        return normal_mixture_quantiles(means, scales, LEVELS, ATOMS)

    def half(first: int) -> HostArray:
        return predictions([(mean[first::2], scale[first::2]) for mean, scale in parts])

    kind = "probabilities" if classes else "quantiles"
    floor = distances(kind, half(0), half(1))
    mean, scale = (np.concatenate(one) for one in zip(*parts, strict=True))
    quantities = {"mean": mean} if classes else {"mean": mean, "log_sd": np.log(scale)}
    summary: dict[str, Any] = {"chains": len(mean), "draws": mean.shape[1]}
    for name, quantity in quantities.items():
        flat = quantity.reshape(*quantity.shape[:2], -1)
        r_hat, size = convergence.r_hat(flat), convergence.effective_size(flat)
        summary[name] = {
            "r_hat_median": float(np.median(r_hat)),
            "r_hat_90": float(np.quantile(r_hat, 0.9)),
            "r_hat_max": float(np.max(r_hat)),
            "share_below_1.05": float(np.mean(r_hat < GOOD)),
            "ess_median": float(np.median(size)),
            "ess_10": float(np.quantile(size, 0.1)),
        }
    if len(parts) > 1:
        each = [predictions([one]) for one in parts]
        summary["between_starts"] = [distances(kind, each[0], other) for other in each[1:]]
    return Evidence(kind, np.asarray(predictions(parts), np.float64), floor, summary)


def _moments(problem: Problem, vectors: HostArray, x: Any) -> tuple[HostArray, HostArray]:
    """Mean and standard deviation of the target under each draw, shape (chains, draws, rows, ...)."""
    inputs = jax.tree.map(_single, x)

    def one(vector: Any) -> Any:
        outputs = problem.apply(tree.unravel(vector, problem.params_like), inputs)
        return problem.likelihood.mean(outputs), problem.likelihood.variance(outputs)

    flat = np.asarray(vectors, np.float32).reshape(-1, vectors.shape[-1])
    mean, variance = jax.jit(lambda all_: jax.lax.map(one, all_, batch_size=64))(flat)
    shape = (*vectors.shape[:2], *mean.shape[1:])
    return np.asarray(mean, np.float64).reshape(shape), np.sqrt(np.asarray(variance, np.float64)).reshape(shape)


class Chains(NamedTuple):
    """What the chains of a seed left: vectors of parameters, and what the method says of each draw."""

    vectors: HostArray  # (chains, draws, D)
    values: dict[str, HostArray]  # by name, each (chains, draws)


def run(seed: int, problem: Problem, plan: Plan, folder: Path, callbacks: Sequence[Callback]) -> Chains:
    """Run or resume the chains of a seed."""
    posterior = sample(jax.random.key(seed), problem, plan, store=DiskStore(folder), callbacks=callbacks)
    if not posterior.complete:
        raise KeyboardInterrupt
    shape, infos = (plan.chains, plan.members), posterior.infos
    values = {name: np.reshape([info.value(name) for info in infos], shape) for name in infos[0].values}
    return Chains(vectors_of(posterior, plan), values)


def vectors_of(posterior: Posterior, plan: Plan) -> HostArray:
    """Draws as vectors, shape (chains, draws, D)."""
    vectors = [np.asarray(tree.ravel(member.params)) for member in posterior]
    return np.stack(vectors).reshape(plan.chains, plan.members, -1)


def make(
    problem: Problem,
    x_test: Any,
    plans: Mapping[str, Plan],
    seeds: Sequence[int],
    folder: Path,
    callbacks: Callable[[str], Sequence[Callback]] = lambda name: (),
) -> tuple[Evidence, dict[str, Any]]:
    """Run or resume the chains and examine them: the evidence, and all that a record should say of them.

    There is a plan for each way to start chains, by its name. Each plan and seed make chains of their own, in
    FOLDER-NAME-seedS, and all are pooled: a reference can grow without being made anew. `callbacks` gives those of a
    run by its name.
    """
    for plan in plans.values():
        if plan.chains % 2:
            checks.reject("chains", plan.chains, "an even number", "Halves of the chains are compared.")
    found: dict[str, Chains] = {}
    for name, plan in plans.items():
        labels = {seed: f"{name}-seed{seed}" for seed in seeds}
        runs = [
            run(seed, problem, plan, folder.with_name(f"{folder.name}-{label}"), list(callbacks(label)))
            for seed, label in labels.items()
        ]
        found[name] = jax.tree.map(lambda *parts: np.concatenate(parts), *runs)
    evidence = examine(problem, {name: chains.vectors for name, chains in found.items()}, x_test)
    about = {
        "seeds": list(seeds),
        "plans": {name: plan.to_json() for name, plan in plans.items()},
        "chains": {name: _summary(chains.values) for name, chains in found.items()},
        "evidence": evidence.summary,
    }
    return evidence, about


def _summary(values: Mapping[str, HostArray]) -> dict[str, Any]:
    """What chains of one start say of themselves: over chains the least, median and greatest mean of each number."""
    drift = [np.mean(part) for part in np.array_split(values["log_density"], 10, axis=1) if part.size]
    means = {name: value.mean(axis=1) for name, value in values.items() if name != "log_density"}
    about: dict[str, Any] = {"log_density_by_tenths": [round(float(one), 1) for one in drift]}
    for name, mean in means.items():
        about[name] = [float(f"{value:.3g}") for value in np.quantile(mean, [0, 0.5, 1])]
    return about


def _single(leaf: Any) -> HostArray:
    array = np.asarray(leaf)
    return array.astype(np.float32) if np.issubdtype(array.dtype, np.floating) else array
