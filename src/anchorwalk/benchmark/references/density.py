"""The posterior's log-density of a `Problem` over one vector of parameters, in float64."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


def widened(problem: Problem) -> Problem:
    """The same problem with every floating-point number in float64; its values are those of the original."""

    def wide(leaf: Any) -> Any:
        return np.asarray(leaf, np.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    problem64: Problem = jax.tree.map(wide, problem)
    return problem64


def params_of(problem: Problem, vector: Array) -> Params:
    """The parameters in a vector, in the vector's dtype."""
    like = jax.tree.map(lambda leaf: np.broadcast_to(np.zeros((), vector.dtype), leaf.shape), problem.params_like)
    return tree.unravel(vector, like)


def prior_scale(problem: Problem) -> Array:
    """The prior's standard deviation of each element of the vector."""
    scale = jax.tree.map(lambda s, leaf: jnp.broadcast_to(s, leaf.shape), problem.prior.scale, problem.params_like)
    return tree.ravel(scale)


def log_density(problem: Problem, vector: Array) -> Array:
    """Log p(D | θ) + log p(θ) on all the data."""
    params = params_of(problem, vector)
    data = problem.data
    log_likelihood = problem.likelihood.log_prob(problem.apply(params, data.x), data.y)
    return jnp.sum(data.weights * log_likelihood) + problem.prior.log_prob(params)


def information(key: Key, problem: Problem, vector: Array, dense: bool) -> Array:
    """An unbiased estimate of the Fisher information plus the prior's precision, shape (D, D), or (D,) of its diagonal.

    For targets that the network itself draws, E[Σ_i w_i g_i g_iᵀ] is the information of the data, with g_i the gradient
    of row i's log-likelihood. It is positive definite, and any likelihood that can draw has one.
    """
    data = problem.data
    drawn = problem.likelihood.draw(key, problem.apply(params_of(problem, vector), data.x))

    def row(vector: Array, x: Any, y: Array) -> Array:
        outputs = problem.apply(params_of(problem, vector), jax.tree.map(lambda leaf: leaf[None], x))
        return problem.likelihood.log_prob(outputs, y[None])[0]

    prior = prior_scale(problem) ** -2
    if not dense:  # without a gradient of each row in memory at once

        def add(total: Array, one: tuple[Any, Array, Array]) -> tuple[Array, None]:
            return total + one[2] * jax.grad(row)(vector, one[0], one[1]) ** 2, None

        return jax.lax.scan(add, prior, (data.x, drawn, data.weights))[0]
    gradients = jax.vmap(jax.grad(row), in_axes=(None, 0, 0))(vector, data.x, drawn)
    gradients = jnp.sqrt(data.weights)[:, None] * gradients
    total: Array = gradients.T @ gradients + jnp.diag(prior)
    return total
