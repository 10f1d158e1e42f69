"""IVON, the improved variational online Newton method (Shen et al. 2024, Algorithm 1): a normal, learnt by steps.

The normal has a diagonal covariance. Each step takes the gradient at a draw from it. From gradients and draws together
it also learns the diagonal of the Hessian, and so how wide it should be: no second derivative is computed. On a linear
model with normal noise it tends to the posterior's mean, and to variances of 1 / P_jj for a posterior of precision P.

Differs from that paper: each parameter has its prior's own mean and scale in place of one weight decay.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import gaussian, member, minibatch
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, no_draws, one_draw
from anchorwalk.methods.swa import precisely
from anchorwalk.objective import Batch, log_likelihood
from anchorwalk.optimizers.recipes import cosine, set_rates
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key


class IVONState(NamedTuple):
    """The normal, as vectors in the order of `tree.ravel`."""

    mean: Array
    momentum: Array  # running mean of gradients
    hessian: Array  # running mean of the loss's second derivatives, a row


@tree.node(static=("epochs", "batch_size", "samples"))
@dataclass(frozen=True)
class IVON(Settings):
    """Draws from a diagonal normal that is fitted by variational inference; several chains see several modes.

    Draws cost nothing, so that `Plan.from_budget` wants `members=`.

    Args:
        rate: Learning rate at the first step, in units of a gradient step where the Hessian is `hessian`.
        epochs: Passes over the data, each with `samples` gradients.
        batch_size: Rows in a minibatch.
        end_rate: Learning rate after the last step.
        hessian: h₀, the second derivative of the loss of a row that the method begins with. The larger, the narrower
            the first draws.
        b1: Decay of the gradients' running mean.
        b2: Decay of the second derivatives' running mean.
        samples: Draws whose gradients a step averages.
        rows: λ, the number of rows that the data count as; None for as many as there are. Other numbers than that
            make another posterior.

    Raises:
        InvalidInput: A number out of its range.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Plan(aw.IVON(rate=0.1, epochs=200, batch_size=8), chains=5, members=20).epochs
        1000
    """

    rate: float
    epochs: int
    batch_size: int
    end_rate: float = 0.0
    hessian: float = 0.5
    b1: float = 0.9
    b2: float = 0.99995
    samples: int = 1
    rows: float | None = None

    title = "Improved variational online Newton"

    def __post_init__(self) -> None:
        set_rates(self, "IVON", self.rate, self.end_rate)
        object.__setattr__(self, "hessian", checks.positive("IVON(hessian=)", self.hessian))
        for name in ("b1", "b2"):
            object.__setattr__(self, name, checks.within(f"IVON({name}=)", getattr(self, name), 0, 1, open_above=True))
        for name in ("epochs", "batch_size", "samples"):
            checks.count(f"IVON({name}=)", getattr(self, name))
        if self.rows is not None:
            object.__setattr__(self, "rows", checks.positive("IVON(rows=)", self.rows))

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Refuse a batch that is larger than the data."""
        minibatch.check_batch_size("IVON", self.batch_size, problem)
        return problem

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The fit, and then draws."""
        yield Call("fit", draws=0, passes=self.epochs * self.samples)
        for _ in range(members):
            yield Call(DRAW)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> IVONState:
        """An initialisation, and a narrow normal around it."""
        mean = tree.ravel(precisely(member.initialise(keys.own, problem, attempt)))
        return IVONState(mean, jnp.zeros_like(mean), jnp.full_like(mean, self.hessian))

    def step(self, keys: Keys, problem: Problem, state: IVONState, call: Call, number: Array) -> tuple[Any, Draws]:
        """The fit, or a draw."""
        if not call.draws:
            return self._fit(keys.own, problem, state), no_draws(problem)
        _, decay, rows = self._prior(problem, state)
        mean = tree.unravel(state.mean, problem.params_like, tree.precise)
        drawn = gaussian.draw(keys.own, mean, _width(state, decay, rows))
        return state, one_draw(problem, drawn)

    def _prior(self, problem: Problem, state: IVONState) -> tuple[Array, Array, Any]:
        """The prior's mean, the weight decay δ, and the number of rows λ; prior precisions are λ δ."""
        rows = problem.n if self.rows is None else self.rows
        prior, like, dtype = problem.prior, problem.params_like, state.mean.dtype
        return gaussian.flat(prior.mean, like, dtype), gaussian.flat(prior.scale, like, dtype) ** -2 / rows, rows

    def _fit(self, key: Key, problem: Problem, state: IVONState) -> IVONState:
        center, decay, rows = self._prior(problem, state)
        per_epoch = -(-problem.n // self.batch_size)
        rate = cosine(self.rate, self.end_rate, self.epochs * per_epoch)

        def loss(vector: Array, batch: Batch) -> Array:
            params = tree.unravel(vector, problem.params_like)
            present = batch.present.astype(problem.data.weights.dtype)
            return -jnp.sum(present * log_likelihood(problem, problem.data, params, batch)) / jnp.sum(present)

        def step(key: Key, taken: Array, batch: Batch, state: IVONState) -> tuple[IVONState, Array]:
            width = _width(state, decay, rows)

            def one(key: Key) -> tuple[Array, Array, Array]:  # Algorithm 1, lines 1 and 2
                drawn = width * jax.random.normal(key, width.shape, width.dtype)
                value, gradient = jax.value_and_grad(loss)(state.mean + drawn, batch)
                return value, gradient, gradient * drawn / width**2

            found = jax.lax.map(one, jax.random.split(key, self.samples))
            value, gradient, curvature = jax.tree.map(lambda leaf: leaf.mean(0), found)
            momentum = self.b1 * state.momentum + (1 - self.b1) * gradient  # line 3
            change = state.hessian - curvature
            hessian = self.b2 * state.hessian + (1 - self.b2) * curvature  # line 4
            hessian += 0.5 * (1 - self.b2) ** 2 * change**2 / (state.hessian + decay)
            pull = momentum / (1 - self.b1 ** (taken + 1)) + decay * (state.mean - center)  # lines 5 and 6
            scaled = rate(taken) * (self.hessian + decay)  # α is in units of the first Hessian
            return IVONState(state.mean - scaled * pull / (hessian + decay), momentum, hessian), value

        def epoch(number: Array, state: IVONState) -> IVONState:
            def counted(key: Key, i: Array, batch: Batch, state: IVONState) -> tuple[IVONState, Array]:
                return step(key, number * per_epoch + i, batch, state)

            return minibatch.epoch(jax.random.fold_in(key, number), problem, self.batch_size, counted, state)[0]  # type: ignore[no-any-return]

        fitted: IVONState = jax.lax.fori_loop(0, self.epochs, epoch, state)
        return fitted


def _width(state: IVONState, decay: Array, rows: Any) -> Array:
    """Standard deviations of the normal (line 7)."""
    return jax.lax.rsqrt(rows * (state.hessian + decay))
