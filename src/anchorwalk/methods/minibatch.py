"""What methods that move by gradients of minibatches share: the posterior's energy, an epoch, a step with noise.

Differs from blackjax, which has kernels of `sgld` and `sghmc`. Its second keeps one minibatch for a whole trajectory,
which gives up what minibatches are for, and it would make a small sampler need an optional library; the step below
serves both, and a test compares it with blackjax's.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.objective import Batch, anchored_loss, in_order, log_likelihood
from anchorwalk.optimizers import shuffled
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params

AT_ONCE = 1024
"""Rows whose way through the network is in memory at once, where a gradient is over all."""


class Moving(NamedTuple):
    """Where a chain is, and its last move."""

    params: Params
    momentum: Params


def at_rest(params: Params) -> Moving:
    """A chain that does not move yet."""
    return Moving(params, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, tree.precise(leaf.dtype)), params))


def energy(problem: Problem, params: Params, batch: Batch) -> Array:
    """An unbiased estimate of -log p(D, θ) from a minibatch, in nats."""
    return problem.n * anchored_loss(problem, member.prior_mean(problem), params, batch)


def whole_energy(problem: Problem, params: Params) -> Array:
    """-log p(D, θ), in nats; what passes through the network for many rows is computed anew for its gradient."""
    batches = in_order(problem.data, min(AT_ONCE, problem.data.room))

    def of_rows(i: Array, params: Params) -> Array:
        batch = batches[i]
        present = (batch.present & (i < batches.steps)).astype(problem.data.weights.dtype)
        return -jnp.sum(present * log_likelihood(problem, problem.data, params, batch))

    begin = -problem.prior.log_prob(params)
    parts = jnp.arange(-(-problem.data.room // AT_ONCE))
    if len(parts) == 1:
        return begin + of_rows(parts[0], params)
    again = jax.checkpoint(of_rows)
    total: Array = jax.lax.scan(lambda total, i: (total + again(i, params), None), begin, parts)[0]
    return total


def epoch(
    key: Key,
    problem: Problem,
    batch_size: int,
    step: Callable[[Key, Array, Batch, Any], tuple[Any, Array]],
    carry: Any,
) -> tuple[Any, Array]:
    """A pass over the data in minibatches.

    Args:
        key: Decides the order of the rows and the keys of the steps.
        problem: What to fit.
        batch_size: Rows in a minibatch.
        step: From a key, the number of the step in the epoch, a minibatch and what is carried to what is carried on
            and a loss.
        carry: What the first step begins with.

    Returns:
        What the last step leaves, and the mean loss.
    """
    order_key, steps_key = jax.random.split(key)
    batches = shuffled(order_key, problem.data, batch_size)

    def one(i: Array, both: tuple[Any, Array]) -> tuple[Any, Array]:
        batch = batches[i]
        after, loss = step(jax.random.fold_in(steps_key, i), i, batch, both[0])
        return after, both[1] + (loss * jnp.sum(batch.present) / problem.n).astype(both[1].dtype)

    none = jnp.zeros((), problem.data.weights.dtype)
    end: tuple[Any, Array] = jax.lax.fori_loop(0, batches.steps, one, (carry, none))
    return end


def move(
    key: Key, problem: Problem, batch: Batch, state: Moving, step_size: Any, friction: Any, noise: Any = 1.0
) -> tuple[Moving, Array]:
    """A step of stochastic gradient Hamiltonian Monte Carlo (Chen et al. 2014, equation 15), and the loss before it.

    With g an estimate of the energy's gradient, η the friction, h the step size and z standard normal,
    v ← (1 - η) v - h g + √(2 η h) z and θ ← θ + v. With a friction of 1 that is Langevin dynamics.

    Args:
        key: For the noise.
        problem: What to fit.
        batch: The rows of the gradient.
        state: Where the chain is.
        step_size: h, of the energy in nats.
        friction: η, the share of a move that is lost before the next one.
        noise: 0 leaves the noise out, so that the step is one of descent with momentum.
    """
    loss, gradient = jax.value_and_grad(lambda params: energy(problem, params, batch))(state.params)
    drawn, width = tree.normal_like(key, state.params), noise * jnp.sqrt(2 * friction * step_size)
    momentum = jax.tree.map(
        lambda v, g, z: ((1 - friction) * v - step_size * g + width * z).astype(v.dtype),
        state.momentum,
        gradient,
        drawn,
    )
    params = jax.tree.map(lambda p, v: (p + v).astype(p.dtype), state.params, momentum)
    return Moving(params, momentum), loss / problem.n


def check_batch_size(method: str, size: int, problem: Problem) -> None:
    """Refuse minibatches that are larger than the data."""
    if size > problem.n:
        given, remedy = f"{size} for {problem.n} rows of data", f"Set batch_size={problem.n} or less."
        checks.reject(f"{method}(batch_size=)", given, "a batch no larger than the data", remedy)
