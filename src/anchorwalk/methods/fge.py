"""Fast geometric ensembling (Garipov et al. 2018): short cycles of the rate around a mode, a member in each.

Differs from that paper: a cycle begins and ends at its lowest rate, where its member is, and not in between; and the
optimiser's state is fresh in each.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode
from anchorwalk.optimizers import Training
from anchorwalk.optimizers.soap import around
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


class TriangleState(NamedTuple):
    """Steps so far, and the optimiser's own state."""

    step: Array
    inner: Any


@tree.node()
@dataclass(frozen=True)
class Triangle(Settings):
    """An optimiser whose rate rises from a share of its own to all of it, and falls back, along straight lines."""

    optimizer: Any
    low: float

    @property
    def any_steps(self) -> bool:
        """As the optimiser itself."""
        return bool(getattr(self.optimizer, "any_steps", False))

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for one cycle of `steps` steps."""

        def share(step: Array) -> Any:
            return self.low + (1 - self.low) * (1 - jnp.abs(2 * (step + 1) / steps - 1))

        inner = optax.with_extra_args_support(self.optimizer.build(steps))

        def init(params: Params) -> TriangleState:
            return TriangleState(jnp.zeros((), jnp.int32), inner.init(params))

        def update(gradient: Params, state: TriangleState, params: Params | None = None, **extra: Any) -> Any:
            moves, after = inner.update(gradient, state.inner, params, **extra)
            scaled = jax.tree.map(lambda leaf: share(state.step) * leaf, moves)
            return scaled, TriangleState(state.step + 1, after)

        return around(inner, init, update, lambda state: state.inner, lambda state, new: state._replace(inner=new))


@tree.node()
@dataclass(frozen=True)
class FGE(FromMode, Settings):
    """Members around a mode, at the ends of short cycles whose rate rises and falls.

    Args:
        first: The training from which a chain begins; None for an initialisation. Its end is no member.
        cycle: One cycle: epochs, rows in a minibatch, and an optimiser with the highest rate, which is kept constant
            by itself.
        low: The lowest rate, as a share of the highest.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.SGD(0.1, end_rate=1e-3, momentum=0.9), epochs=100, batch_size=32)
        >>> cycle = aw.Training(aw.SGD(0.05, momentum=0.9), epochs=4, batch_size=32)
        >>> aw.Plan(aw.FGE(first, cycle), chains=2, members=100).epochs
        1000
    """

    first: Training | None
    cycle: Training
    low: float = 0.01

    title = "Fast geometric ensemble"

    def __post_init__(self) -> None:
        super().__post_init__()
        member.check_training("FGE(cycle=)", self.cycle)
        object.__setattr__(self, "low", checks.within("FGE(low=)", self.low, 0, 1))

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, and a cycle for each member."""
        yield from self.first_call()
        for _ in range(members):
            yield Call(DRAW, passes=self.cycle.epochs, trace=self.cycle.epochs)

    def begin(self, key: Key, problem: Problem, params: Params) -> Params:
        """The parameters."""
        return params

    def place(self, problem: Problem, state: Params) -> Params:
        """The parameters."""
        return state

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """A cycle from the end of the last."""
        training = self.cycle.using(Triangle(self.cycle.optimizer, self.low))
        params, _, draws = member.train_member(keys.own, problem, training, member.prior_mean(problem), state)
        return params, draws
