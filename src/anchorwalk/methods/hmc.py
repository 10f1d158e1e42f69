"""Hamiltonian Monte Carlo with a metric of its own for each chain, by blackjax's kernel.

Differs from the paper, which has none: it samples the posterior itself, at a cost that only small networks can afford.
Starts are more dispersed than the posterior. Each window of warm-up takes a chain's mass matrix from the Fisher
information where the last window has been. After warm-up the mass matrix keeps adapting, as a running mean: frozen, it
lets chains stick at places of larger curvature. It and the step size change by 1 / t at iteration t, so that the
draws still have the posterior as their limit (diminishing adaptation; Roberts and Rosenthal 2007).

Everything is in float64: energies of a few thousand nats leave float32 too few digits for accept/reject.
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
from anchorwalk.methods.collapsed import Collapsed
from anchorwalk.methods.density import Density, Joint, log_density, mean_information, params_dtype, params_of, widened
from anchorwalk.methods.hmc_kernel import Block, geometry, run_block, tune_from
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key

START_RATE = 0.01  # Adam's rate in the descent to a chain's start
FIRST_STEP = 0.01  # the step size that warm-up begins with
INFORMED = 2  # places in a block at which the information is taken
DENSE = 2000  # parameters up to which a mass matrix is dense; above, it is diagonal


class HMCState(NamedTuple):
    """Where a chain is, as vectors in float64."""

    position: Array
    start: Array  # where it began, after its descent
    mass: Array  # its mass matrix, or the diagonal of one
    weight: Array  # blocks that the mass matrix is the mean of
    tuning: Any  # state of the dual averaging of its step size


@tree.node(static=("windows", "thin", "leapfrogs", "block", "draws", "descent", "integrate_out"))
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
        integrate_out: Name of the network's last layer, such as `dense_1`, whose weights of the mean are integrated out
            of what is sampled, and drawn given the rest. For normal noise. Chains mix in far fewer iterations, each of
            which costs some six times as much.

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
    integrate_out: str | None = None

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
        if self.integrate_out is not None:
            Collapsed(problem, self.integrate_out).check()
        return widened(problem)

    def _density(self, problem: Problem) -> Density:
        return Joint(problem) if self.integrate_out is None else Collapsed(problem, self.integrate_out)

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
        mean, scale = self._density(problem).prior()
        draw = jax.random.normal(jax.random.fold_in(keys.own, attempt), scale.shape, scale.dtype)
        position = mean + scale * draw
        mass = jnp.ones((scale.size, scale.size) if scale.size <= DENSE else scale.shape, scale.dtype)
        return HMCState(position, position, mass, jnp.zeros(()), tune_from(jnp.asarray(FIRST_STEP)))

    def step(self, keys: Keys, problem: Problem, state: HMCState, call: Call, number: Array) -> tuple[HMCState, Draws]:
        """A start, a window, or draws."""
        if call.draws:
            return self._draw(keys.own, problem, state, number)
        density = self._density(problem)
        info = dict.fromkeys(("log_density", "acceptance", "divergent", "step_size"), jnp.zeros(0))
        none = _draws(problem, jnp.zeros((0, problem.size)), info)
        if call.kind == "warm-up":
            return self._warm_up(keys.own, density, state, number), none
        descent_key, mass_key = jax.random.split(keys.own)
        if self.training is None:
            position = self._descend(problem, density, state.position)
        else:
            position = self._optimum(descent_key, problem, self.training, density, state.position)
        mass = mean_information(mass_key, density, position[None], dense=state.mass.ndim == 2)
        return state._replace(position=position, start=position, mass=mass), none

    def _optimum(self, key: Key, problem: Problem, training: Training, density: Density, position: Array) -> Array:
        init_key, order_key, anchor_key = (
            jax.random.split(key, 3) if self.integrate_out else (*jax.random.split(key), key)
        )
        anchor = params_of(problem, density.anchor(anchor_key, position))
        first = member.initialise(init_key, problem, jnp.uint32(0))
        first = jax.tree.map(lambda leaf: leaf.astype(position.dtype), first)
        return density.part(tree.ravel(train(order_key, problem, training, anchor, first)[0]))

    def _descend(self, problem: Problem, density: Density, position: Array) -> Array:
        optimizer = optax.adam(START_RATE)
        gradient = jax.grad(lambda vector: -density.log_density(vector) / problem.n)

        def step(carry: tuple[Array, Any], _: None) -> tuple[tuple[Array, Any], None]:
            vector, state = carry
            updates, state = optimizer.update(gradient(vector), state)
            return (vector + updates, state), None

        (position, _), _ = jax.lax.scan(step, (position, optimizer.init(position)), None, length=self.descent)
        return position

    def _warm_up(self, key: Key, density: Density, state: HMCState, number: Array) -> HMCState:
        """One window: the metric stays, step sizes are explored, and the next metric is gathered."""
        blocks = jnp.asarray([window // self.block for window in self.windows])[number - 1]
        shape = geometry(state.mass)

        def block(i: Array, carry: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
            position, tuning, total = carry
            run_key, mass_key = jax.random.split(jax.random.fold_in(key, i))
            found = run_block(run_key, density, position, shape, tuning, True, 0, self.block, self.leapfrogs)
            return found.positions[-1], found.tuning, total + self._information(mass_key, density, found, state)

        begin = (state.position, tune_from(jnp.exp(state.tuning.log_step_size_avg)), jnp.zeros_like(state.mass))
        position, tuning, total = jax.lax.fori_loop(0, blocks, block, begin)
        weight = blocks.astype(state.weight.dtype)
        return state._replace(position=position, tuning=tuning, mass=total / weight, weight=weight)

    def _draw(self, key: Key, problem: Problem, state: HMCState, number: Array) -> tuple[HMCState, Draws]:
        """Draws, while metric and step size keep changing by 1 / t."""
        blocks = self.draws * self.thin // self.block
        before = (number - 1 - len(self.windows)) * self.draws * self.thin
        density, complete_key = self._density(problem), jax.random.fold_in(key, blocks)

        def block(state: HMCState, i: Array) -> tuple[HMCState, Block]:
            run_key, mass_key = jax.random.split(jax.random.fold_in(key, i))
            position, tuning, weight = state.position, state.tuning, state.weight
            shape, done = geometry(state.mass), before + i * self.block
            found = run_block(run_key, density, position, shape, tuning, False, done, self.block, self.leapfrogs)
            seen = self._information(mass_key, density, found, state)
            mass = (weight * state.mass + seen) / (weight + 1)
            after = HMCState(found.positions[-1], state.start, mass, weight + 1, found.tuning)
            return after, found._replace(tuning=jnp.full(self.block, jnp.exp(found.tuning.log_step_size_avg)))

        state, found = jax.lax.scan(block, state, jnp.arange(blocks))

        def kept(values: Array) -> Array:
            return values.reshape(self.draws, self.thin, *values.shape[2:])

        keys = jax.random.split(complete_key, self.draws)
        vectors = jax.lax.map(lambda one: density.complete(*one), (keys, kept(found.positions)[:, -1]))
        info = {
            "log_density": jax.lax.map(lambda vector: log_density(problem, vector), vectors),
            "acceptance": kept(found.acceptance).mean(axis=1),
            "divergent": kept(found.divergent).mean(axis=1),
            "step_size": kept(found.tuning)[:, -1],
        }
        return state, _draws(problem, vectors, info)

    def _information(self, key: Key, density: Density, found: Block, state: HMCState) -> Array:
        every = max(1, self.block // INFORMED)
        return mean_information(key, density, found.positions[every - 1 :: every], dense=state.mass.ndim == 2)


def _draws(problem: Problem, vectors: Array, info: dict[str, Array]) -> Draws:
    """Vectors of parameters as draws; there may be none."""
    count, dtype = len(vectors), params_dtype(problem)
    params = jax.vmap(lambda vector: params_of(problem, vector))(vectors.astype(dtype))
    return Draws(params, jnp.zeros((count, 0)), jnp.ones(count, bool), info)
