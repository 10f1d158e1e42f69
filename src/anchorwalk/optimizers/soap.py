"""SOAP: Adam in the eigenbasis of Shampoo's factors (Vyas et al. 2024, "SOAP: Improving and Stabilizing Shampoo").

A layer's parameters are one matrix W, and its gradient G. The factors L and R are running means of G Gᵀ and of GᵀG.
Adam runs on the gradient in the bases of their eigenvectors, where its square roots fit the curvature far better than
parameter by parameter. The bases follow by one step of orthogonal iteration every few steps.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchorwalk import checks, tree
from anchorwalk.optimizers.recipes import cosine, set_rates
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Params


@tree.node(static=("refresh", "largest"))
@dataclass(frozen=True)
class SOAP(Settings):
    """Adam in the eigenbasis of Shampoo's factors, with a cosine schedule over one training.

    It comes near an optimum in a fraction of Adam's epochs, most of all with small batches. A step costs more: products
    of the gradient with its bases.

    Args:
        rate: Learning rate at the first step, in units of a parameter's change, as Adam's.
        end_rate: Learning rate after the last step; None keeps the rate constant.
        b1: Decay of the gradient's running mean.
        b2: Decay of its running square, and of the factors.
        eps: As in `Adam`.
        refresh: Steps from one renewal of the bases to the next.
        largest: A side of a matrix with more rows than this has no basis of its own, such as the words of an embedding.

    Raises:
        InvalidInput: A number out of its range.

    Example:
        >>> import anchorwalk as aw
        >>> aw.SOAP(3e-3, end_rate=3e-5)
        SOAP(rate=0.003, end_rate=3e-05, b1=0.95, b2=0.95, eps=1e-08, refresh=10, largest=256)
    """

    rate: float
    end_rate: float | None = None
    b1: float = 0.95
    b2: float = 0.95
    eps: float = 1e-8
    refresh: int = 10
    largest: int = 256

    any_steps = True

    def __post_init__(self) -> None:
        set_rates(self, "SOAP", self.rate, self.end_rate)
        object.__setattr__(self, "b1", checks.within("SOAP(b1=)", self.b1, 0, 1, open_above=True))
        object.__setattr__(self, "b2", checks.within("SOAP(b2=)", self.b2, 0, 1, open_above=True))
        object.__setattr__(self, "eps", checks.positive("SOAP(eps=)", self.eps))
        object.__setattr__(self, "refresh", checks.count("SOAP(refresh=)", self.refresh))
        object.__setattr__(self, "largest", checks.count("SOAP(largest=)", self.largest, least=0))

    def build(self, steps: int) -> "Renewing":
        """The optimiser for a training of `steps` steps."""
        schedule = cosine(self.rate, self.end_rate, steps)
        return soap(schedule, self.b1, self.b2, self.eps, self.refresh, self.largest)


class Renewing(optax.GradientTransformationExtraArgs):  # type: ignore[misc]
    """An optimiser with work that is done once in many steps, such as the renewal of bases.

    A training passes `step`, the number of the step, to `update`, and does that work itself between stretches of
    `every` steps: `learn(state, gradients, count)` takes the gradients of a stretch, the first `count` of a stack, and
    `renew(state)` what follows from them. One product for all of them costs a fraction of one in every step; and a
    condition under `vmap` on what a state counts would compute both of its branches. An `update` without `step` does
    all by its own count.
    """

    learn: Callable[[Any, Params, Any], Any]
    renew: Callable[[Any], Any]
    every: int

    def __new__(cls, init: Any, update: Any, learn: Any, renew: Any, every: int) -> "Renewing":
        """Make one of its functions."""

        def whole(updates: Params, state: Any, params: Params | None = None, *, step: Any = None, **_: Any) -> Any:
            if step is not None:
                return update(updates, state, step)
            state = jax.lax.cond(state.count % every == 0, renew, lambda state: state, state)
            moves, state = update(updates, state, state.count)
            return moves, learn(state, jax.tree.map(lambda leaf: leaf[None], updates), 1)

        made: Renewing = super().__new__(cls, init, whole)
        made.learn, made.renew, made.every = learn, renew, every
        return made


def around(inner: Any, init: Any, update: Any, get: Callable[[Any], Any], put: Callable[[Any, Any], Any]) -> Any:
    """An optimiser made of another one, with that one's work between stretches of steps, where it has some.

    Args:
        inner: The other one.
        init: As in optax.
        update: As in optax, with extra arguments, `step` among them, to pass on to `inner`.
        get: The state of `inner` in the state of the new one.
        put: The state of the new one with another state of `inner` in it.
    """
    extra = optax.GradientTransformationExtraArgs
    if not isinstance(inner, Renewing):
        return extra(init, update)
    made = extra.__new__(Renewing, init, update)
    made.learn = lambda state, gradients, count: put(state, inner.learn(get(state), gradients, count))
    made.renew = lambda state: put(state, inner.renew(get(state)))
    made.every = inner.every
    return made


class Side(NamedTuple):
    """One side of a matrix.

    Attributes:
        factor: Running mean of the gradient times itself.
        basis: It follows the factor's eigenvectors, as columns.
        transposed: The basis once more; products with a matrix as it is stored are several times faster.
    """

    factor: Array
    basis: Array
    transposed: Array


class MatrixState(NamedTuple):
    """What is known of one matrix.

    Attributes:
        mean: The gradient's running mean, in the bases.
        square: Its running square, in the bases.
        left: The side of the inputs; None for one without a basis.
        right: The side of the outputs.
    """

    mean: Array
    square: Array
    left: Side | None
    right: Side | None


class SOAPState(NamedTuple):
    """Steps so far, and the state of each matrix."""

    count: Array  # type: ignore[assignment]  # it hides tuple.count, which nobody calls here
    matrices: tuple[MatrixState, ...]


def soap(rate: Any, b1: Any, b2: Any, eps: Any, refresh: int, largest: int) -> Renewing:
    """The optimiser, as an optax transformation.

    Args:
        rate: From the number of a step in its training to a learning rate.
        b1: Decay of the gradient's running mean.
        b2: Decay of its running square, and of the factors.
        eps: Added to the root of the square.
        refresh: Steps from one renewal of the bases to the next.
        largest: The longest side with a basis.
    """
    # In bases that stay, no mean is longer than so many roots of its square. New bases turn the mean, not the square.
    longest = jnp.maximum(1, (1 - b1) / jnp.sqrt(1 - b2))

    def init(params: Params) -> SOAPState:
        states = []
        for matrix in Layout(params).matrices(params):
            zeros = jnp.zeros_like(matrix)
            sides = (
                [_side(length, matrix.dtype, largest) for length in matrix.shape] if matrix.ndim == 2 else (None, None)
            )
            states.append(MatrixState(zeros, zeros, *sides))
        return SOAPState(jnp.zeros((), jnp.int32), tuple(states))

    def update(updates: Params, state: SOAPState, step: Any) -> tuple[Params, SOAPState]:
        layout, count = Layout(updates), state.count + 1
        found, states = [], []
        for gradient, one in zip(layout.matrices(updates), state.matrices, strict=True):
            turned = _into(gradient, one)
            mean = b1 * one.mean + (1 - b1) * turned
            square = b2 * one.square + (1 - b2) * jnp.square(turned)
            scaled = (mean / (1 - b1**count)) / (jnp.sqrt(square / (1 - b2**count)) + eps)
            found.append(-rate(step) * _back(jnp.clip(scaled, -longest, longest), one))
            states.append(one._replace(mean=mean, square=square))
        return layout.tree(found), SOAPState(count, tuple(states))

    def learn(state: SOAPState, gradients: Params, count: Any) -> SOAPState:
        age = count - 1 - jnp.arange(jax.tree.leaves(gradients)[0].shape[0])
        weights = jnp.where(age >= 0, (1 - b2) * b2 ** jnp.maximum(age, 0), 0)
        matrices = jax.vmap(Layout(tree.lane(gradients, 0)).matrices)(gradients)
        found = [_learned(*both, weights, b2**count) for both in zip(state.matrices, matrices, strict=True)]
        return state._replace(matrices=tuple(found))

    def renew(state: SOAPState) -> SOAPState:
        return state._replace(matrices=tuple(map(_followed, state.matrices)))

    return Renewing(init, update, learn, renew, refresh)


def _side(length: int, dtype: Any, largest: int) -> Side | None:
    if length < 2 or length > largest:
        return None
    basis = jnp.eye(length, dtype=dtype)
    return Side(jnp.zeros_like(basis), basis, basis)


def _into(matrix: Array, state: MatrixState) -> Array:
    """A matrix in the bases."""
    matrix = matrix if state.left is None else state.left.transposed @ matrix
    return matrix if state.right is None else matrix @ state.right.basis


def _back(matrix: Array, state: MatrixState) -> Array:
    """The inverse of `_into`."""
    matrix = matrix if state.left is None else state.left.basis @ matrix
    return matrix if state.right is None else matrix @ state.right.transposed


def _learned(state: MatrixState, gradients: Array, weights: Array, decay: Any) -> MatrixState:
    """The state with factors that have seen a stack of gradients."""
    left, right = state.left, state.right
    weighted = weights.reshape(-1, *[1] * (gradients.ndim - 1)) * gradients
    if left is not None:
        left = left._replace(factor=decay * left.factor + jnp.einsum("kij,klj->il", weighted, gradients))
    if right is not None:
        right = right._replace(factor=decay * right.factor + jnp.einsum("kij,kil->jl", weighted, gradients))
    return state._replace(left=left, right=right)


def _followed(state: MatrixState) -> MatrixState:
    """The state in new bases: the mean is turned along, squares keep to their eigenvectors."""
    mean, square = _back(state.mean, state), state.square
    if state.left is not None:
        left, order = _iterated(state.left)
        state, square = state._replace(left=left), square[order]
    if state.right is not None:
        right, order = _iterated(state.right)
        state, square = state._replace(right=right), square[:, order]
    return state._replace(mean=_into(mean, state), square=square)


def _iterated(side: Side) -> tuple[Side, Array]:
    """One step of orthogonal iteration, the largest eigenvalue first; and where each column stood before."""
    rounding = np.finfo(side.factor.dtype)
    size = jnp.maximum(jnp.trace(side.factor), rounding.tiny)
    moved = side.transposed @ (side.factor / size)
    order = jnp.argsort(-jnp.sum(side.transposed * moved, axis=1))
    # Directions that no gradient has shown yet stay where they are: a multiple of the identity changes no eigenvector.
    rows = orthonormal((moved + 1e-4 * rounding.eps * side.transposed)[order])
    return Side(side.factor, rows.T, rows), order


def orthonormal(rows: Array) -> Array:
    """The rows made orthonormal, one after the other: Q of a QR decomposition, transposed.

    By Householder's reflections, so that the result is orthonormal to rounding whatever the rows, dependent ones too.
    LAPACK's QR is as fast for matrices of this size, but its threads wait for each other and for those of XLA, which
    costs several times the work.
    """
    rows = rows / jnp.linalg.norm(rows, axis=1, keepdims=True)
    place, least = jnp.arange(len(rows)), np.finfo(rows.dtype).eps ** 2

    def reflect(k: Array, matrix: Array) -> Array:
        column = jnp.where(place >= k, matrix[:, k], 0)
        length = jnp.linalg.norm(column)
        normal = column + jnp.where(place == k, jnp.where(column[k] < 0, -length, length), 0)
        normal = jnp.where(length > least, normal / jnp.linalg.norm(normal), 0)  # nothing is left to be reflected
        return matrix - 2 * jnp.outer(normal, normal @ matrix)

    both = jnp.concatenate([rows.T, jnp.eye(len(rows), dtype=rows.dtype)], axis=1)
    result: Array = jax.lax.fori_loop(0, len(rows), reflect, both)[:, len(rows) :]
    return result


class _Matrix(NamedTuple):
    """One matrix of a network: the places of its kernel and of its bias among the leaves, and how they go together.

    Attributes:
        kernel: Place of the array of two axes or more; None for a vector by itself.
        bias: Place of the vector; None where the kernel has none.
        outputs_first: Whether the kernel's first axis is that of its outputs, as in Equinox, and not its last.
    """

    kernel: int | None
    bias: int | None
    outputs_first: bool


class Layout:
    """How a tree of parameters is seen as matrices: a kernel with its bias, where it has one, is one matrix.

    A bias is the only vector beside the only kernel of a node of the tree, as long as the kernel's outputs. Other
    leaves are matrices by themselves, a convolution (height x width x inputs, outputs).
    """

    def __init__(self, params: Params) -> None:
        paths = jax.tree_util.tree_leaves_with_path(params)
        self.structure = jax.tree.structure(params)
        self.like = [leaf for _, leaf in paths]
        siblings: dict[Any, list[int]] = {}
        for place, (path, _) in enumerate(paths):
            siblings.setdefault(path[:-1], []).append(place)
        self.parts = []
        for places in siblings.values():
            kernels = [place for place in places if _is_kernel(self.like[place])]
            vectors = [place for place in places if place not in kernels]
            names = [tree.name(paths[place][0][-1:]) for place in kernels]
            firsts = [name == "weight" for name in names]  # Equinox's name, where both axes are equally long
            if len(kernels) == len(vectors) == 1:
                outputs_first = self._outputs_first(kernels[0], vectors[0], firsts[0])
                if outputs_first is not None:
                    self.parts.append(_Matrix(kernels[0], vectors[0], outputs_first))
                    continue
            self.parts += [_Matrix(kernel, None, first) for kernel, first in zip(kernels, firsts, strict=True)]
            self.parts += [_Matrix(None, vector, False) for vector in vectors]

    def _outputs_first(self, kernel: int, bias: int, preferred: bool) -> bool | None:
        """Which axis of a kernel is as long as the bias; None where none is."""
        shape, length = self.like[kernel].shape, self.like[bias].size
        fitting = [first for first in (preferred, not preferred) if shape[0 if first else -1] == length]
        return fitting[0] if fitting else None

    def matrices(self, params: Params) -> list[Array]:
        """The matrices of a tree, outputs last; vectors by themselves stay vectors."""
        leaves = [leaf.astype(tree.precise(leaf.dtype)) for leaf in jax.tree.leaves(params)]
        found = []
        for part in self.parts:
            if part.kernel is None:
                found.append(leaves[part.bias].ravel())  # type: ignore[index]
                continue
            kernel = leaves[part.kernel]
            outputs = kernel.shape[0 if part.outputs_first else -1]
            matrix = kernel.reshape(outputs, -1).T if part.outputs_first else kernel.reshape(-1, outputs)
            found.append(matrix if part.bias is None else jnp.concatenate([matrix, leaves[part.bias].reshape(1, -1)]))
        return found

    def tree(self, matrices: list[Array]) -> Params:
        """The inverse of `matrices`, in the tree's own shapes and dtypes."""
        leaves: list[Any] = [None] * len(self.like)
        for part, found in zip(self.parts, matrices, strict=True):
            matrix = found
            if part.bias is not None:
                leaves[part.bias] = matrix[-1] if part.kernel is not None else matrix
                matrix = matrix[:-1]
            if part.kernel is not None:
                leaves[part.kernel] = matrix.T if part.outputs_first else matrix
        shaped = [leaf.reshape(like.shape).astype(like.dtype) for leaf, like in zip(leaves, self.like, strict=True)]
        return jax.tree.unflatten(self.structure, shaped)


def _is_kernel(leaf: Any) -> bool:
    return bool(sum(length > 1 for length in leaf.shape) >= 2 or (leaf.ndim == 2 and leaf.size > 1))
