"""A reference posterior: many chains of Hamiltonian Monte Carlo on a `Problem`, resumable.

Each chain starts at a draw from the prior and a short descent, long before it fits the data well, so that the starts
are more dispersed than the posterior. Windows of warm-up, each about twice as long as the last, take a chain's mass
matrix from the Fisher information where the last window has been.

After warm-up the mass matrix goes on as the running mean of the information over the chain since its last window, and
the step size by Robbins and Monro's rule: a chain that comes to places of larger curvature than warm-up saw would
otherwise stick there. Both change by 1 / t at iteration t, less and less, which is the condition under which the
draws still have the posterior as their limit (diminishing adaptation; Roberts and Rosenthal 2007).
"""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from safetensors.numpy import load_file, save

from anchorwalk import checks, files, tree
from anchorwalk.benchmark.references.density import log_density, prior_scale, widened
from anchorwalk.benchmark.references.kernel import Block, Geometry, geometry, mean_information, run_block, start_tuning
from anchorwalk.problem import Problem
from anchorwalk.run.store import fingerprint
from anchorwalk.types import Array, HostArray, Key

START_RATE = 0.01
"""Adam's rate in the descent to a chain's start."""
KERNEL = 1
"""Raised with every change to what a run computes, so that no run goes on with other code."""
INFORMED = 2
"""Places in a block at which the information is taken."""
DENSE = 2000
"""Parameters up to which a mass matrix is dense; above, it is diagonal."""


@dataclass(frozen=True)
class Sampler:
    """How much Hamiltonian Monte Carlo.

    Args:
        chains: Independent chains; an even number, so that halves can be compared.
        descent: Full-batch Adam steps from a draw of the prior to a chain's start.
        windows: Iterations of each window of warm-up, multiples of `block`.
        draws: Draws kept of each chain.
        thin: Iterations for each draw that is kept.
        leapfrogs: Steps of a trajectory.
        block: Iterations of one compiled call; a run is saved after each.

    Example:
        >>> from anchorwalk.benchmark.references.hmc import Sampler
        >>> Sampler(chains=4).chains
        4
    """

    chains: int = 8
    descent: int = 500
    windows: tuple[int, ...] = (50, 50, 100, 200, 400, 800, 1600)
    draws: int = 600
    thin: int = 10
    leapfrogs: int = 40
    block: int = 50

    def __post_init__(self) -> None:
        for name in ("chains", "descent", "draws", "thin", "leapfrogs", "block"):
            checks.count(f"Sampler({name}=)", getattr(self, name))
        if self.chains % 2:
            checks.reject("Sampler(chains=)", self.chains, "an even number", "Halves of the chains are compared.")
        for iterations in (*self.windows, self.draws * self.thin):
            if iterations % self.block:
                given = f"{iterations} iterations with blocks of {self.block}"
                checks.reject("Sampler", given, "windows and draws * thin in whole blocks", "Change block=.")
        if self.block % self.thin:
            checks.reject("Sampler(thin=)", self.thin, f"a divisor of the block, {self.block}", "Change thin=.")

    def shortened(self, percent: int) -> "Sampler":
        """The same with a part of the warm-up, in whole blocks.

        Example:
            >>> from anchorwalk.benchmark.references.hmc import Sampler
            >>> sum(Sampler().shortened(50).windows)
            1650
        """
        share = checks.count("percent", percent) / 100
        windows = tuple(max(1, round(share * window / self.block)) * self.block for window in self.windows)
        return replace(self, windows=windows)


@dataclass(frozen=True, eq=False)
class Draws:
    """What the chains left.

    Attributes:
        vectors: Parameters as vectors, shape (chains, draws, D), in float32.
        starts: The chains' starts, shape (chains, D).
        acceptance: Mean acceptance probability of each chain after warm-up.
        divergent: Share of each chain's trajectories whose energy ran away.
        step_size: Each chain's step size, in units of its own metric.
        log_density: Mean log-density of each chain over each tenth of its draws, shape (chains, 10).
    """

    vectors: HostArray
    starts: HostArray
    acceptance: HostArray
    divergent: HostArray
    step_size: HostArray
    log_density: HostArray


