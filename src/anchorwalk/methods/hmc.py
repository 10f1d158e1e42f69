"""Hamiltonian Monte Carlo with a metric of its own for each chain, by blackjax's kernel.

Differs from the paper, which has none: it samples the posterior itself, at a cost that only small networks can afford.
Each chain starts at a draw from the prior and a short descent, or at the optimum of a training towards such a draw, so
that starts are more dispersed than the posterior. Windows of warm-up, each about twice as long as the last, take a
chain's mass matrix from the Fisher information where the last window has been.

After warm-up the mass matrix goes on as the running mean of the information over the chain since its last window, and
the step size by Robbins and Monro's rule: a chain that comes to places of larger curvature than warm-up saw would
otherwise stick there. Both change by 1 / t at iteration t, less and less, which is the condition under which the
draws still have the posterior as their limit (diminishing adaptation; Roberts and Rosenthal 2007).

Everything is computed in float64: energies of a few thousand nats leave float32 too few digits for accept/reject.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.density import information, log_density, params_dtype, params_of, prior_vectors, widened
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key

TARGET = 0.85
"""Acceptance that the step size is tuned for."""
GAIN, GAIN_DELAY = 2.0, 100.0
"""After warm-up the logarithm of the step size moves by GAIN / (GAIN_DELAY + t) times the error of its acceptance."""
SHORTEST, LONGEST = 0.4, 1.2
"""Each trajectory's step size is drawn between these shares of the tuned one: no period of the posterior resonates, and
a chain that comes to a place of larger curvature than warm-up saw gets away from it with a short step."""
START_RATE = 0.01
"""Adam's rate in the descent to a chain's start."""
FIRST_STEP = 0.01
"""The step size that warm-up begins with."""
INFORMED = 2
"""Places in a block at which the information is taken."""
DENSE = 2000
"""Parameters up to which a mass matrix is dense; above, it is diagonal."""


class HMCState(NamedTuple):
    """Where a chain is, as vectors in float64.

    Attributes:
        position: The parameters.
        start: Where it began, after its descent.
        mass: Its mass matrix, or the diagonal of one.
        weight: Blocks that the mass matrix is the mean of.
        tuning: State of the dual averaging of its step size.
    """

    position: Array
    start: Array
    mass: Array
    weight: Array
    tuning: Any


@tree.node(static=("windows", "thin", "leapfrogs", "block", "draws", "descent"))
@dataclass(frozen=True)
class HMC(Settings):
    """Hamiltonian Monte Carlo: draws from the posterior itself, with gradients over all rows.

    A call of a chain is its start, a window of warm-up, or a number of draws, and a kill costs one call. It needs
    blackjax: `pip install 'anchorwalk[reference]'`.

    Args:
        windows: Iterations of each window of warm-up, multiples of `block`.
        thin: Iterations for each draw that is kept; a divisor of `block`.
        leapfrogs: Steps of a trajectory; each is a pass over the data.
        block: Iterations between two looks at the Fisher information.
        draws: Draws of one call; `draws * thin` is a multiple of `block`. A chain gets whole calls: draws beyond the
            plan's members are made and not used.
        descent: Full-batch Adam steps from a draw of the prior to a chain's start.
        training: Where a chain starts instead: at the optimum of this training towards a draw of the prior.

    Raises:
        InvalidInput: Numbers that do not go together.

    Example:
        >>> import anchorwalk as aw
        >>> plan = aw.Plan(aw.HMC(windows=(50, 100), leapfrogs=10), chains=4, members=100)
        >>> plan.epochs  # 4 * (501 + 503 + 1006 + 2 * 5030)
        48280
    """

    windows: tuple[int, ...] = (50, 50, 100, 200, 400, 800, 1600)
    thin: int = 10
    leapfrogs: int = 40
    block: int = 50
    draws: int = 50
    descent: int = 500
    training: Training | None = None

    title = "Hamiltonian Monte Carlo"

    def __post_init__(self) -> None:
        object.__setattr__(self, "windows", tuple(self.windows))
        for name in ("thin", "leapfrogs", "block", "draws", "descent"):
            checks.count(f"HMC({name}=)", getattr(self, name))
        for iterations in (*self.windows, self.draws * self.thin):
            if checks.count("HMC(windows=)", iterations) % self.block:
                given = f"{iterations} iterations with blocks of {self.block}"
                checks.reject("HMC", given, "windows and draws * thin in whole blocks", "Change block=.")
        if not self.windows:
            checks.reject("HMC(windows=)", "none", "at least one window of warm-up", "Pass (50, 50, 100).")
        if self.block % self.thin:
            checks.reject("HMC(thin=)", self.thin, f"a divisor of the block, {self.block}", "Change thin=.")
        if self.training is not None:
            member.check_training("HMC(training=)", self.training)

    def shortened(self, percent: int) -> "HMC":
        """The same with a part of the warm-up, in whole blocks.

        Example:
            >>> import anchorwalk as aw
            >>> sum(aw.HMC().shortened(50).windows)
            1650
        """
        share = checks.count("percent", percent) / 100
        windows = tuple(max(1, round(share * window / self.block)) * self.block for window in self.windows)
        return replace(self, windows=windows)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """The problem in float64."""
        if find_spec("blackjax") is None:
            checks.reject("HMC", "no blackjax", "blackjax", "pip install 'anchorwalk[reference]'")
        if self.training is not None:
            problem = member.prepare(key, problem, {"HMC(training=)": self.training})
        return widened(problem)

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A start, the windows of warm-up, and then draws."""
        begin = self.descent if self.training is None else self.training.epochs
        yield Call("start", draws=0, passes=begin + 1)
        for window in self.windows:
            yield Call("warm-up", draws=0, passes=self._passes(window))
        for _ in range(-(-members // self.draws)):
            yield Call("draws", self.draws, self._passes(self.draws * self.thin))

    def _passes(self, iterations: int) -> int:
        """Gradients, and in each block looks at the information and the density at its start."""
        return iterations * self.leapfrogs + iterations // self.block * (INFORMED + 1)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> HMCState:
        """A draw from the prior; another attempt draws another one."""
        mean, scale = prior_vectors(problem, jnp.float64)
        draw = jax.random.normal(jax.random.fold_in(keys.own, attempt), scale.shape, scale.dtype)
        position = mean + scale * draw
        mass = jnp.ones((scale.size, scale.size) if problem.size <= DENSE else scale.shape, scale.dtype)
        return HMCState(position, position, mass, jnp.zeros(()), tune_from(jnp.asarray(FIRST_STEP)))

    def step(self, keys: Keys, problem: Problem, state: HMCState, call: Call, number: Array) -> tuple[HMCState, Draws]:
        """A start, a window, or draws."""
        if call.kind == "start":
            return self._begin(keys.own, problem, state), _no_draws(problem)
        if call.kind == "warm-up":
            return self._warm_up(keys.own, problem, state, number), _no_draws(problem)
        return self._draw(keys.own, problem, state, number)

    def _begin(self, key: Key, problem: Problem, state: HMCState) -> HMCState:
        """Descend from the draw of the prior, and look at the information there."""
        descent_key, mass_key = jax.random.split(key)
        position = self._descend(descent_key, problem, state.position)
        mass = mean_information(mass_key, problem, position[None])
        return state._replace(position=position, start=position, mass=mass)

    def _descend(self, key: Key, problem: Problem, position: Array) -> Array:
        if self.training is not None:
            init_key, order_key = jax.random.split(key)
            anchor = params_of(problem, position)
            first = jax.tree.map(
                lambda leaf: leaf.astype(position.dtype), member.initialise(init_key, problem, jnp.uint32(0))
            )
            return tree.ravel(train(order_key, problem, self.training, anchor, first)[0])
        optimizer = optax.adam(START_RATE)
        gradient = jax.grad(lambda vector: -log_density(problem, vector) / problem.n)

        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            vector, state = carry
            updates, state = optimizer.update(gradient(vector), state)
            return (vector + updates, state), None

        (position, _), _ = jax.lax.scan(step, (position, optimizer.init(position)), None, length=self.descent)
        return position

    def _warm_up(self, key: Key, problem: Problem, state: HMCState, number: Array) -> HMCState:
        """One window: the metric stays, step sizes are explored, and the next metric is gathered."""
        blocks = jnp.asarray([window // self.block for window in self.windows])[number - 1]
        shape = geometry(state.mass)

        def block(i: Array, carry: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
            position, tuning, total = carry
            run_key, mass_key = jax.random.split(jax.random.fold_in(key, i))
            done = jnp.zeros((), jnp.int32)
            found = run_block(run_key, problem, position, shape, tuning, True, done, self.block, self.leapfrogs)
            return found.positions[-1], found.tuning, total + self._information(mass_key, problem, found.positions)

        begin = (state.position, tune_from(jnp.exp(state.tuning.log_step_size_avg)), jnp.zeros_like(state.mass))
        position, tuning, total = jax.lax.fori_loop(0, blocks, block, begin)
        weight = blocks.astype(state.weight.dtype)
        return state._replace(position=position, tuning=tuning, mass=total / weight, weight=weight)

    def _draw(self, key: Key, problem: Problem, state: HMCState, number: Array) -> tuple[HMCState, Draws]:
        """Draws, while metric and step size go on to change by 1 / t."""
        blocks = self.draws * self.thin // self.block
        before = (number - 1 - len(self.windows)) * self.draws * self.thin

        def block(state: HMCState, i: Array) -> tuple[HMCState, Block]:
            run_key, mass_key = jax.random.split(jax.random.fold_in(key, i))
            shape, done = geometry(state.mass), before + i * self.block
            found = run_block(
                run_key, problem, state.position, shape, state.tuning, False, done, self.block, self.leapfrogs
            )
            seen = self._information(mass_key, problem, found.positions)
            mass = (state.weight * state.mass + seen) / (state.weight + 1)
            after = state._replace(
                position=found.positions[-1], tuning=found.tuning, mass=mass, weight=state.weight + 1
            )
            return after, found._replace(tuning=jnp.full(self.block, jnp.exp(found.tuning.log_step_size_avg)))

        state, found = jax.lax.scan(block, state, jnp.arange(blocks))

        def kept(values: Array) -> Array:
            return values.reshape(self.draws, self.thin, *values.shape[2:])

        vectors = kept(found.positions)[:, -1].astype(params_dtype(problem))
        info = {
            "log_density": kept(found.log_density)[:, -1],
            "acceptance": kept(found.acceptance).mean(axis=1),
            "divergent": kept(found.divergent).mean(axis=1),
            "step_size": kept(found.tuning)[:, -1],
        }
        params = jax.vmap(lambda vector: params_of(problem, vector))(vectors)
        return state, Draws(params, jnp.zeros((self.draws, 0)), jnp.ones(self.draws, bool), info)

    def _information(self, key: Key, problem: Problem, positions: Array) -> Array:
        every = max(1, self.block // INFORMED)
        return mean_information(key, problem, positions[every - 1 :: every])


def _no_draws(problem: Problem) -> Draws:
    """What a call without draws returns."""
    params = params_of(problem, jnp.zeros(problem.size, params_dtype(problem)))
    info = {name: jnp.zeros(0) for name in ("log_density", "acceptance", "divergent", "step_size")}
    empty = jax.tree.map(lambda leaf: jnp.zeros((0, *leaf.shape), leaf.dtype), params)
    return Draws(empty, jnp.zeros((0, 0)), jnp.zeros(0, bool), info)


class Geometry(NamedTuple):
    """A chain's mass matrix M, the mean Fisher information where the chain has been; vectors for a diagonal M.

    Attributes:
        inverse: M⁻¹.
        root: The lower Cholesky factor of M.
    """

    inverse: Array
    root: Array


@jax.custom_batching.sequential_vmap  # type: ignore[untyped-decorator]
def geometry(mass: Array) -> Geometry:
    """The geometry of a mass matrix, or of the diagonal of one.

    Chains take turns: XLA's CPU programs wait for each other for ever where two of them factorise batches of matrices
    at the same time.
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
    """What a block of iterations leaves of a chain.

    Attributes:
        positions: Where the chain was after each iteration, shape (iterations, D).
        log_density: The same of the log-density.
        acceptance: The same of the acceptance probability.
        divergent: Whether the energy of each trajectory ran away.
        tuning: State of the dual averaging.
    """

    positions: Array
    log_density: Array
    acceptance: Array
    divergent: Array
    tuning: Any


def tune_from(step_size: Array) -> Any:
    """Dual averaging of a step size (Nesterov 2009; Hoffman and Gelman 2014), from `step_size` on."""
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    tuning = dual_averaging_adaptation(TARGET)[0](step_size)
    tuning = tuning._replace(log_step_size_avg=jnp.log(step_size))  # it would start at zero
    return jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), tuning)


def _settled(tuning: Any, acceptance: Array, iteration: Array) -> Any:
    """A step size after warm-up: Robbins and Monro's rule with a gain of 1 / t.

    Dual averaging would go on to oscillate with a fixed period: it is fed as if the step that it tries had been used.
    """
    gain = GAIN / (GAIN_DELAY + iteration)
    return tuning._replace(log_step_size_avg=tuning.log_step_size_avg + gain * (acceptance - TARGET))


def run_block(
    key: Key,
    problem: Problem,
    position: Array,
    geometry: Geometry,
    tuning: Any,
    explore: bool,
    done: Array,
    iterations: int,
    leapfrogs: int,
) -> Block:
    """Some iterations of a chain.

    Args:
        key: Of this block.
        problem: In float64.
        position: Where the chain is.
        geometry: Of the chain.
        tuning: State of the dual averaging.
        explore: Whether step sizes are those that dual averaging tries, as in warm-up; else they change by 1 / t.
        done: Iterations since warm-up.
        iterations: How many.
        leapfrogs: Steps of each trajectory.
    """
    import blackjax
    from blackjax.adaptation.step_size import dual_averaging_adaptation

    kernel = blackjax.hmc.build_kernel()
    update = dual_averaging_adaptation(TARGET)[1]
    metric = _metric(geometry)

    def density(vector: Array) -> Array:
        return log_density(problem, vector)

    def iterate(carry: tuple[Any, Any], this: tuple[Key, Array]) -> tuple[Any, Any]:
        (state, tuning), (key, iteration) = carry, this
        move_key, jitter_key = jax.random.split(key)
        step = jnp.exp(tuning.log_step_size if explore else tuning.log_step_size_avg)
        step = step * jax.random.uniform(jitter_key, (), step.dtype, SHORTEST, LONGEST)
        state, info = kernel(move_key, state, density, step, metric, leapfrogs)
        acceptance = info.acceptance_rate
        after = update(tuning, acceptance) if explore else _settled(tuning, acceptance, iteration)
        after = jax.tree.map(lambda new, old: new.astype(old.dtype), after, tuning)
        return (state, after), (state.position, state.logdensity, acceptance, info.is_divergent)

    start = (blackjax.hmc.init(position, density), tuning)
    numbers = done + jnp.arange(iterations)
    (_, tuning), trace = jax.lax.scan(iterate, start, (jax.random.split(key, iterations), numbers))
    positions, densities, acceptance, divergent = trace
    return Block(positions, densities, acceptance, divergent, tuning)


def mean_information(key: Key, problem: Problem, positions: Array) -> Array:
    """The mean Fisher information over positions, shape (D, D), or (D,) of its diagonal for large networks."""
    count, size = positions.shape
    dense = size <= DENSE

    def add(total: Array, one: tuple[Key, Array]) -> tuple[Array, None]:
        return total + information(one[0], problem, one[1], dense), None

    begin = jnp.zeros((size, size) if dense else (size,), positions.dtype)
    return jax.lax.scan(add, begin, (jax.random.split(key, count), positions))[0] / count
