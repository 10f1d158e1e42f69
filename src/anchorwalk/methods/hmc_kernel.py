"""The kernel of Hamiltonian Monte Carlo: trajectories in a chain's own metric, and the tuning of their step size."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk.methods.density import Density
from anchorwalk.types import Array, Key

TARGET = 0.85  # acceptance that the step size is tuned for
GAIN, GAIN_DELAY = 2.0, 100.0  # after warm-up log(step size) moves by GAIN / (GAIN_DELAY + t) x error of acceptance
# Each trajectory draws its step size between these shares of the tuned one: no period of the posterior resonates, and
# with a short step a chain leaves places of larger curvature than warm-up saw.
SHORTEST, LONGEST = 0.4, 1.2


class Geometry(NamedTuple):
    """A chain's mass matrix M, the mean Fisher information where the chain has been; vectors for a diagonal M."""

    inverse: Array  # M⁻¹
    root: Array  # the lower Cholesky factor of M


@jax.custom_batching.sequential_vmap  # type: ignore[untyped-decorator]
def geometry(mass: Array) -> Geometry:
    """The geometry of a mass matrix, or of the diagonal of one.

    Chains take turns: two of XLA's CPU programs that factorise batches at the same time wait for each other for ever.
    """
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


def _metric(geometry: Geometry) -> Any:
    """The metric as blackjax takes it; its own dense metric factorises the mass matrix anew in every iteration."""
    from blackjax.mcmc.metrics import Metric

    def sample_momentum(key: Key, position: Array) -> Array:
        return _times(geometry.root, jax.random.normal(key, position.shape, position.dtype))

    def kinetic_energy(momentum: Array, position: Array | None = None) -> Array:
        return _kinetic_energy(momentum, geometry.inverse)

    def unused(*_: Any, **__: Any) -> Any:
        raise NotImplementedError("plain Hamiltonian Monte Carlo does not ask for this")

    return Metric(sample_momentum, kinetic_energy, unused, unused)


class Block(NamedTuple):
    """What a block of iterations leaves of a chain, with a leading axis of iterations."""

    positions: Array
    log_density: Array
    acceptance: Array  # the acceptance probability
    divergent: Array  # whether the energy of the trajectory ran away
    tuning: Any  # state of the dual averaging at the end


def tune_from(step_size: Array) -> Any:
    """Dual averaging of a step size (Nesterov 2009; Hoffman and Gelman 2014), from `step_size` on."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    tuning = dual_averaging_adaptation(TARGET)[0](step_size)
    tuning = tuning._replace(log_step_size_avg=jnp.log(step_size))  # it would start at zero
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tuning)


def run_block(
    key: Key,
    density: Density,
    position: Array,
    geometry: Geometry,
    tuning: Any,
    explore: bool,
    done: Array | int,
    iterations: int,
    leapfrogs: int,
) -> Block:
    """Some iterations of a chain.

    In warm-up (`explore`) the step sizes are those that dual averaging tries. After it, where `done` counts iterations,
    they change by Robbins and Monro's rule, with a gain of 1 / t: dual averaging would keep oscillating with a fixed
    period, since it is fed as if the step that it tries had been used.
    """
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    kernel = blackjax.hmc.build_kernel()
    update = dual_averaging_adaptation(TARGET)[1]
    metric = _metric(geometry)

    def iterate(carry: tuple[Any, Any], this: tuple[Key, Array]) -> tuple[Any, Any]:
        (state, tuning), (key, iteration) = carry, this
        move_key, jitter_key = jax.random.split(key)
        step = jnp.exp(tuning.log_step_size if explore else tuning.log_step_size_avg)
        step = step * jax.random.uniform(jitter_key, (), step.dtype, SHORTEST, LONGEST)
        state, info = kernel(move_key, state, density.log_density, step, metric, leapfrogs)
        acceptance = info.acceptance_rate
        if explore:
            after = update(tuning, acceptance)
        else:
            gain = GAIN / (GAIN_DELAY + iteration)
            after = tuning._replace(log_step_size_avg=tuning.log_step_size_avg + gain * (acceptance - TARGET))
        after = jax.tree.map(lambda new, old: new.astype(old.dtype), after, tuning)
        return (state, after), (state.position, state.logdensity, acceptance, info.is_divergent)

    start = (blackjax.hmc.init(position, density.log_density), tuning)
    numbers = done + jnp.arange(iterations)
    (_, tuning), trace = jax.lax.scan(iterate, start, (jax.random.split(key, iterations), numbers))
    positions, densities, acceptance, divergent = trace
    return Block(positions, densities, acceptance, divergent, tuning)