def hamiltonian(
    key: Key,
    problem: Problem,
    sampler: Sampler,
    folder: Path,
    report: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Draws:
    """Run the chains, or go on with a run that is in `folder`.

    Args:
        key: All randomness comes from it.
        problem: Its data are used whole, in every gradient.
        sampler: How much.
        folder: Where the run is kept; a kill loses a block, in warm-up a window.
        report: Told of progress: what is going on, and iterations of it done and in all.

    Returns:
        The draws after warm-up.

    Raises:
        InvalidInput: A folder that holds another run.
    """
    checks.key("key", key)
    folder.mkdir(parents=True, exist_ok=True)
    about = {
        "kernel": str(KERNEL),
        "key": fingerprint.of_key(key),
        "network": fingerprint.of_network(problem),
        "likelihood": fingerprint.of_settings(problem.likelihood),
        "data": fingerprint.of_tree(problem.data),
        "prior": fingerprint.of_tree(problem.prior),
        "sampler": json.dumps({**asdict(sampler), "draws": None}),  # more draws may be asked for later
    }
    _check_same(folder / "run.json", about)
    with jax.enable_x64(True):
        problem = widened(problem)
        state = _warm_up(key, problem, sampler, folder, report)
        return _sample(key, problem, sampler, folder, state, report)


def _warm_up(key: Key, problem: Problem, sampler: Sampler, folder: Path, report: Any) -> dict[str, Any]:
    """The state of the chains after warm-up, or after the last block of draws that was saved."""
    saved = sorted(folder.glob("window-*.safetensors"))
    if saved:
        state: dict[str, Any] = load_file(saved[-1])
    else:
        positions = _starts(jax.random.fold_in(key, 0), problem, sampler)
        mass = _information(jax.random.fold_in(key, 1), problem, positions[:, None], problem.size <= DENSE)
        step_size = jnp.full(sampler.chains, 0.01)
        state = {"starts": positions, "positions": positions, "mass": mass, **_named(start_tuning(step_size))}
    first = 1 + int(saved[-1].stem.split("-")[1]) if saved else 0
    total = sum(sampler.windows)
    for window in range(first, len(sampler.windows)):
        window_key = jax.random.fold_in(jax.random.fold_in(key, 2), window)
        state |= _named(start_tuning(jnp.exp(jnp.asarray(state["log_step_size_avg"]))))
        shape = _geometry(state["mass"])
        masses = []
        for block in range(sampler.windows[window] // sampler.block):
            block_key = jax.random.fold_in(window_key, block)
            _, mass = _advance(block_key, problem, sampler, state, shape)
            masses.append(np.asarray(mass))
            report("warm-up", sum(sampler.windows[:window]) + (block + 1) * sampler.block, total)
        state["mass"] = np.mean(masses, axis=0)
        state["weight"] = np.asarray(len(masses))
        files.write(folder / f"window-{window:02d}.safetensors", save(_contiguous(state)))
        (folder / f"window-{window - 1:02d}.safetensors").unlink(missing_ok=True)
    return state


def _advance(
    key: Key, problem: Problem, sampler: Sampler, state: dict[str, Any], shape: Geometry, block: int | None = None
) -> tuple[Block, Array]:
    """Run a block from a state, which moves on, and take the information at a few of its places.

    Without a number of a block after warm-up, step sizes are explored.
    """
    run_key, mass_key = jax.random.split(key)
    tuning = _tuning(state)
    positions = jnp.asarray(state["positions"])
    explore, done = block is None, (block or 0) * sampler.block
    result = _block(run_key, problem, positions, shape, tuning, explore, done, sampler.block, sampler.leapfrogs)
    state |= {"positions": result.positions[:, -1], **_named(result.tuning)}
    every = max(1, sampler.block // INFORMED)
    return result, _information(mass_key, problem, result.positions[:, every - 1 :: every], problem.size <= DENSE)


def _sample(key: Key, problem: Problem, sampler: Sampler, folder: Path, state: dict[str, Any], report: Any) -> Draws:
    blocks = sampler.draws * sampler.thin // sampler.block
    latest = folder / "state.safetensors"
    if latest.exists():
        state = {**load_file(latest), "starts": state["starts"]}
    first = int(state.get("block", np.asarray(0)))
    for block in range(first, blocks):
        block_key = jax.random.fold_in(jax.random.fold_in(key, 3), block)
        result, mass = _advance(block_key, problem, sampler, state, _geometry(state["mass"]), block)
        part = {
            "vectors": np.asarray(result.positions[:, sampler.thin - 1 :: sampler.thin], np.float32),
            "log_density": np.asarray(result.log_density),
            "acceptance": np.asarray(result.acceptance),
            "divergent": np.asarray(result.divergent),
            "step_size": np.exp(np.asarray(result.tuning.log_step_size_avg)),
        }
        weight = int(state["weight"])
        state["mass"] = (weight * np.asarray(state["mass"]) + np.asarray(mass)) / (weight + 1)
        state |= {"weight": np.asarray(weight + 1), "block": np.asarray(block + 1)}
        # The state comes last: killed in between, the same block is made again.
        files.write(folder / f"draws-{block:06d}.safetensors", save(_contiguous(part)))
        files.write(latest, save(_contiguous(state)))
        report("draws", (block + 1) * sampler.block, sampler.draws * sampler.thin)
    parts = [load_file(folder / f"draws-{block:06d}.safetensors") for block in range(blocks)]
    return Draws(
        vectors=np.concatenate([part["vectors"] for part in parts], axis=1),
        starts=np.asarray(state["starts"]),
        acceptance=np.mean([part["acceptance"] for part in parts], axis=0),
        divergent=np.mean([part["divergent"] for part in parts], axis=0),
        step_size=np.mean([part["step_size"] for part in parts], axis=0),
        log_density=_tenths(np.concatenate([part["log_density"] for part in parts], axis=1)),
    )


def _tenths(trace: HostArray) -> HostArray:
    return np.stack([part.mean(axis=1) for part in np.array_split(trace, 10, axis=1)], axis=1)


def _named(tuning: Any) -> dict[str, Any]:
    return dict(tuning._asdict())


def _tuning(state: dict[str, Any]) -> Any:
    like = start_tuning(jnp.ones(1))
    return type(like)(*(jnp.asarray(state[name]) for name in like._fields))


@partial(jax.jit, static_argnames="sampler")
def _starts(key: Key, problem: Problem, sampler: Sampler) -> Array:
    """A draw of the prior for each chain, then a short descent on the negative log-density."""
    scale = prior_scale(problem)
    mean = jax.tree.map(lambda m, leaf: jnp.broadcast_to(m, leaf.shape), problem.prior.mean, problem.params_like)
    vectors = tree.ravel(mean) + scale * jax.random.normal(key, (sampler.chains, scale.size), scale.dtype)
    optimizer = optax.adam(START_RATE)
    gradient = jax.vmap(jax.grad(lambda vector: -log_density(problem, vector) / problem.n))

    def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
        vectors, state = carry
        updates, state = optimizer.update(gradient(vectors), state)
        return (vectors + updates, state), None

    (vectors, _), _ = jax.lax.scan(step, (vectors, optimizer.init(vectors)), None, length=sampler.descent)
    return vectors


_block = jax.jit(run_block, static_argnames=("iterations", "leapfrogs"))
_information = jax.jit(mean_information, static_argnames="dense")


@jax.jit
def _geometry(mass: Array) -> Geometry:
    result: Geometry = jax.lax.map(geometry, mass)
    return result


def _contiguous(tensors: dict[str, Any]) -> dict[str, HostArray]:
    return {name: np.asarray(tensor, order="C") for name, tensor in tensors.items()}


def _check_same(path: Path, about: dict[str, str]) -> None:
    if not path.exists():
        files.write(path, json.dumps(about, indent=2).encode())
        return
    stored = json.loads(path.read_text())
    other = [name for name in about if stored.get(name) != about[name]]
    if other:
        given = f"{str(path.parent)!r}, a run with another {' and '.join(other)}"
        checks.reject("folder", given, "the same run, or none", "Choose another folder, or remove that one.")
