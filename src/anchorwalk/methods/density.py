"""The posterior's log-density of a `Problem` over one vector of parameters, and its Fisher information."""

from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


def widened(problem: Problem) -> Problem:
    """The same problem with data and noise in float64; the prior keeps the parameters' own dtype, that of draws."""

    def wide(name: str, leaf: Any) -> Any:
        if name.split("/")[0] not in ("data", "validation", "likelihood"):
            return leaf
        return np.asarray(leaf, np.float64) if jnp.issubdtype(jnp.result_type(leaf), jnp.floating) else leaf

    same: Problem = tree.map_named(wide, problem)
    return same


def params_dtype(problem: Problem) -> Any:
    """The parameters' own dtype, also where the problem was widened."""
    return jnp.result_type(*jax.tree.leaves(problem.prior.scale))


def params_of(problem: Problem, vector: Array) -> Params:
    """The parameters in a vector, in the vector's dtype."""
    return tree.unravel(vector, problem.params_like, lambda _: vector.dtype)


def prior_vectors(problem: Problem, dtype: Any) -> tuple[Array, Array]:
    """The prior's mean and standard deviation of each element of the vector."""

    def vector(values: Params) -> Array:
        wide = jax.tree.map(lambda v, leaf: jnp.broadcast_to(v, leaf.shape), values, problem.params_like)
        return tree.ravel(wide).astype(dtype)

    return vector(problem.prior.mean), vector(problem.prior.scale)


def log_likelihood(problem: Problem, vector: Array) -> Array:
    """Log p(D | θ) on all the data."""
    data = problem.data
    return jnp.sum(
        data.weights * problem.likelihood.log_prob(problem.apply(params_of(problem, vector), data.x), data.y)
    )


def log_prior(problem: Problem, vector: Array) -> Array:
    """Log p(θ)."""
    prior = jax.tree.map(lambda leaf: jnp.asarray(leaf, vector.dtype), problem.prior)
    density: Array = prior.log_prob(params_of(problem, vector))
    return density


def log_density(problem: Problem, vector: Array) -> Array:
    """Log p(D | θ) + log p(θ)."""
    return log_likelihood(problem, vector) + log_prior(problem, vector)


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

    prior = prior_vectors(problem, vector.dtype)[1] ** -2
    if not dense:  # without a gradient of each row in memory at once

        def add(total: Array, one: tuple[Any, Array, Array]) -> tuple[Array, None]:
            return total + one[2] * jax.grad(row)(vector, one[0], one[1]) ** 2, None

        return jax.lax.scan(add, prior, (data.x, drawn, data.weights))[0]
    gradients = jax.vmap(jax.grad(row), in_axes=(None, 0, 0))(vector, data.x, drawn)
    gradients = jnp.sqrt(data.weights)[:, None] * gradients
    total: Array = gradients.T @ gradients + jnp.diag(prior)
    return total


class Density(Protocol):
    """A density over vectors, from which draws of all parameters come."""

    size: int  # of a vector

    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the prior."""
        ...

    def log_density(self, vector: Array) -> Array:
        """Up to a constant, the logarithm of the density."""
        ...

    def information(self, key: Key, vector: Array, dense: bool) -> Array:
        """The Fisher information plus the prior's precision, (size, size), or (size,) of its diagonal."""
        ...

    def part(self, vector: Array) -> Array:
        """Of a vector of all parameters those that are sampled."""
        ...

    def anchor(self, key: Key, vector: Array) -> Array:
        """All parameters, the others drawn from the prior."""
        ...

    def complete(self, key: Key, vector: Array) -> Array:
        """All parameters, the others drawn from the posterior given those that are sampled."""
        ...


class Joint:
    """The posterior of all parameters together."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.size = problem, problem.size

    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the prior."""
        return prior_vectors(self.problem, jnp.float64)

    def log_density(self, vector: Array) -> Array:
        """Log p(D | θ) + log p(θ)."""
        return log_density(self.problem, vector)

    def information(self, key: Key, vector: Array, dense: bool) -> Array:
        """See `information`."""
        return information(key, self.problem, vector, dense)

    def part(self, vector: Array) -> Array:
        """All of them."""
        return vector

    def anchor(self, key: Key, vector: Array) -> Array:
        """There are no others."""
        return vector

    def complete(self, key: Key, vector: Array) -> Array:
        """There are no others."""
        return vector


def mean_information(key: Key, density: Density, positions: Array, dense: bool) -> Array:
    """The mean of the information over positions."""
    count, size = positions.shape

    def add(total: Array, one: tuple[Key, Array]) -> tuple[Array, None]:
        return total + density.information(one[0], one[1], dense), None

    begin = jnp.zeros((size, size) if dense else (size,), positions.dtype)
    return jax.lax.scan(add, begin, (jax.random.split(key, count), positions))[0] / count
