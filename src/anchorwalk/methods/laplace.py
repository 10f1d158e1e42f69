"""Laplace's approximation with a generalised Gauss-Newton matrix (MacKay 1992; Daxberger et al. 2021).

The posterior is taken to be a normal around its mode, with the precision P = G + inv(S): S is the prior's covariance
and G = Σ_i J_iᵀ Λ_i J_i, where J_i is the Jacobian of the outputs of row i and Λ_i the Fisher information of its
likelihood about them. On a linear model with normal noise that is exact.

Its draws go through the network as it is, as those of all methods do. Laplace's approximation is often used with the
network's linearisation instead, which suits it better where the normal is wide.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.likelihoods import ClassLikelihood, Likelihood
from anchorwalk.methods import gaussian, member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import DRAW, FromMode, no_draws, one_draw
from anchorwalk.methods.swa import precisely
from anchorwalk.objective import Batch, in_order
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params

LARGEST = 5000
"""Parameters up to which the matrix can be full."""
BOUND, ROUNDS = 20.0, 40
"""Bisection for log t of the prior's precision: its bounds, minus and plus the first number, and its steps."""


class LaplaceState(NamedTuple):
    """The mode, and the normal around it."""

    params: Params
    root: Array  # R of the covariance R Rᵀ of the parameters that vary, or the diagonal of R
    prior_factor: Array  # by which the prior's standard deviations were multiplied


