"""`TRAIN(θ_anc, θ_init)` of Algorithms 1 and 2: minibatch descent on the anchored loss."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchorwalk import tree
from anchorwalk.objective import Batch, anchored_loss, in_order, validation_loss
from anchorwalk.optimizers.training import Training
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


class _Best(NamedTuple):
    params: Params
    loss: Array


PACKED = 4096
"""Rows up to which an order is one sort of single numbers."""


def random_order(key: Key, n: int) -> Array:
    """A random order of n rows.

    For few rows the row's number stands in the low bits of a random one, and one sort of single numbers does it, in a
    fraction of the time of sorting pairs. Two rows whose 20 random bits or more are equal keep their order, which
    happens to less than one pair in a million.
    """
    if n > PACKED:
        return jax.random.permutation(key, n)
    mask = np.uint32((1 << (n - 1).bit_length()) - 1)
    packed = (jax.random.bits(key, (n,), jnp.uint32) & ~mask) | jnp.arange(n, dtype=jnp.uint32)
    return (jnp.sort(packed) & mask).astype(jnp.int32)


def shuffled(key: Key, n: int, batch_size: int) -> Batch:
    """One epoch: every row once, in random order, as a stack of batches.

    The last batch is filled up with a real row that does not count.
    """
    batches = in_order(n, batch_size)
    return batches._replace(indices=random_order(key, n)[batches.indices])


def train(
    key: Key, problem: Problem, training: Training, anchor: Params, params: Params, noise: Array | None = None
) -> tuple[Params, Array]:
    """Minimise the anchored loss from `params`.

    Args:
        key: Decides the order of the rows, nothing else.
        problem: What to fit.
        training: Optimiser, epochs, batch size.
        anchor: θ_anc; an argument, so that one compiled program serves every member.
        params: θ_init.
        noise: Perturbation of all targets in units of the likelihood's noise, or None.

    Returns:
        The parameters found, and the mean minibatch loss of each epoch.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> from anchorwalk.optimizers import train
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: x * w, aw.Normal(scale=1.0),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(3), jnp.full(3, 4.0)))
        >>> training = aw.Training(aw.SGD(0.1), epochs=100, batch_size=3)
        >>> params, losses = train(jax.random.key(0), problem, training, jnp.zeros(()), jnp.zeros(()))
        >>> round(float(params), 3), losses.shape  # the optimum is 3 * 4 / (3 + 1)
        (3.0, (100,))
    """
    n = problem.n
    optimizer = training.build(n)

    def step(carry: tuple[Params, Any], batch: Batch) -> tuple[tuple[Params, Any], Array]:
        params, state = carry

        def batch_loss(params: Params) -> Array:
            return anchored_loss(problem, anchor, params, batch, noise)

        loss, gradient = jax.value_and_grad(batch_loss)(params)
        # Some optax optimisers, such as L-BFGS, want to see the loss too.
        updates, state = optimizer.update(gradient, state, params, value=loss, grad=gradient, value_fn=batch_loss)
        return (optax.apply_updates(params, updates), state), loss * jnp.sum(batch.present) / n

    def epoch(carry: tuple[Params, Any, _Best | None], number: Array) -> tuple[Any, Array]:
        params, state, best = carry
        batches = shuffled(jax.random.fold_in(key, number), n, training.batch_size)
        (params, state), losses = jax.lax.scan(step, (params, state), batches)
        if best is not None:
            loss = validation_loss(problem, anchor, params, training.batch_size)
            best = tree.where(loss < best.loss, _Best(params, loss), best)
        return (params, state, best), jnp.sum(losses)

    # Differs from the paper, where the best epoch is kept on validation rows: here only on request.
    worst = jnp.asarray(jnp.inf, problem.data.weights.dtype)
    best = _Best(params, worst) if training.keep == "best" else None
    (params, _, best), losses = jax.lax.scan(epoch, (params, optimizer.init(params), best), jnp.arange(training.epochs))
    if best is not None:  # where no epoch had a finite loss there is no best, and that must show
        none = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), best.params)
        params = tree.where(jnp.isfinite(best.loss), best.params, none)
    return params, losses
