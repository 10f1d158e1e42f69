"""Simplexes of low loss (SPRO; Benton et al. 2021): a mode, and vertices that are pushed apart while all between fits.

A vertex is trained on the loss at random places of the simplex that it makes with those before it, less a gain for the
simplex's volume. The volume grows with the vertex's distance from the span of the others, and only through it, so that
distance stands in its place. With several chains it is the ensemble of simplexes that the paper calls ESPRO.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from anchorwalk import checks, tree
from anchorwalk.methods import member, minibatch
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.methods.simplex_sae import within
from anchorwalk.objective import anchored_loss
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params

VERTEX = "vertex"
NEAR = 0.01
"""Prior standard deviations from the centre of the others at which a vertex begins: at the centre it has no volume."""


class SPROState(NamedTuple):
    """The vertices as vectors, and the directions that those there span; zeros for what is not there yet."""

    vertices: Array  # (vertices, parameters)
    basis: Array  # (vertices - 1, parameters), orthonormal


@tree.node(static=("vertices",))
@dataclass(frozen=True)
class SPRO(FromMode, Settings):
    """Uniform draws from simplexes of low loss; one simplex a chain.

    Draws cost nothing, so that `Plan.from_budget` wants `members=`. The volume's gain is no part of a posterior: what
    members spread over depends on it.

    Args:
        first: The training of the first vertex; None for an initialisation.
        then: The training of each other vertex, each step with the loss at one random place of the simplex.
        vertices: Of the simplex.
        gain: Of the logarithm of the volume, in nats a row.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3, end_rate=1e-5), epochs=200, batch_size=32)
        >>> then = aw.Training(aw.Adam(1e-3, end_rate=1e-5), epochs=100, batch_size=32)
        >>> aw.Plan(aw.SPRO(first, then, vertices=4), chains=2, members=20).epochs
        1000
    """

    first: Training | None
    then: Training
    vertices: int = 4
    gain: float = 1e-3

    title = "Simplexes of low loss"

    def __post_init__(self) -> None:
        super().__post_init__()
        member.check_training("SPRO(then=)", self.then)
        checks.count("SPRO(vertices=)", self.vertices, least=2)
        object.__setattr__(self, "gain", checks.positive("SPRO(gain=)", self.gain))

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first vertex, the others, and then draws."""
        yield from self._first()
        for _ in range(self.vertices - 1):
            yield Call(VERTEX, draws=0, passes=self.then.epochs)
        for _ in range(members):
            yield Call(DRAW)

    def begin(self, key: Key, problem: Problem, params: Params) -> SPROState:
        """The first vertex."""
        vector = tree.ravel(params)
        vertices = jnp.zeros((self.vertices, vector.size), vector.dtype).at[0].set(vector)
        return SPROState(vertices, jnp.zeros((self.vertices - 1, vector.size), vector.dtype))

    def place(self, problem: Problem, state: SPROState) -> Params:
        """The first vertex."""
        return tree.unravel(state.vertices[0], problem.params_like)

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """A vertex, or a draw."""
        if call.draws:
            return state, one_draw(problem, tree.unravel(within(keys.own, state.vertices), problem.params_like))
        return self._add(keys.own, problem, state, number + 1), no_draws(problem)

    def _add(self, key: Key, problem: Problem, state: SPROState, place: Array) -> SPROState:
        """One vertex more; `place` vertices are there."""
        begin_key, train_key = jax.random.split(key)
        there = jnp.arange(self.vertices) < place
        near = NEAR * tree.ravel(problem.prior.draw(begin_key, problem.params_like))
        begin = state.vertices.sum(0) / place + near
        optimizer: Any = optax.with_extra_args_support(self.then.build(problem.n))
        mean = member.prior_mean(problem)

        def loss(params: Params, key: Key, batch: Any) -> Array:
            vector = tree.ravel(params)
            vertices = jnp.where((jnp.arange(self.vertices) == place)[:, None], vector, state.vertices)
            inside = within(key, vertices, there | (jnp.arange(self.vertices) == place))
            fit = anchored_loss(problem, mean, tree.unravel(inside, problem.params_like), batch)
            return fit - self.gain * jnp.log(jnp.linalg.norm(away(state, vector)))

        def step(key: Key, i: Array, batch: Any, both: tuple[Params, Any]) -> tuple[Any, Array]:
            value, gradient = jax.value_and_grad(loss)(both[0], key, batch)
            updates, after = optimizer.update(gradient, both[1], both[0])
            return (optax.apply_updates(both[0], updates), after), value

        def epoch(number: Array, both: tuple[Params, Any]) -> tuple[Params, Any]:
            epoch_key = jax.random.fold_in(train_key, number)
            return minibatch.epoch(epoch_key, problem, self.then.batch_size, step, both)[0]  # type: ignore[no-any-return]

        params = tree.unravel(begin, problem.params_like)
        found, _ = jax.lax.fori_loop(0, self.then.epochs, epoch, (params, optimizer.init(params)))
        vector = tree.ravel(found)
        direction = away(state, vector)
        return SPROState(
            state.vertices.at[place].set(vector),
            state.basis.at[place - 1].set(direction / jnp.linalg.norm(direction)),
        )


def away(state: SPROState, vector: Array) -> Array:
    """What of the way from the first vertex leads out of the span of those that are there."""
    way = vector - state.vertices[0]
    return way - state.basis.T @ (state.basis @ way)
