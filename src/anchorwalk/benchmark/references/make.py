"""From a problem to a reference posterior: chains, evidence, a compact file."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchorwalk.benchmark.references import references
from anchorwalk.benchmark.references.evidence import Evidence, examine
from anchorwalk.benchmark.references.hmc import Sampler, hamiltonian
from anchorwalk.problem import Problem


def make(
    problem: Problem,
    x_test: Any,
    sampler: Sampler,
    seeds: Sequence[int],
    folder: Path,
    report: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> tuple[Evidence, dict[str, Any]]:
    """Run or go on with the chains, and examine them.

    Args:
        problem: The posterior.
        x_test: Test inputs.
        sampler: How much Hamiltonian Monte Carlo.
        seeds: Each makes chains of its own, and all are pooled: a reference can grow without being made anew.
        folder: Where the runs are kept, one beside the other as FOLDER-seedS.
        report: Told of progress.

    Returns:
        The evidence with the predictions, and all that a record should say of them.
    """
    runs = []
    for seed in seeds:
        place = folder.with_name(f"{folder.name}-seed{seed}")
        runs.append(hamiltonian(jax.random.key(seed), problem, sampler, place, partial(_with_seed, report, seed)))
    inputs = jax.tree.map(lambda leaf: np.asarray(leaf, _dtype(leaf)), x_test)
    evidence = examine(
        problem, np.concatenate([run.vectors for run in runs]), inputs, np.concatenate([run.starts for run in runs])
    )
    about = {
        "seeds": list(seeds),
        "sampler": asdict(sampler),
        "acceptance": [round(float(value), 3) for run in runs for value in run.acceptance],
        "divergent": [round(float(value), 4) for run in runs for value in run.divergent],
        "step_size": [round(float(value), 5) for run in runs for value in run.step_size],
        "log_density_by_tenths": [round(float(v), 1) for v in np.mean([run.log_density for run in runs], axis=(0, 1))],
        "evidence": evidence.summary,
    }
    return evidence, about


def _with_seed(report: Callable[[str, int, int], None], seed: int, stage: str, done: int, total: int) -> None:
    report(f"seed {seed}, {stage}", done, total)


def store(path: Path, evidence: Evidence, about: dict[str, Any]) -> None:
    """Write the compact file of a reference."""
    references.write(path, evidence.kind, evidence.values, evidence.floor, about)


def _dtype(leaf: Any) -> Any:
    return np.float32 if np.issubdtype(np.asarray(leaf).dtype, np.floating) else np.asarray(leaf).dtype
