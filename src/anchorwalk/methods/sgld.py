"""Stochastic gradient Langevin dynamics (Welling and Teh 2011), at a constant step size from a trained start.

Differs from the paper on SAE, which compares with it: here it has the same contract and the same budget.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax

from anchorwalk import checks, tree
from anchorwalk.methods import minibatch
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params

WARM_UP = "warm-up"


class Langevin(FromMode):
    """What SGLD and SGHMC share: epochs of noisy steps, the last place of each call a draw."""

    step_size: float
    friction: float
    thin: int
    batch_size: int
    warmup: int

    def __post_init__(self) -> None:
        super().__post_init__()
        name = type(self).__name__
        object.__setattr__(self, "step_size", checks.positive(f"{name}(step_size=)", self.step_size))
        checks.count(f"{name}(thin=)", self.thin)
        checks.count(f"{name}(batch_size=)", self.batch_size)
        checks.count(f"{name}(warmup=)", self.warmup, least=0)

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, epochs without a draw, and then the draws."""
        yield from self.first_call()
        if self.warmup:
            yield Call(WARM_UP, draws=0, passes=self.warmup)
        for _ in range(members):
            yield Call(DRAW, passes=self.thin, trace=self.thin)

    def begin(self, key: Key, problem: Problem, params: Params) -> minibatch.Moving:
        """At rest."""
        return minibatch.at_rest(params)

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """Epochs; a chain that diverges restarts from where the call began."""

        def step(key: Key, i: Array, batch: Any, state: Any) -> tuple[Any, Array]:
            return minibatch.move(key, problem, batch, state, self.step_size, self.friction)

        def epoch(state: Any, key: Key) -> tuple[Any, Array]:
            return minibatch.epoch(key, problem, self.batch_size, step, state)

        epochs = self.thin if call.draws else self.warmup
        after, losses = jax.lax.scan(epoch, state, jax.random.split(keys.own, epochs))
        good = tree.all_finite(after)
        kept = tree.where(good, after, state)
        return kept, one_draw(problem, after.params, losses, good) if call.draws else no_draws(problem)


@tree.node(static=("thin", "batch_size", "warmup"))
@dataclass(frozen=True)
class SGLD(Langevin, Settings):
    """Langevin dynamics with gradients of minibatches.

    Its draws are biased by the gradients' noise and by the step size: with full batches and a posterior of precision P
    they have the covariance inv(P (1 - h P / 2)).

    Args:
        first: The training from which a chain begins; None for an initialisation.
        step_size: h, of the energy in nats.
        thin: Epochs for each draw.
        batch_size: Rows in a minibatch.
        warmup: Epochs before the first draw.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
        >>> aw.Plan(aw.SGLD(first, step_size=1e-6, thin=5), chains=2, members=80).epochs
        1000
    """

    first: Training | None
    step_size: float
    thin: int = 5
    batch_size: int = 32
    warmup: int = 0

    title = "Stochastic gradient Langevin dynamics"
    friction = 1.0
