"""`TRAIN(θ_anc, θ_init)` of Algorithms 1 and 2: minibatch descent on the anchored loss."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchorwalk import tree
from anchorwalk.data import Data
from anchorwalk.objective import Batch, Batches, anchored_loss, validation_loss
from anchorwalk.optimizers.soap import Renewing
from anchorwalk.optimizers.training import Training
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


class _Carry(NamedTuple):
    """What a training hands on from epoch to epoch; `best` and `least` are None where the last epoch is kept."""

    params: Params
    state: Any
    losses: Array
    best: Params
    least: Array | None


class _Inner(NamedTuple):
    """What an epoch hands on from step to step; `loss` is the sum so far, in shares of the epoch's mean."""

    params: Params
    state: Any
    loss: Array


PACKED = 4096
"""Rows up to which an order is one sort of single numbers."""


def random_order(key: Key, n: Any, room: int) -> Array:
    """Row numbers up to `room`, of which the first `n`, which may be traced, stand in front in random order.

    Each row has 32 random bits, and the rows are sorted by them. The order does not depend on the room. For few rows
    the row's number stands in the low bits, and one sort of single numbers does it, in a fraction of the time of
    sorting pairs. Two rows whose 20 random bits or more are equal keep their order, which happens to less than one
    pair in a million.
    """
    row = jnp.arange(room, dtype=jnp.uint32)
    bits = jax.random.bits(key, (room,), jnp.uint32)
    last = np.uint32(2**32 - 1)
    if room > PACKED:
        # A row that does not count has the greatest bits; one that counts may have them too, and its number is less.
        _, order = jax.lax.sort((jnp.where(row < n, bits, last), row), num_keys=2)
        return order.astype(jnp.int32)
    mask = np.uint32(PACKED - 1)
    packed = jnp.where(row < n, bits & ~mask, ~mask) | row
    return (jnp.sort(packed) & mask).astype(jnp.int32)


def shuffled(key: Key, data: Data, size: int) -> Batches:
    """One epoch: every row once, in random order, in batches."""
    return Batches(random_order(key, data.n, data.room), data.n, size, data.streamed)


class Trained(NamedTuple):
    """What a training leaves.

    Attributes:
        params: The parameters found.
        losses: The mean minibatch loss of each epoch; where the epochs are traced, followed by NaN up to
            `training.room`.
        state: The optimiser's state at the end.
    """

    params: Params
    losses: Array
    state: Any


def restarted(state: Any) -> Any:
    """The state of an optax optimiser as it is, with its schedule at the beginning."""

    def is_schedule(node: Any) -> bool:
        return isinstance(node, optax.ScaleByScheduleState)

    def restart(node: Any) -> Any:
        return node._replace(count=jnp.zeros_like(node.count)) if is_schedule(node) else node

    return jax.tree.map(restart, state, is_leaf=is_schedule)


