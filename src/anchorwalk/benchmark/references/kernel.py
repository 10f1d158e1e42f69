"""Hamiltonian Monte Carlo with a dense metric of its own for each chain (blackjax), as compiled blocks of iterations.

Everything here is in float64: energies of a few thousand nats leave float32 too few digits for accept/reject.
"""

from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
from blackjax.adaptation.step_size import dual_averaging_adaptation
from blackjax.mcmc.metrics import Metric

from anchorwalk.benchmark.references.density import information, log_density
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key

TARGET = 0.85
"""Acceptance that the step size is tuned for."""
GAIN, GAIN_DELAY = 2.0, 100.0
"""After warm-up the logarithm of the step size moves by GAIN / (GAIN_DELAY + t) times the error of its acceptance."""
SHORTEST, LONGEST = 0.4, 1.2
"""Each trajectory's step size is drawn between these shares of the tuned one: no period of the posterior resonates, and
a chain that comes to a place of larger curvature than warm-up saw gets away from it with a short step."""


class Geometry(NamedTuple):
    """A chain's mass matrix M, the mean Fisher information where the chain has been; vectors for a diagonal M.

    Attributes:
        inverse: M⁻¹.
        root: The lower Cholesky factor of M.
    """

    inverse: Array
    root: Array


def geometry(mass: Array) -> Geometry:
    """The geometry of a mass matrix, or of the diagonal of one."""
    if mass.ndim == 1:
        return Geometry(1 / mass, jnp.sqrt(mass))
    root = jnp.linalg.cholesky(mass)
    inverse_root = jax.scipy.linalg.solve_triangular(root, jnp.eye(mass.shape[0]), lower=True)
    return Geometry(inverse_root.T @ inverse_root, root)


def _times(matrix: Array, vector: Array) -> Array:
    return matrix @ vector if matrix.ndim == 2 else matrix * vector


@jax.custom_jvp
def _kinetic_energy(momentum: Array, inverse: Array) -> Array:
    return 0.5 * momentum @ _times(inverse, momentum)


@_kinetic_energy.defjvp
def _velocity(primals: tuple[Array, Array], tangents: tuple[Array, Array]) -> tuple[Array, Array]:
    # M⁻¹ is symmetric and a constant of the motion, so one product serves the value and the gradient.
    momentum, inverse = primals
    velocity = _times(inverse, momentum)
    return 0.5 * momentum @ velocity, velocity @ tangents[0]


def _metric(geometry: Geometry) -> Metric:
    """The metric as blackjax takes it; its own dense metric factorises the mass matrix anew in every iteration."""

    def sample_momentum(key: Key, position: Array) -> Array:
        return _times(geometry.root, jax.random.normal(key, position.shape, position.dtype))

    def kinetic_energy(momentum: Array, position: Array | None = None) -> Array:
        return _kinetic_energy(momentum, geometry.inverse)

    def unused(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("plain Hamiltonian Monte Carlo does not ask for this")

    return Metric(sample_momentum, kinetic_energy, unused, unused)


class Block(NamedTuple):
    """What a block of iterations leaves of each chain.

    Attributes:
        positions: Where the chain was after each iteration, shape (chains, iterations, D).
        log_density: The same of the log-density.
        acceptance: Mean acceptance probability, shape (chains,).
        divergent: Share of trajectories whose energy ran away.
        tuning: State of the dual averaging.
    """

    positions: Array
    log_density: Array
    acceptance: Array
    divergent: Array
    tuning: Any


def start_tuning(step_size: Array) -> Any:
    """Dual averaging of each chain's step size (Nesterov 2009; Hoffman and Gelman 2014), from `step_size`."""
    tuning = jax.vmap(dual_averaging_adaptation(TARGET)[0])(step_size)
    return tuning._replace(log_step_size_avg=jnp.log(step_size))  # it would start at zero


def _settled(tuning: Any, acceptance: Array, iteration: Array) -> Any:
    """A step size after warm-up: Robbins and Monro's rule with a gain of 1 / t.

    Dual averaging would go on to oscillate with a fixed period: it is fed as if the step that it tries had been used.
    """
    gain = GAIN / (GAIN_DELAY + iteration)
    return tuning._replace(log_step_size_avg=tuning.log_step_size_avg + gain * (acceptance - TARGET))


def run_block(
    key: Key,
    problem: Problem,
    positions: Array,
    geometry: Geometry,
    tuning: Any,
    explore: Array,
    done: Array,
    iterations: int,
    leapfrogs: int,
) -> Block:
    """Some iterations of every chain, one chain after the other.

    Args:
        key: Of this block.
        problem: In float64.
        positions: Where the chains are, shape (chains, D).
        geometry: Of each chain.
        tuning: State of the dual averaging of each chain.
        explore: Whether step sizes are those that dual averaging tries, as in warm-up; else they change by 1 / t.
        done: Iterations since warm-up.
        iterations: Of each chain.
        leapfrogs: Steps of each trajectory.
    """
    kernel = blackjax.hmc.build_kernel()
    update = dual_averaging_adaptation(TARGET)[1]

    def density(vector: Array) -> Array:
        return log_density(problem, vector)

    def chain(arguments: tuple[Key, Array, Geometry, Any]) -> Block:
        key, position, geometry, tuning = arguments
        metric = _metric(geometry)

        def iterate(carry: tuple[Any, Any], this: tuple[Key, Array]) -> tuple[Any, Any]:
            (state, tuning), (key, iteration) = carry, this
            move_key, jitter_key = jax.random.split(key)
            step = jnp.exp(jnp.where(explore, tuning.log_step_size, tuning.log_step_size_avg))
            step = step * jax.random.uniform(jitter_key, (), step.dtype, SHORTEST, LONGEST)
            state, info = kernel(move_key, state, density, step, metric, leapfrogs)
            tuning = jax.tree.map(
                lambda new, old: jnp.where(explore, new, old),
                update(tuning, info.acceptance_rate),
                _settled(tuning, info.acceptance_rate, iteration),
            )
            return (state, tuning), (state.position, state.logdensity, info.acceptance_rate, info.is_divergent)

        start = (blackjax.hmc.init(position, density), tuning)
        numbers = done + jnp.arange(iterations)
        (_, tuning), trace = jax.lax.scan(iterate, start, (jax.random.split(key, iterations), numbers))
        positions, densities, acceptance, divergent = trace
        return Block(positions, densities, jnp.mean(acceptance), jnp.mean(divergent), tuning)

    keys = jax.random.split(key, positions.shape[0])
    blocks: Block = jax.lax.map(chain, (keys, positions, geometry, tuning))
    return blocks


def mean_information(key: Key, problem: Problem, positions: Array, dense: bool) -> Array:
    """The mean Fisher information over each chain's positions, shape (chains, D, D), or (chains, D) of its diagonal."""
    count, size = positions.shape[1:]

    def chain(arguments: tuple[Key, Array]) -> Array:
        def add(total: Array, one: tuple[Key, Array]) -> tuple[Array, None]:
            return total + information(one[0], problem, one[1], dense), None

        start = jnp.zeros((size, size) if dense else (size,), positions.dtype)
        return jax.lax.scan(add, start, (jax.random.split(arguments[0], count), arguments[1]))[0] / count

    result: Array = jax.lax.map(chain, (jax.random.split(key, positions.shape[0]), positions))
    return result
