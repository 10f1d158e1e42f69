"""Cyclical stochastic gradient Hamiltonian Monte Carlo (Zhang et al. 2020).

The step size falls along half a cosine, again and again. The first part of each cycle has large steps and no noise, and
looks for a mode; the rest has the noise, and the draws are from its end.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import minibatch
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import FromMode
from anchorwalk.methods.sghmc import positive_share
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


@tree.node(static=("cycle", "draws", "batch_size"))
@dataclass(frozen=True)
class CyclicalSGHMC(FromMode, Settings):
    """`SGHMC` in cycles, each of which looks for a mode and then draws from it.

    Args:
        step_size: Of the energy in nats, at the beginning of a cycle.
        cycle: Epochs of a cycle.
        draws: Draws of a cycle, one after each of its last epochs. A chain gets whole cycles: draws beyond the plan's
            members are made and not used.
        explore: Share of a cycle without noise.
        friction: As in `SGHMC`.
        batch_size: Rows in a minibatch.
        first: A training before the first cycle; the paper has none.

    Raises:
        InvalidInput: A number out of its range, or draws that would be from the part without noise.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Plan(aw.CyclicalSGHMC(step_size=1e-5, cycle=50, draws=5), chains=2, members=50).epochs
        1000
    """

    step_size: float
    cycle: int = 50
    draws: int = 3
    explore: float = 0.8
    friction: float = 0.1
    batch_size: int = 32
    first: Training | None = None

    title = "Cyclical stochastic gradient Hamiltonian Monte Carlo"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "step_size", checks.positive("CyclicalSGHMC(step_size=)", self.step_size))
        object.__setattr__(self, "friction", positive_share("CyclicalSGHMC(friction=)", self.friction))
        explore = checks.within("CyclicalSGHMC(explore=)", self.explore, 0, 1, open_above=True)
        object.__setattr__(self, "explore", explore)
        for name in ("cycle", "draws", "batch_size"):
            checks.count(f"CyclicalSGHMC({name}=)", getattr(self, name))
        if self.draws > (1 - explore) * self.cycle + 1e-9:
            given = f"{self.draws} in cycles of {self.cycle} epochs, {explore:g} of them without noise"
            checks.reject("CyclicalSGHMC(draws=)", given, "draws after noise alone", "Set fewer draws or less explore.")

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, where there is one, and cycles."""
        yield from self.first_call()
        for _ in range(-(-members // self.draws)):
            yield Call("cycle", self.draws, self.cycle)

    def begin(self, key: Key, problem: Problem, params: Params) -> minibatch.Moving:
        """At rest."""
        return minibatch.at_rest(params)

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """A cycle; a chain that diverges restarts from where the cycle began."""

        def epoch(state: minibatch.Moving, this: tuple[Array, Key]) -> tuple[Any, Any]:
            done, key = this

            def step(key: Key, i: Array, batch: Any, state: Any) -> tuple[Any, Array]:
                steps = -(-problem.n // self.batch_size)
                share = (done + i / steps) / self.cycle  # of the cycle that is over
                step_size = 0.5 * self.step_size * (1 + jnp.cos(jnp.pi * share))
                noise = jnp.where(share < self.explore, 0.0, 1.0)
                return minibatch.move(key, problem, batch, state, step_size, self.friction, noise)

            state, loss = minibatch.epoch(key, problem, self.batch_size, step, state)
            return state, (state.params, loss)

        each = (jnp.arange(self.cycle), jax.random.split(keys.own, self.cycle))
        after, (params, losses) = jax.lax.scan(epoch, state, each)
        drawn = tree.lane(params, slice(self.cycle - self.draws, None))
        good = tree.all_finite(after)
        trace = jnp.broadcast_to(losses, (self.draws, self.cycle))
        return tree.where(good, after, state), Draws(drawn, trace, jnp.full(self.draws, good), {})
