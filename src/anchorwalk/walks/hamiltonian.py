"""Hamiltonian Monte Carlo on the standard normal, one trajectory and one accept/reject for each parameter."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks import _each
from anchorwalk.walks.base import WalkInfo, WalkState


@tree.node(static=("steps",))
@dataclass(frozen=True)
class Hamiltonian(Settings):
    """Leapfrog trajectories with fresh momentum at every step of the walk.

    Args:
        step_size: Size of a leapfrog step, in prior standard deviations; below 2, where leapfrog on a
            normal stops being stable.
        steps: Leapfrog steps in a trajectory.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Hamiltonian(step_size=0.05, steps=3)
        Hamiltonian(step_size=0.05, steps=3)
    """

    step_size: float
    steps: int = 3

    def __post_init__(self) -> None:
        name = "Hamiltonian(step_size=)"
        size = checks.positive(name, self.step_size)
        if size >= 2:
            checks.reject(name, size, "a number below 2", "Leapfrog on a normal is unstable from 2 on: choose less.")
        object.__setattr__(self, "step_size", size)
        checks.count("Hamiltonian(steps=)", self.steps)

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position."""
        return WalkState(tree.normal_like(key, like), ())

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Follow one trajectory for each parameter."""
        h = self.step_size

        def move(key: Key, x: Array, memory: tuple[()]) -> tuple[Array, tuple[()], Array]:
            momentum_key, accept_key = jax.random.split(key)
            start = jax.random.normal(momentum_key, x.shape, x.dtype)
            y, p = x, start
            for _ in range(self.steps):  # the potential is x^2 / 2, so its gradient is x
                p = p - 0.5 * h * y
                y = y + h * p
                p = p - 0.5 * h * y
            gain = 0.5 * ((x - y) * (x + y) + (start - p) * (start + p))
            accepted = jax.random.uniform(accept_key, x.shape, x.dtype) < jnp.exp(gain)
            return jnp.where(accepted, y, x), (), accepted

        return _each.step(move, key, state)
