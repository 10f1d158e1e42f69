"""SWAG (Maddox et al. 2019): a normal distribution fitted to places that a training goes through.

With several chains it is MultiSWAG (Wilson and Izmailov 2020).
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import gaussian
from anchorwalk.methods.swa import Collecting, precisely, towards
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


class SWAGState(NamedTuple):
    """Where the training is, and what is known of the places so far."""

    params: Params
    mean: Params
    squares: Array  # of each parameter: the sum of squares around the mean
    deviations: Array  # (parameters, rank): the last places less the mean at that time


@tree.node(static=("points", "rank"))
@dataclass(frozen=True)
class SWAG(Collecting, Settings):
    """Draws from a normal fitted to places of a training: half its covariance is their variances, half of low rank.

    Draws cost nothing, so that `Plan.from_budget` wants `members=`.

    Args:
        first: As in `SWA`.
        then: As in `SWA`.
        points: Places that the normal is fitted to.
        rank: The last so many places make the part of low rank.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3, end_rate=1e-4), epochs=80, batch_size=32)
        >>> then = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=32)
        >>> aw.Plan(aw.SWAG(first, then, points=20), chains=10, members=30).epochs
        1000
    """

    first: Training | None
    then: Training
    points: int = 20
    rank: int = 20

    title = "SWAG"

    def __post_init__(self) -> None:
        super().__post_init__()
        if checks.count("SWAG(rank=)", self.rank, least=2) > self.points:
            expected = f"at most points, {self.points}"
            checks.reject("SWAG(rank=)", self.rank, expected, "Set a lower rank, or more points.")

    def begin(self, key: Key, problem: Problem, params: Params) -> SWAGState:
        """No place yet."""
        vector = tree.ravel(precisely(params))
        zeros = jnp.zeros((vector.size, self.rank), vector.dtype)
        return SWAGState(params, jax.tree.map(lambda leaf: 0 * leaf, precisely(params)), 0 * vector, zeros)

    def collect(self, state: SWAGState, params: Params, number: Array) -> SWAGState:
        """Mean, squares and deviations with one place more."""
        mean = towards(state.mean, params, number)
        place, before, after = (tree.ravel(precisely(one)) for one in (params, state.mean, mean))
        squares = state.squares + (place - before) * (place - after)  # Welford's update
        deviations = state.deviations.at[:, number % self.rank].set(place - after)
        return SWAGState(params, mean, squares, deviations)

    def draw(self, key: Key, state: SWAGState) -> Params:
        """From N(mean, diag(variances) / 2 + D Dᵀ / (2 (rank - 1)))."""
        scale = jnp.sqrt(state.squares / (2 * self.points))
        return gaussian.draw(key, state.mean, scale, state.deviations / jnp.sqrt(2.0 * (self.rank - 1)))
