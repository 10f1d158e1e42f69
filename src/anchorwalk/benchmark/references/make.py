"""From a problem to a reference posterior: chains of Hamiltonian Monte Carlo, evidence, a compact file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.benchmark.references.evidence import Evidence, examine
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.sample import sample
from anchorwalk.run.store import DiskStore
from anchorwalk.types import HostArray


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
    evidence = examine(problem, pooled.vectors, jax.tree.map(_single, x_test), pooled.starts)
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
