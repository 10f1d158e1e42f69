"""Trees, likelihoods and priors as JSON, so that a run can be opened without the code that made it."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from anchorwalk import serial, tree
from anchorwalk.likelihoods import Bernoulli, Categorical, HeteroscedasticNormal, Likelihood, Normal, Poisson
from anchorwalk.prior import Prior
from anchorwalk.run.store.tensors import names

LIKELIHOODS: dict[str, Any] = {
    cls.__name__: cls for cls in (Bernoulli, Categorical, HeteroscedasticNormal, Normal, Poisson)
}
DEEPEST = 100  # levels of a tree that are read


def leaves_to_json(like: Any) -> list[dict[str, Any]]:
    """Name, shape and dtype of each parameter array, in the order of the tree."""
    leaves = jax.tree.leaves(like)
    return [
        {"name": name, "shape": list(leaf.shape), "dtype": str(np.dtype(leaf.dtype))}
        for name, leaf in zip(names(like, "params"), leaves, strict=True)
    ]


def tree_to_json(like: Any) -> Any:
    """A tree of dictionaries, lists and tuples as JSON, with the numbers of its leaves; None for other trees."""
    leaves, definition = jax.tree.flatten(like)
    numbered = jax.tree.unflatten(definition, range(len(leaves)))
    try:
        return _to_json(numbered)
    except TypeError:
        return None


def _to_json(value: Any) -> Any:
    if type(value) is int:
        return value
    if value is None:
        return {"none": True}
    if type(value) in (list, tuple):
        return {type(value).__name__: [_to_json(one) for one in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: _to_json(one) for key, one in value.items()}}
    raise TypeError(type(value).__name__)


def tree_from_json(encoded: Any, leaves: Sequence[Any]) -> Any:
    """The inverse of `tree_to_json`, with these leaves; ValueError for what is no such tree of each leaf once."""
    numbered = _tree(encoded, 0)
    if sorted(jax.tree.leaves(numbered)) != list(range(len(leaves))):
        raise ValueError("a tree that does not have each array once")
    return jax.tree.map(lambda number: leaves[number], numbered)


def _tree(encoded: Any, depth: int) -> Any:
    """The tree with numbers for leaves."""
    if depth > DEEPEST:
        raise ValueError("a tree that is too deep")
    if type(encoded) is int:
        return encoded
    if isinstance(encoded, dict) and len(encoded) == 1:
        ((kind, inside),) = encoded.items()
        if kind == "none" and inside is True:
            return None
        if kind in ("list", "tuple") and isinstance(inside, list):
            parts = [_tree(one, depth + 1) for one in inside]
            return parts if kind == "list" else tuple(parts)
        if kind == "dict" and isinstance(inside, dict):
            return {key: _tree(one, depth + 1) for key, one in inside.items()}
    raise ValueError("a tree in an unknown form")


def dtype_of(name: str) -> np.dtype[Any]:
    """A floating-point dtype by its name; ValueError for any other name."""
    if name not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError(f"the unknown dtype {name!r}")
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def likelihood_to_json(likelihood: Likelihood) -> dict[str, Any]:
    """A likelihood as JSON; one of another package as its name, and under "own" what its `to_json` gives, if any."""
    described = serial.to_json("likelihood", likelihood)
    if type(likelihood) in LIKELIHOODS.values():
        return described
    own = {"own": described} if hasattr(likelihood, "to_json") else {}
    return {"name": type(likelihood).__name__, "settings": None, **own}


def likelihood_from_json(encoded: Mapping[str, Any]) -> Likelihood | None:
    """The inverse of `likelihood_to_json`, or None where it was not one of this package."""
    if encoded["settings"] is None:
        return None
    likelihood: Likelihood = LIKELIHOODS[encoded["name"]].from_json(encoded)
    return likelihood


def prior_to_json(prior: Prior) -> dict[str, Any]:
    """Scale and mean of each parameter array: a number, or the range of an array."""
    return {
        part: {name: _summary(leaf) for name, leaf in tree.named_leaves(getattr(prior, part))}
        for part in ("scale", "mean")
    }


def _summary(leaf: Any) -> Any:
    array = np.asarray(leaf, float)
    if array.ndim == 0:
        return array.item()
    low, high = (array.min().item(), array.max().item()) if array.size else (None, None)
    return {"shape": list(array.shape), "min": low, "max": high}


def inputs_to_json(x: Any) -> Any:
    """Shapes and dtypes of one row of inputs, and their tree."""
    leaves = [{"shape": list(leaf.shape[1:]), "dtype": str(np.dtype(leaf.dtype))} for leaf in jax.tree.leaves(x)]
    return {"tree": tree_to_json(x), "leaves": leaves}
