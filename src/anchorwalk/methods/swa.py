"""Stochastic weight averaging (Izmailov et al. 2018): the mean of places that a training goes through."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params

COLLECT = "collect"


class SWAState(NamedTuple):
    """Where the training is, and the mean of the places so far."""

    params: Params
    mean: Params


def precisely(params: Params) -> Params:
    """The same numbers in float32, where they have fewer bits: means need them."""
    return jax.tree.map(lambda leaf: leaf.astype(tree.precise(leaf.dtype)), params)


def towards(mean: Params, params: Params, number: Array) -> Params:
    """The mean with one place more; so many were in it before."""
    return jax.tree.map(lambda m, p: m + (p - m) / (number + 1), mean, precisely(params))


class Collecting(FromMode):
    """A method that collects places at the ends of short trainings, each from the end of the last."""

    first: Training | None
    then: Training
    points: int

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        member.check_training(f"{name}(then=)", self.then)
        checks.count(f"{name}(points=)", self.points, least=2)
        if self.first is not None and self.first.keep != self.then.keep:
            expected = f"keep={self.first.keep!r}, as in first="
            checks.reject(f"{name}(then=)", f"keep={self.then.keep!r}", expected, "Both must use the same rows.")

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, the places, and then draws, which cost nothing."""
        yield from self.first_call()
        for _ in range(self.points):
            yield Call(COLLECT, draws=0, passes=self.then.epochs)
        for _ in range(members):
            yield Call(DRAW)

    def next_place(self, key: Key, problem: Problem, params: Params) -> Params:
        """The end of a short training."""
        return train(key, problem, self.then, member.prior_mean(problem), params).params

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """Collect a place, or draw."""
        if call.draws:
            return state, one_draw(problem, self.draw(keys.own, state))
        return self.collect(state, self.next_place(keys.own, problem, state.params), number), no_draws(problem)

    def collect(self, state: Any, params: Params, number: Array) -> Any:
        """The state with one place more; `number` counts those before."""
        raise NotImplementedError

    def draw(self, key: Key, state: Any) -> Params:
        """A draw from what was collected."""
        raise NotImplementedError


class Averaging(Collecting):
    """A method whose only draw in a chain is the mean of the places."""

    one_member = True

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, the places, and their mean."""
        if members != 1:
            remedy = f"Set members=1 and chains={members}: every mean is a chain of its own."
            checks.reject("Plan(members=)", f"{members} with {type(self).__name__}", "one member a chain", remedy)
        yield from super().calls(problem, members)

    def begin(self, key: Key, problem: Problem, params: Params) -> SWAState:
        """No place is in the mean yet."""
        return SWAState(params, jax.tree.map(lambda leaf: 0 * leaf, precisely(params)))

    def collect(self, state: SWAState, params: Params, number: Array) -> SWAState:
        """The mean with one place more."""
        return SWAState(params, towards(state.mean, params, number))

    def draw(self, key: Key, state: SWAState) -> Params:
        """The mean."""
        return state.mean


@tree.node(static=("points",))
@dataclass(frozen=True)
class SWA(Averaging, Settings):
    """The mean of places that a training goes through at a high rate; one a chain, which together are an ensemble.

    Args:
        first: The training from which a chain begins; None for an initialisation.
        then: The short training to the next place. Its rate should stay high, or end low and begin high again, so that
            places differ. The optimiser's state is fresh in each.
        points: Places in the mean.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3, end_rate=1e-4), epochs=80, batch_size=32)
        >>> then = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=32)
        >>> aw.Plan(aw.SWA(first, then, points=20), chains=10).epochs
        1000
    """

    first: Training | None
    then: Training
    points: int = 20

    title = "Stochastic weight averaging"
