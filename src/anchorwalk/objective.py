"""The anchored loss -(log p(D | θ) + log p_anc(θ)), divided by N (paper, section 1).

Differs from the paper: the loss is divided by the number of rows N, so that rates and gradient norms mean
the same whatever the size of the data. The optimum is the same.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.data import Data
from anchorwalk.likelihoods import NormalLikelihood, VaryingNoise
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Params


class Batch(NamedTuple):
    """Which rows make a minibatch.

    Attributes:
        indices: Row numbers, always `batch_size` of them.
        present: 1 for rows that count, 0 for those that only fill up a batch.
        following: Row numbers of the batch after this one, for data that are read while a run trains.
    """

    indices: Array
    present: Array
    following: Array | None = None


@dataclass(frozen=True)
class Batches:
    """An epoch: rows in some order, cut into as few batches as `size` allows, which differ by one row at most.

    A short last batch would take a full step with a noisy gradient. The number of rows may be traced.

    Attributes:
        order: Row numbers, the first `n` of which count.
        n: Rows that count.
        size: Rows of a batch at most.
        ahead: Whether a batch says which one follows.

    Example:
        >>> import jax.numpy as jnp
        >>> from anchorwalk.objective import Batches
        >>> batches = Batches(jnp.arange(10), n=10, size=4)
        >>> [int(batches[step].present.sum()) for step in range(batches.steps)]
        [4, 3, 3]
    """

    order: Array
    n: Any
    size: int
    ahead: bool = False

    @property
    def steps(self) -> Any:
        """Number of batches."""
        return -(-self.n // self.size)

    def __getitem__(self, step: Any) -> Batch:
        indices, present = self._rows(step)
        return Batch(indices, present, self._rows(jnp.minimum(step + 1, self.steps - 1))[0] if self.ahead else None)

    def _rows(self, step: Any) -> tuple[Array, Array]:
        rows, more = self.n // self.steps, self.n % self.steps
        start, own = step * rows + jnp.minimum(step, more), rows + (step < more)
        position = jnp.arange(self.size)
        return jnp.take(self.order, start + position, mode="clip"), position < own

    def add(self, start: Any, function: Callable[[Batch], Any]) -> Any:
        """The start, and what a function gives for each batch, added up."""

        def body(step: Array, total: Any) -> Any:
            return jax.tree.map(lambda a, b: a + b.astype(a.dtype), total, function(self[step]))

        return jax.lax.fori_loop(0, self.steps, body, start)


def in_order(data: Data, size: int) -> Batches:
    """All rows of the data in their own order, in batches."""
    return Batches(jnp.arange(data.room), data.n, size, data.streamed)


def anchored_loss(
    problem: Problem,
    anchor: Params,
    params: Params,
    batch: Batch,
    noise: Array | None = None,
    even: Array | None = None,
) -> Array:
    """An unbiased estimate of the anchored loss from one minibatch, in nats per row.

    The mean runs over the rows that are present, so that a batch with a row less has no bias.

    Args:
        problem: Likelihood, prior and data.
        anchor: θ_anc.
        params: θ.
        batch: Rows to use.
        noise: Perturbation of all targets in units of the likelihood's noise, or None.
        even: Whether the mean learns as if the noise of all rows of the batch were the same, or None for never.
    """
    present = batch.present.astype(problem.data.weights.dtype)
    log_prob = log_likelihood(problem, problem.data, params, batch, noise, even)
    mean = jnp.sum(present * log_prob) / jnp.sum(present)
    return -(mean + problem.prior.anchored_log_prob(anchor, params) / problem.n)


def log_likelihood(
    problem: Problem,
    data: Data,
    params: Params,
    batch: Batch,
    noise: Array | None = None,
    even: Array | None = None,
) -> Array:
    """Weighted log-likelihood of each row of a batch of `data`."""
    rows = data.take(batch.indices, batch.following)
    outputs = problem.apply(params, rows.x)
    outputs = outputs.astype(tree.precise(outputs.dtype))
    if even is not None:
        assert isinstance(problem.likelihood, VaryingNoise)
        outputs = jnp.where(even, problem.likelihood.even_noise(outputs, batch.present * rows.weights), outputs)
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

    def of_anchor(params: Params) -> Array:
        return -problem.prior.anchored_log_prob(anchor, params) / problem.n

    def of_rows(params: Params, batch: Batch) -> Array:
        return -jnp.sum(batch.present * log_likelihood(problem, problem.data, params, batch, noise)) / problem.n

    start = jax.value_and_grad(of_anchor)(params)
    batches = in_order(problem.data, batch_size)
    loss, gradient = batches.add(start, lambda batch: jax.value_and_grad(of_rows)(params, batch))
    return Evaluation(loss, jnp.sqrt(tree.squared_norm(gradient)))


def validation_loss(problem: Problem, anchor: Params, params: Params, batch_size: int) -> Array:
    """The anchored loss with the validation rows in place of the data, in nats per row."""
    data = problem.validation
    assert data is not None
    total: Array = in_order(data, batch_size).add(
        jnp.zeros((), data.weights.dtype),
        lambda batch: jnp.sum(batch.present * log_likelihood(problem, data, params, batch)),
    )
    return -(total / data.n + problem.prior.anchored_log_prob(anchor, params) / problem.n)
