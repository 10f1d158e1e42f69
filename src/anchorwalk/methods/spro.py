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

from anchorwalk import checks, tree
from anchorwalk.methods import gaussian, member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.methods.simplex_sae import within
from anchorwalk.objective import Batch, anchored_loss
from anchorwalk.optimizers import Training, train
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
        if self.then.mean_first is not None:
            given = f"mean_first={self.then.mean_first}"
            checks.reject("SPRO(then=)", given, "None: a vertex has a loss of its own", "Set mean_first=None.")
        if self.then.keep != "last":
            expected = "'last': a vertex by itself says nothing of its simplex"
            checks.reject("SPRO(then=)", f"keep={self.then.keep!r}", expected, "Set keep='last'.")
        checks.count("SPRO(vertices=)", self.vertices, least=2)
        object.__setattr__(self, "gain", checks.positive("SPRO(gain=)", self.gain))

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first vertex, the others, and then draws."""
        yield from self.first_call()
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
        begin_key, order_key, inside_key = jax.random.split(key, 3)
        numbers, mean = jnp.arange(self.vertices), member.prior_mean(problem)
        center = tree.unravel(state.vertices.sum(0) / place, problem.params_like)
        scale = NEAR * gaussian.flat(problem.prior.scale, problem.params_like, state.vertices.dtype)

        def loss(params: Params, batch: Batch, number: Array) -> Array:
            vector = tree.ravel(params)
            vertices = jnp.where((numbers == place)[:, None], vector, state.vertices)
            inside = within(jax.random.fold_in(inside_key, number), vertices, numbers <= place)
            fit = anchored_loss(problem, mean, tree.unravel(inside, problem.params_like), batch)
            return fit - self.gain * jnp.log(jnp.linalg.norm(away(state, vector)))

        begin = gaussian.draw(begin_key, center, scale)
        begin = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), begin, problem.params_like)
        vector = tree.ravel(train(order_key, problem, self.then, mean, begin, loss=loss).params)
        direction = away(state, vector)
        return SPROState(
            state.vertices.at[place].set(vector),
            state.basis.at[place - 1].set(direction / jnp.linalg.norm(direction)),
        )


def away(state: SPROState, vector: Array) -> Array:
    """What of the way from the first vertex leads out of the span of those that are there."""
    way = vector - state.vertices[0]
    return way - state.basis.T @ (state.basis @ way)
