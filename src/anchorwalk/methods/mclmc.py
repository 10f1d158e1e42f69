"""Microcanonical Langevin Monte Carlo (Robnik et al. 2023) from trained starts, by blackjax's kernel and its tuning.

Chains begin at optima, as in Sommer et al. (2025), so that no steps are spent on the way to a mode. The dynamics has a
velocity of constant length, and no accept/reject: its bias is held down by a step size with small errors of the energy.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import gaussian, minibatch
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.methods.swa import precisely
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params

FIRST_STEP = 0.005
"""The step size that warm-up begins with, in prior standard deviations of each parameter: small, so that the first step
stays near a trained start."""
GRADIENTS = 2
"""Of a step of McLachlan's integrator."""


class MCLMCState(NamedTuple):
    """Where a chain is, and what its warm-up chose, in prior standard deviations."""

    params: Params
    center: Array  # where it began: variances of places from there lose no digits
    momentum: Array
    length: Array  # over which the velocity is forgotten
    step_size: Array
    scales: Array  # variances that steps are measured in


@tree.node(static=("warmup", "thin", "scaled"))
@dataclass(frozen=True)
class MCLMC(FromMode, Settings):
    """Microcanonical Langevin Monte Carlo with gradients over all rows; a step costs two passes.

    Steps are in standard deviations of the prior. With more than 1024 rows a gradient computes the forward pass twice,
    to need less memory, which its passes do not count.

    It needs blackjax: `pip install 'anchorwalk[reference]'`.

    Args:
        first: The training from which a chain begins; None for an initialisation.
        warmup: Steps of warm-up for each of its three parts: the step size, scales, and the length over which the
            velocity is forgotten.
        thin: Steps for each draw.
        energy_variance: Variance of the energy's error for each parameter that the step size is tuned for. Less of it
            is less bias.
        scaled: Whether warm-up gives each parameter a scale of its own.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3), epochs=89, batch_size=32)
        >>> aw.Plan(aw.MCLMC(first, warmup=30, thin=10), chains=2, members=10).epochs
        1000
    """

    first: Training | None
    warmup: int = 200
    thin: int = 10
    energy_variance: float = 5e-4
    scaled: bool = True

    title = "Microcanonical Langevin Monte Carlo"

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("MCLMC(warmup=)", self.warmup, least=3)
        checks.count("MCLMC(thin=)", self.thin)
        variance = checks.positive("MCLMC(energy_variance=)", self.energy_variance)
        object.__setattr__(self, "energy_variance", variance)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the training keeps its best epoch."""
        if find_spec("blackjax") is None:
            checks.reject("MCLMC", "no blackjax", "blackjax", "pip install 'anchorwalk[reference]'")
        if problem.size < 2:
            checks.reject("MCLMC", "a problem of one parameter", "two or more", "Use HMC(...).")
        return super().prepare(key, problem)

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The first training, the warm-up, and the draws; each begins with one gradient."""
        yield from self.first_call()
        steps = 3 * self.warmup + (round(self.warmup / 3) if self.scaled else 0)
        yield Call("warm-up", draws=0, passes=1 + GRADIENTS * steps)
        for _ in range(members):
            yield Call(DRAW, passes=1 + GRADIENTS * self.thin)

    def begin(self, key: Key, problem: Problem, params: Params) -> MCLMCState:
        """A random direction, blackjax's own first length and scales, and a short first step."""
        from blackjax.util import generate_unit_vector

        center = tree.ravel(precisely(params))
        length = jnp.sqrt(jnp.asarray(center.size, center.dtype))
        momentum = generate_unit_vector(key, center)
        return MCLMCState(params, center, momentum, length, FIRST_STEP * length, jnp.ones_like(center))

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """The warm-up, or the steps to a draw."""
        import blackjax
        from blackjax.adaptation.mclmc_adaptation import MCLMCAdaptationState
        from blackjax.mcmc.integrators import IntegratorState

        scale = gaussian.flat(problem.prior.scale, problem.params_like, state.center.dtype)

        def params_at(vector: Array) -> Params:
            return tree.unravel(state.center + scale * vector, problem.params_like)

        def density(vector: Array) -> Array:
            return -minibatch.whole_energy(problem, params_at(vector))

        kernel = blackjax.mclmc.build_kernel()
        position = (tree.ravel(precisely(state.params)) - state.center) / scale
        here = IntegratorState(position, state.momentum, *jax.value_and_grad(density)(position))
        if not call.draws:
            here, tuned, _ = blackjax.mclmc_find_L_and_step_size(
                kernel,
                3 * self.warmup,
                here,
                keys.own,
                density,
                *(1 / 3, 1 / 3, 1 / 3),
                self.energy_variance,
                diagonal_preconditioning=self.scaled,
                params=MCLMCAdaptationState(state.length, state.step_size, state.scales),
            )
            found = (params_at(here.position), state.center, here.momentum, *tuned)
            after = jax.tree.map(lambda new, old: jnp.asarray(new, old.dtype), MCLMCState(*found), state)
            return after, no_draws(problem)

        def step(here: Any, key: Key) -> tuple[Any, tuple[Array, Array]]:
            here, info = kernel(key, here, density, state.scales, state.length, state.step_size)
            return here, (info.energy_change, ~info.nonans)

        here, (changes, taken_back) = jax.lax.scan(step, here, jax.random.split(keys.own, self.thin))
        state = state._replace(params=params_at(here.position), momentum=here.momentum)
        info = {"log_density": here.logdensity, "step_size": state.step_size, "energy_variance": jnp.var(changes)}
        return state, one_draw(problem, state.params, divergent=jnp.mean(taken_back, dtype=float), **info)
