"""Trees of arrays: random ones, stacked ones, and settings that are trees themselves."""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk.types import Array, Key

T = TypeVar("T")
STATIC = "__static_fields__"  # of a class that `node` registered: another process, which gets the class as code, has to


def node(*, static: Sequence[str] = ()) -> Callable[[type[T]], type[T]]:
    """Register a frozen dataclass as a pytree; the fields in `static` are part of its structure.

    Rebuilding a tree skips `__init__`: it happens under tracing, where the checks of a public
    constructor have no values to look at.
    """

    def register(cls: type[T]) -> type[T]:
        setattr(cls, STATIC, tuple(static))
        names = [field.name for field in dataclasses.fields(cls)]  # type: ignore[arg-type]
        leaves = [name for name in names if name not in static]

        def flatten_with_keys(instance: T) -> tuple[list[tuple[Any, Any]], tuple[Any, ...]]:
            children = [(jax.tree_util.GetAttrKey(name), getattr(instance, name)) for name in leaves]
            return children, tuple(getattr(instance, name) for name in static)

        def unflatten(aux: tuple[Any, ...], children: Iterable[Any]) -> T:
            instance = object.__new__(cls)
            for name, value in [*zip(leaves, children, strict=True), *zip(static, aux, strict=True)]:
                object.__setattr__(instance, name, value)
            return instance

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten)
        return cls

    return register


def ravel(tree: Any) -> Array:
    """All elements of all leaves as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])


def unravel(vector: Array, like: Any, dtype: Callable[[Any], Any] = lambda dtype: dtype) -> Any:
    """The inverse of `ravel`: a tree in the shapes of `like`, and in its dtypes or what a function makes of them."""
    leaves, structure = jax.tree.flatten(like)
    ends = np.cumsum([np.prod(leaf.shape, dtype=int) for leaf in leaves])
    parts = jnp.split(vector, ends[:-1])
    shaped = [part.reshape(leaf.shape).astype(dtype(leaf.dtype)) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


def precise(dtype: Any) -> Any:
    """The dtype itself, or float32 where it is narrower: sums and small steps drown in half precision."""
    return jnp.promote_types(dtype, jnp.float32)


def typed(tree: Any) -> Any:
    """The same arrays, each firmly of its type: one made of a Python number would take the type of what it meets."""
    return jax.tree.map(lambda leaf: jax.lax.convert_element_type(leaf, leaf.dtype), tree)


def normal_like(key: Key, tree: Any) -> Any:
    """Independent standard normal draws in the shape of `tree`, in float32 or its wider dtypes.

    They come from one draw of a vector.
    """
    dtype = precise(jnp.result_type(*jax.tree.leaves(tree)))
    return unravel(jax.random.normal(key, (size(tree),), dtype), tree, precise)


def where(condition: Array, if_true: Any, if_false: Any) -> Any:
    """Choose between two trees by one scalar condition."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), if_true, if_false)


def all_finite(tree: Any) -> Array:
    """Whether every element of every leaf is finite."""
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)]))


def squared_norm(tree: Any) -> Array:
    """Sum of squares over all leaves."""
    return sum((jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(tree)), jnp.zeros(()))


def lane(tree: Any, index: Any) -> Any:
    """Entry (or entries) `index` of each leaf's leading axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: Sequence[Any]) -> Any:
    """Trees of host arrays, stacked along a new leading axis."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def size(tree: Any) -> int:
    """Number of elements over all leaves."""
    return sum(int(np.prod(leaf.shape)) for leaf in jax.tree.leaves(tree))


def nbytes(tree: Any) -> int:
    """Bytes over all leaves."""
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


def name(path: tuple[Any, ...]) -> str:
    """A leaf's path as text, such as `dense/kernel`."""
    return jax.tree_util.keystr(path, simple=True, separator="/")


def map_named(function: Callable[[str, Any], Any], tree: Any) -> Any:
    """A function of path, as text, and leaf, for each leaf."""
    return jax.tree_util.tree_map_with_path(lambda path, leaf: function(name(path), leaf), tree)


def named_leaves(tree: Any) -> list[tuple[str, Any]]:
    """All leaves with their paths as text."""
    return [(name(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]
