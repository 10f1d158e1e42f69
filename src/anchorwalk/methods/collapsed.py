"""The posterior of a network with the weights of its last layer integrated out, for samplers.

Differs from the paper, which has none. With normal noise and a normal prior, the mean's weights w in the last layer are
normal given all other parameters z: the integral of p(D, z, w) over w has a closed form. What is left, p(D, z), is far
easier to sample: the units of the layer before can move, and w follows. A draw is a z, and then a w given z.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.likelihoods import HeteroscedasticNormal, NormalLikelihood
from anchorwalk.methods.density import params_of, prior_vectors
from anchorwalk.problem import Problem
from anchorwalk.types import Array, HostArray, Key

PROBE = 1e-3  # relative error up to which a mean counts as affine in the weights


class Collapsed:
    """The density of all parameters but the weights of the mean in one layer, as `Joint` has it for all.

    Args:
        problem: Its likelihood is normal.
        layer: The name under which the leaves of the last layer stand, such as `dense_1`.
    """

    def __init__(self, problem: Problem, layer: str) -> None:
        self.problem = problem
        names = [name for name, _ in tree.named_leaves(problem.params_like)]
        self.leaves = [i for i, name in enumerate(names) if name == layer or name.startswith(f"{layer}/")]
        if not self.leaves:
            checks.reject("integrate_out", repr(layer), "the name of the last layer", f"Leaves are {', '.join(names)}.")
        like = jax.tree.leaves(problem.params_like)
        masks = [self._of_mean(i, leaf.shape).ravel() for i, leaf in enumerate(like)]
        mask = np.concatenate(masks)
        self.inside, self.outside = np.flatnonzero(mask), np.flatnonzero(~mask)
        self.of_mean = np.flatnonzero(np.concatenate([masks[i] for i in self.leaves]))  # of the layer's elements
        self.size = len(self.outside)

    def _of_mean(self, number: int, shape: tuple[int, ...]) -> HostArray:
        """The elements of a leaf that are weights of the mean."""
        found = np.zeros(shape, bool)
        if number in self.leaves:
            # Of two outputs the first is the mean; other likelihoods have no further outputs.
            found[..., 0 if isinstance(self.problem.likelihood, HeteroscedasticNormal) else slice(None)] = True
        return found

    def check(self) -> None:
        """Refuse what has no closed form: other noise, and a mean that is not affine in the weights."""
        likelihood = self.problem.likelihood
        if not isinstance(likelihood, NormalLikelihood):
            name = type(likelihood).__name__
            checks.reject("integrate_out", name, "a normal likelihood", "Leave integrate_out out: None.")
        rng = np.random.default_rng(0)
        point, move = rng.normal(size=(2, self.problem.size)).astype(np.float32)
        move[self.outside] = 0
        x = jax.tree.map(lambda leaf: leaf[:16], self.problem.data.x)
        found = [self.problem.apply(params_of(self.problem, jnp.asarray(point + k * move)), x) for k in range(3)]
        means, variances = ([np.asarray(part(one)) for one in found] for part in (likelihood.mean, likelihood.variance))
        bend = np.abs(means[2] - 2 * means[1] + means[0]).max() / np.ptp(means)
        if not (bend < PROBE and np.allclose(variances[0], variances[2], rtol=PROBE)):
            given = "a layer with a mean that bends, or a variance that follows, where its weights move"
            remedy = "Name the last layer of the network, with outputs that the likelihood takes as they are."
            checks.reject("integrate_out", given, "a mean that is affine in the weights of the layer", remedy)

    def prior(self) -> tuple[Array, Array]:
        """Mean and standard deviation of the prior."""
        mean, scale = prior_vectors(self.problem, jnp.float64)
        return mean[self.outside], scale[self.outside]

    def part(self, vector: Array) -> Array:
        """Of a vector of all parameters those that are sampled."""
        return vector[self.outside]

    def anchor(self, key: Key, vector: Array) -> Array:
        """All parameters, with weights drawn from the prior."""
        mean, scale = prior_vectors(self.problem, vector.dtype)
        drawn = jax.random.normal(key, (len(self.inside),), vector.dtype)
        return self._joined(vector, mean[self.inside] + scale[self.inside] * drawn)

    def complete(self, key: Key, vector: Array) -> Array:
        """All parameters, with weights drawn given the others."""
        rows, targets, _ = self._rows(vector)
        inverse, _ = _factors(rows.T @ rows)
        drawn = jax.random.normal(key, (len(self.inside),), vector.dtype)
        white = inverse @ (rows.T @ targets) + jnp.linalg.cholesky(inverse) @ drawn
        mean, scale = prior_vectors(self.problem, vector.dtype)
        return self._joined(vector, mean[self.inside] + scale[self.inside] * white)

    def log_density(self, vector: Array) -> Array:
        """Log p(D | z) + log p(z)."""
        rows, targets, log_scale = self._rows(vector)
        mean, scale = self.prior()
        white = (vector - mean) / scale
        log_prior = -0.5 * white @ white - jnp.log(scale).sum() - 0.5 * self.size * jnp.log(2 * jnp.pi)
        density: Array = evidence(rows, targets) - log_scale + log_prior
        return density

    def information(self, key: Key, vector: Array, dense: bool) -> Array:
        """The Fisher information and the prior's precision, without what the weights can make good.

        It is the Schur complement of the information of all parameters, at weights drawn given the others.
        """
        whole, data = self.complete(key, vector), self.problem.data

        def row(vector: Array, x: Any) -> tuple[Array, Array]:
            outputs = self.problem.apply(params_of(self.problem, vector), jax.tree.map(lambda leaf: leaf[None], x))
            likelihood = self.problem.likelihood
            return likelihood.mean(outputs).ravel(), 0.5 * jnp.log(likelihood.variance(outputs)).ravel()

        means, log_scales = jax.vmap(jax.jacrev(row), in_axes=(None, 0))(whole, data.x)
        weights = jnp.sqrt(self._weights())[:, None]
        scales = jnp.sqrt(self._outputs(whole)[1])[:, None]
        means = weights / scales * means.reshape(-1, self.problem.size)
        log_scales = jnp.sqrt(2.0) * weights * log_scales.reshape(-1, self.problem.size)[:, self.outside]
        precision = prior_vectors(self.problem, vector.dtype)[1] ** -2
        inside, outside = means[:, self.inside], means[:, self.outside]
        inverse, _ = _factors(inside.T @ inside, precision[self.inside])
        cross = inside.T @ outside
        total = outside.T @ outside - cross.T @ (inverse @ cross) + log_scales.T @ log_scales
        total = total + jnp.diag(precision[self.outside])
        return total if dense else jnp.diag(total)

    def _joined(self, vector: Array, weights: Array) -> Array:
        whole = jnp.zeros(self.problem.size, vector.dtype)
        return whole.at[self.outside].set(vector).at[self.inside].set(weights)

    def _weights(self) -> Array:
        """The weight of each target."""
        y = jnp.asarray(self.problem.data.y)
        weights = jnp.asarray(self.problem.data.weights)
        return jnp.broadcast_to(weights.reshape(-1, *[1] * (y.ndim - 1)), y.shape).ravel()

    def _outputs(self, whole: Array) -> tuple[Array, Array]:
        """Means and variances of all targets."""
        outputs = self.problem.apply(params_of(self.problem, whole), self.problem.data.x)
        return self.problem.likelihood.mean(outputs).ravel(), self.problem.likelihood.variance(outputs).ravel()

    def _rows(self, vector: Array) -> tuple[Array, Array, Array]:
        """The linear model of the weights: targets = rows @ white weights + noise, all divided by the noise's scale.

        And the log of that scale, summed, with the constant of the normal density.
        """
        problem, likelihood = self.problem, self.problem.likelihood
        mean, scale = prior_vectors(problem, vector.dtype)
        leaves, structure = jax.tree.flatten(params_of(problem, self._joined(vector, mean[self.inside])))

        def outputs(layer: list[Array], x: Any) -> Any:
            placed = list(leaves)
            for i, leaf in zip(self.leaves, layer, strict=True):
                placed[i] = leaf
            return problem.apply(jax.tree.unflatten(structure, placed), x)

        def of_row(layer: list[Array], x: Any) -> Array:
            return likelihood.mean(outputs(layer, jax.tree.map(lambda leaf: leaf[None], x))).ravel()

        layer = [leaves[i] for i in self.leaves]
        found = outputs(layer, problem.data.x)
        means, variances = likelihood.mean(found).ravel(), likelihood.variance(found).ravel()
        # Row by row and for the layer alone: a pass over the data, where a weight at a time takes one pass for each.
        slopes = jax.vmap(jax.jacrev(of_row), in_axes=(None, 0))(layer, problem.data.x)
        of_layer = jnp.concatenate([slope.reshape(len(means), -1) for slope in slopes], axis=1)
        columns = of_layer[:, self.of_mean] * scale[self.inside]
        weights = self._weights()
        shares = jnp.sqrt(weights / variances)
        log_scale = 0.5 * jnp.sum(weights * jnp.log(2 * jnp.pi * variances))
        return shares[:, None] * columns, shares * (jnp.asarray(problem.data.y).ravel() - means), log_scale


@jax.custom_vjp
def evidence(rows: Array, targets: Array) -> Array:
    """Log of the mean of exp(-|targets - rows @ w|² / 2) over standard normal w."""
    return _evidence(rows, targets)[0]


def _evidence(rows: Array, targets: Array) -> tuple[Array, tuple[Array, Array, Array, Array]]:
    inverse, half_log_det = _factors(rows.T @ rows)
    weights = inverse @ (rows.T @ targets)
    errors = targets - rows @ weights
    value = -0.5 * (errors @ errors + weights @ weights) - half_log_det
    return value, (rows, weights, errors, inverse)


def _pull_back(saved: tuple[Array, Array, Array, Array], cotangent: Array) -> tuple[Array, Array]:
    rows, weights, errors, inverse = saved
    return cotangent * (jnp.outer(errors, weights) - rows @ inverse), -cotangent * errors


evidence.defvjp(_evidence, _pull_back)


@jax.custom_batching.sequential_vmap  # type: ignore[untyped-decorator]
def _factors(products: Array, precision: Array | None = None) -> tuple[Array, Array]:
    """The inverse of products + precision, and half the log of its determinant.

    Chains take turns: two of XLA's CPU programs that factorise batches at the same time wait for each other for ever.
    """
    identity = jnp.eye(len(products), dtype=products.dtype)
    root = jnp.linalg.cholesky(products + (identity if precision is None else jnp.diag(precision)))
    inverse_root = jax.scipy.linalg.solve_triangular(root, identity, lower=True)
    return inverse_root.T @ inverse_root, jnp.log(jnp.diag(root)).sum()
