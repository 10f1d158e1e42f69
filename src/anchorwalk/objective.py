"""The anchored loss -(log p(D | θ) + log p_anc(θ)), divided by N (paper, section 1).

Differs from the paper: the loss is divided by the number of rows N, so that rates and gradient norms mean
the same whatever the size of the data. The optimum is the same.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.likelihoods import NormalLikelihood
from anchorwalk.problem import Data, Problem
from anchorwalk.types import Array, Params


class Batch(NamedTuple):
    """Which rows make a minibatch.

    Attributes:
        indices: Row numbers, always `batch_size` of them.
        present: 1 for rows that count, 0 for those that only fill up the last batch of an epoch.
    """

    indices: Array
    present: Array


def in_order(n: int, batch_size: int) -> Batch:
    """All rows in their own order, as a stack of batches; the last one is filled up with the last row."""
    steps = -(-n // batch_size)
    position = jnp.arange(steps * batch_size).reshape(steps, batch_size)
    return Batch(jnp.minimum(position, n - 1), position < n)


def anchored_loss(problem: Problem, anchor: Params, params: Params, batch: Batch, noise: Array | None = None) -> Array:
    """An unbiased estimate of the anchored loss from one minibatch, in nats per row.

    The mean runs over the rows that are present, so that the last, smaller batch has no bias.

    Args:
        problem: Likelihood, prior and data.
        anchor: θ_anc.
        params: θ.
        batch: Rows to use.
        noise: Perturbation of all targets in units of the likelihood's noise, or None.
    """
    present = batch.present.astype(problem.data.weights.dtype)
    log_prob = log_likelihood(problem, problem.data, params, batch, noise)
    mean = jnp.sum(present * log_prob) / jnp.sum(present)
    return -(mean + problem.prior.anchored_log_prob(anchor, params) / problem.n)


def log_likelihood(problem: Problem, data: Data, params: Params, batch: Batch, noise: Array | None = None) -> Array:
    """Weighted log-likelihood of each row of a batch of `data`."""
    rows = data.take(batch.indices)
    outputs = problem.apply(params, rows.x)
    outputs = outputs.astype(tree.precise(outputs.dtype))
    if noise is None:
        return rows.weights * problem.likelihood.log_prob(outputs, rows.y)
    assert isinstance(problem.likelihood, NormalLikelihood)
    # A weight w makes a normal's noise 1 / sqrt(w) as wide, and so the draw of it that moves the targets.
    width = jnp.where(rows.weights > 0, jax.lax.rsqrt(rows.weights), 0.0)
    drawn = jnp.take(noise, batch.indices, axis=0)
    drawn = drawn * width.reshape(-1, *(1,) * (drawn.ndim - 1))
    return rows.weights * problem.likelihood.perturbed_log_prob(outputs, rows.y, drawn)


class Evaluation(NamedTuple):
    """The anchored loss on all the data, in nats per row, and the Euclidean norm of its gradient."""

    loss: Array
    gradient_norm: Array


def evaluate(problem: Problem, anchor: Params, params: Params, noise: Array | None, batch_size: int) -> Evaluation:
    """The anchored loss on all the data and its gradient norm, in batches."""

    def data_term(params: Params, batch: Batch) -> Array:
        return -jnp.sum(batch.present * log_likelihood(problem, problem.data, params, batch, noise)) / problem.n

    def add(carry: tuple[Array, Params], batch: Batch) -> tuple[tuple[Array, Params], None]:
        loss, gradient = jax.value_and_grad(data_term)(params, batch)
        return (carry[0] + loss, jax.tree.map(jnp.add, carry[1], gradient)), None

    def anchor_term(params: Params) -> Array:
        return -problem.prior.anchored_log_prob(anchor, params) / problem.n

    start = jax.value_and_grad(anchor_term)(params)
    (loss, gradient), _ = jax.lax.scan(add, start, in_order(problem.n, batch_size))
    return Evaluation(loss, jnp.sqrt(tree.squared_norm(gradient)))


def validation_loss(problem: Problem, anchor: Params, params: Params, batch_size: int) -> Array:
    """The anchored loss with the validation rows in place of the data, in nats per row."""
    data = problem.validation
    assert data is not None

    def add(total: Array, batch: Batch) -> tuple[Array, None]:
        log_prob = log_likelihood(problem, data, params, batch)
        return total + jnp.sum(batch.present * log_prob).astype(total.dtype), None

    start = jnp.zeros((), data.weights.dtype)
    total, _ = jax.lax.scan(add, start, in_order(data.n, batch_size))
    return -(total / data.n + problem.prior.anchored_log_prob(anchor, params) / problem.n)