@tree.node(static=("curvature", "only", "fit_prior"))
@dataclass(frozen=True)
class Laplace(FromMode, Settings):
    """Draws from a normal around a mode, with the curvature there.

    The curvature costs about as many passes as the network has outputs, and one more; the whole matrix costs that
    twice. Draws cost nothing, so that `Plan.from_budget` wants `members=`. Without a problem a plan counts one output.

    Args:
        first: The training that finds the mode; its rate should end near zero.
        curvature: "full" for the whole matrix, up to 5,000 parameters that vary, or "diagonal".
        only: A pattern of paths of the parameters that vary, such as "dense_1/*" for a last-layer approximation; the
            others stay at the mode.
        fit_prior: Whether to multiply the prior's scales by the factor with the greatest marginal likelihood, with the
            mode as it is. The posterior is then that of another prior than the problem's.

    Raises:
        InvalidInput: Something that is no training, or a matrix that is too large.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> method = aw.Laplace(aw.Training(aw.SGD(0.5), epochs=50, batch_size=32))
        >>> posterior = aw.sample(jax.random.key(0), problem, aw.Plan(method, chains=1, members=10), callbacks=[])
        >>> posterior.predict(x).mean.shape
        (32,)
    """

    first: Training
    curvature: Literal["full", "diagonal"] = "full"
    only: str = "*"
    fit_prior: bool = False

    title = "Laplace approximation"

    def __post_init__(self) -> None:
        member.check_training("Laplace(first=)", self.first)
        checks.choice("Laplace(curvature=)", self.curvature, ("full", "diagonal"))

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        problem = super().prepare(key, problem)
        paths = [path for path, _ in tree.named_leaves(problem.params_like)]
        size = tree.size(self._varying(problem.params_like))
        if not size:
            checks.reject("Laplace(only=)", repr(self.only), f"a pattern for {', '.join(paths)}", "Use '*' for all.")
        if self.curvature == "full" and size > LARGEST:
            remedy = 'Set curvature="diagonal", or only= to the path of the last layer.'
            checks.reject("Laplace", f"{size:,} parameters with curvature='full'", f"up to {LARGEST:,}", remedy)
        return problem

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """The training, the curvature, and then draws."""
        yield from self.first_call()
        yield Call("curvature", draws=0, passes=self.passes(problem))
        for _ in range(members):
            yield Call(DRAW)

    def passes(self, problem: Problem | None) -> int:
        """What the curvature costs."""
        row = None if problem is None else jax.eval_shape(problem.apply, problem.params_like, problem.row_like)
        return (1 + (1 if row is None else tree.size(row))) * (2 if self.curvature == "full" else 1)

    def begin(self, key: Key, problem: Problem, params: Params) -> LaplaceState:
        """Without a curvature yet."""
        size = tree.size(self._varying(problem.params_like))
        dtype = tree.precise(jnp.result_type(*jax.tree.leaves(params)))
        root = jnp.zeros((size, size) if self.curvature == "full" else (size,), dtype)
        return LaplaceState(params, root, jnp.ones((), dtype))

    def go(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """The curvature, or a draw."""
        if not call.draws:
            return self._fitted(problem, state), no_draws(problem)
        varying = self._varying(precisely(state.params))
        full = state.root.ndim == 2
        drawn = gaussian.draw(keys.own, varying, 0.0 if full else state.root, state.root if full else None)
        return state, one_draw(problem, self._with(state.params, drawn), prior_factor=state.prior_factor)

    def _varies(self, path: str) -> bool:
        return fnmatchcase(path, self.only)

    def _varying(self, params: Params) -> list[Any]:
        """The leaves that vary."""
        return [leaf for path, leaf in tree.named_leaves(params) if self._varies(path)]

    def _with(self, params: Params, varying: list[Any]) -> Params:
        """The parameters with other leaves in place of those that vary."""
        left = iter(varying)
        return tree.map_named(lambda path, leaf: next(left) if self._varies(path) else leaf, params)

    def _fitted(self, problem: Problem, state: LaplaceState) -> LaplaceState:
        """The curvature in units of the prior, its eigenvalues, and from them the root of the covariance."""
        like = precisely(self._varying(state.params))
        mean, scale = (
            gaussian.flat(self._varying(values), like, state.root.dtype)
            for values in (problem.prior.mean, problem.prior.scale)
        )
        mode = tree.ravel(like)
        full = state.root.ndim == 2

        def outputs(vector: Array, x: Any) -> Array:
            params = self._with(state.params, tree.unravel(vector, like))
            return problem.apply(params, jax.tree.map(lambda leaf: leaf[None], x))[0].ravel()

        def curvature(directions: Array) -> Array:
            return gauss_newton(problem, outputs, mode, directions, full, self.first.batch_size)

        norm = jnp.sum(jnp.square((mode - mean) / scale))
        if not full:
            values = jnp.maximum(curvature(scale), 0)
            strength = self._strength(values, norm)
            return LaplaceState(state.params, scale / jnp.sqrt(values + strength), strength**-0.5)
        values, basis = _eigen(curvature(scale))
        values = jnp.maximum(values, 0)
        # Eigenvalues are off by float32's rounding of the largest, which can be more than the prior's 1. In directions
        # in which all are near 1 the same matrix loses nothing, so that the covariance is from there.
        ways = basis / jnp.sqrt(values + 1)
        again = curvature(scale[:, None] * ways)
        strength = self._strength(jnp.maximum(jnp.diag(again), 0) * (values + 1), norm)
        sizes, turned = _eigen(again + strength * ways.T @ ways)
        # Turned back at the end: which basis eigenvectors of equal values have is rounding's choice, and no draw's.
        root = scale[:, None] * ways @ (turned / jnp.sqrt(sizes)) @ turned.T @ basis.T
        return LaplaceState(state.params, root, strength**-0.5)

    def _strength(self, values: Array, norm: Array) -> Array:
        """The factor of the prior's precision."""
        return evidence_maximum(values, norm) if self.fit_prior else jnp.ones((), values.dtype)


def gauss_newton(
    problem: Problem, outputs: Callable[[Array, Any], Array], place: Array, units: Array, full: bool, batch_size: int
) -> Array:
    """The generalised Gauss-Newton matrix of the data in other units than the parameters' own, or its diagonal.

    Args:
        problem: What is fitted.
        outputs: From the vector of parameters and the inputs of a row to its outputs, flat.
        place: The vector.
        units: The unit of each parameter, or a matrix whose columns are the directions of the result.
        full: The whole matrix, and not its diagonal.
        batch_size: Rows whose Jacobians are there at once.
    """

    def of_batch(batch: Batch) -> Array:
        rows = problem.data.take(batch.indices)
        shape = jax.eval_shape(problem.apply, problem.params_like, rows.x).shape[1:]

        def of_row(x: Any, y: Array, weight: Array) -> tuple[Array, Array]:
            jacobian = jax.jacrev(outputs)(place, x)
            jacobian = jacobian @ units if units.ndim == 2 else jacobian * units
            here = outputs(place, x).astype(place.dtype).reshape(shape)
            return jacobian, weight * output_information(problem.likelihood, here, y)

        jacobian, inner = jax.vmap(of_row)(rows.x, rows.y, rows.weights * batch.present)
        weighted = jnp.einsum("nkl,nld->nkd", inner, jacobian).reshape(-1, place.size)
        flat = jacobian.reshape(-1, place.size)
        return flat.T @ weighted if full else jnp.sum(flat * weighted, axis=0)

    begin = jnp.zeros((place.size, place.size) if full else place.shape, place.dtype)
    found: Array = in_order(problem.data, batch_size).add(begin, of_batch)
    return found


def output_information(likelihood: Likelihood, outputs: Array, y: Array) -> Array:
    """The Fisher information of one row's likelihood about its outputs, (outputs, outputs).

    It is minus the expected second derivative of the log-likelihood. That of classes does not depend on the target.
    Others are taken as quadratic in it, as normals are: then two targets, a standard deviation above and below the
    mean, have the expectation as their average.
    """

    def information(y: Array) -> Array:
        def loss(flat: Array) -> Array:
            return -likelihood.log_prob(flat.reshape(1, *outputs.shape), y[None])[0]

        found: Array = jax.hessian(loss)(outputs.ravel())
        return found

    if isinstance(likelihood, ClassLikelihood):
        return information(y)
    one = outputs[None]
    mean, spread = likelihood.mean(one)[0], jnp.sqrt(likelihood.variance(one)[0])
    return 0.5 * (information(mean + spread) + information(mean - spread))


def evidence_maximum(values: Array, norm: Array) -> Array:
    """The factor t of the prior's precision with the greatest marginal likelihood, the mode kept.

    With eigenvalues λ of the data's curvature and the mode's squared norm, both in units of the prior, it is where
    Σ λ / (λ + t) = t x norm: the effective number of parameters (MacKay 1992). Found by bisection of log t.
    """

    def halve(_: int, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
        middle = 0.5 * (bounds[0] + bounds[1])
        above = jnp.sum(values / (values + jnp.exp(middle))) > jnp.exp(middle) * norm
        return jnp.where(above, middle, bounds[0]), jnp.where(above, bounds[1], middle)

    ends = (jnp.full((), -BOUND, values.dtype), jnp.full((), BOUND, values.dtype))
    low, high = jax.lax.fori_loop(0, ROUNDS, halve, ends)
    return jnp.exp(0.5 * (low + high))


@jax.custom_batching.sequential_vmap  # type: ignore[untyped-decorator]
def _eigen(matrix: Array) -> tuple[Array, Array]:
    """Eigenvalues and vectors; one matrix at a time, as two of XLA's CPU programs that factorise batches block."""
    values, vectors = jnp.linalg.eigh(matrix)
    return values, vectors