def _by_stretches(
    optimizer: Renewing,
    one: Callable[[Array, _Inner], tuple[_Inner, Params]],
    before: Any,
    steps: Any,
    start: _Inner,
) -> _Inner:
    """The steps of an epoch, which so many came before, with what the optimiser does between stretches of them."""
    every = optimizer.every

    def stretch(i: Array, inner: _Inner) -> _Inner:
        first, last = i * every, jnp.minimum((i + 1) * every, steps)
        due = (before + last - 1) // every != (before + first - 1) // every  # an epoch may have fewer steps
        state = jax.lax.cond(due, optimizer.renew, lambda state: state, inner.state)
        stack = jax.tree.map(lambda leaf: jnp.zeros((every, *leaf.shape), leaf.dtype), inner.params)

        def keeping(i: Array, both: tuple[_Inner, Params]) -> tuple[_Inner, Params]:
            inner, gradient = one(i, both[0])
            return inner, jax.tree.map(lambda all, leaf: all.at[i - first].set(leaf), both[1], gradient)

        inner, stack = jax.lax.fori_loop(first, last, keeping, (inner._replace(state=state), stack))
        return inner._replace(state=optimizer.learn(inner.state, stack, last - first))

    end: _Inner = jax.lax.fori_loop(0, -(-steps // every), stretch, start)
    return end


def train(
    key: Key,
    problem: Problem,
    training: Training,
    anchor: Params,
    params: Params,
    noise: Array | None = None,
    state: Any = None,
    loss: Callable[[Params, Batch, Array], Array] | None = None,
) -> Trained:
    """Minimise the anchored loss from `params`.

    Args:
        key: Decides the order of the rows, nothing else.
        problem: What to fit.
        training: Optimiser, epochs, batch size. Its epochs may be traced, so that one compiled program serves
            trainings of different lengths.
        anchor: θ_anc; an argument, so that one compiled program serves every member.
        params: θ_init.
        noise: Perturbation of all targets in units of the likelihood's noise, or None.
        state: Of the optimiser, as an earlier training left it; its schedule begins anew. None for a fresh one.
        loss: What is minimised instead: from parameters, a minibatch, and the number of the step to a loss.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> from anchorwalk.optimizers import train
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: x * w, aw.Normal(scale=1.0),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(3), jnp.full(3, 4.0)))
        >>> training = aw.Training(aw.SGD(0.1), epochs=100, batch_size=3)
        >>> found = train(jax.random.key(0), problem, training, jnp.zeros(()), jnp.zeros(()))
        >>> round(float(found.params), 3), found.losses.shape  # the optimum is 3 * 4 / (3 + 1)
        (3.0, (100,))
    """
    dtype = problem.data.weights.dtype
    optimizer = training.build(problem.n)

    def step(number: Array, batch: Batch, even: Array | None, inner: _Inner) -> tuple[_Inner, Params]:
        """What follows a step, and its gradient."""

        def batch_loss(params: Params) -> Array:
            if loss is not None:
                return loss(params, batch, number)
            return anchored_loss(problem, anchor, params, batch, noise, even)

        params, state, total = inner
        value, gradient = jax.value_and_grad(batch_loss)(params)
        # Some optax optimisers, such as L-BFGS, want to see the loss too.
        extra = {"value": value, "grad": gradient, "value_fn": batch_loss}
        extra |= {"step": number} if isinstance(optimizer, Renewing) else {}
        updates, state = optimizer.update(gradient, state, params, **extra)
        total = total + value * jnp.sum(batch.present) / problem.n
        return _Inner(optax.apply_updates(params, updates), state, total), gradient

    def epoch(number: Array, carry: _Carry) -> _Carry:
        batches = shuffled(jax.random.fold_in(key, number), problem.data, training.batch_size)
        before = number * batches.steps
        even = None if training.mean_first is None else number < training.mean_first * training.epochs

        def one(i: Array, inner: _Inner) -> tuple[_Inner, Params]:
            return step(before + i, batches[i], even, inner)

        start = _Inner(carry.params, carry.state, jnp.zeros((), dtype))
        if isinstance(optimizer, Renewing):
            params, state, mean = _by_stretches(optimizer, one, before, batches.steps, start)
        else:
            params, state, mean = jax.lax.fori_loop(0, batches.steps, lambda i, inner: one(i, inner)[0], start)
        carry = carry._replace(params=params, state=state, losses=carry.losses.at[number].set(mean))
        if carry.least is None:
            return carry
        held_back = validation_loss(problem, anchor, params, training.batch_size)
        best, least = tree.where(held_back < carry.least, (params, held_back), (carry.best, carry.least))
        return carry._replace(best=best, least=least)

    # Differs from the paper, where the best epoch is kept on validation rows: here only on request.
    best = (params, jnp.asarray(jnp.inf, dtype)) if training.keep == "best" else (None, None)
    state = optimizer.init(params) if state is None else restarted(state)
    start = _Carry(params, state, jnp.full(training.room, jnp.nan, dtype), *best)
    end = jax.lax.fori_loop(0, training.epochs, epoch, start)
    params = end.params
    if end.least is not None:  # where no epoch had a finite loss there is no best, and that must show
        none = jax.tree.map(lambda leaf: jnp.full_like(leaf, jnp.nan), end.best)
        params = tree.where(jnp.isfinite(end.least), end.best, none)
    epochs: Any = training.epochs
    losses = end.losses if isinstance(epochs, jax.Array) else end.losses[:epochs]
    return Trained(params, losses, end.state)
