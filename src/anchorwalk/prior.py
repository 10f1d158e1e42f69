"""The prior p(θ) = N(μ_prior, Σ_prior) with a diagonal Σ_prior, and the anchored density (paper, section 1).

Every parameter is independent under the prior: that is what lets a separate walk run for each of them
(section 2). A full covariance is out of scope.
"""

import fnmatch
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.types import Array, Key, Params

Rule = Callable[[str, Any], float]
"""From a leaf's path (such as `dense/kernel`) and its shape-and-dtype to a number."""


@tree.node()
@dataclass(frozen=True, eq=False)
class Prior:
    """An independent normal prior over every parameter.

    Args:
        scale: Standard deviation (never a variance). A number for all parameters; a tree that matches the
            parameters, with a number or an array for each leaf; or a rule from (path, leaf) to a
            number, such as `fan_in(...)` or `by_path(...)`.
        mean: Prior mean, in the same forms.

    Raises:
        InvalidInput: A scale that is not above zero, or a mean that is not finite.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Prior(scale=0.1).scale
        0.1
    """

    scale: Any = 1.0
    mean: Any = 0.0

    def __post_init__(self) -> None:
        for name, value in (("scale", self.scale), ("mean", self.mean)):
            if isinstance(value, str | bool) or value is None:
                checks.reject(f"Prior({name}=)", repr(value), "a number, a tree of them, or a rule", "See help(Prior).")
        if _is_number(self.scale):
            checks.positive("Prior(scale=)", self.scale, "A scale is a standard deviation: pass a number above zero.")
        if _is_number(self.mean):
            checks.number("Prior(mean=)", self.mean)

    def resolve(self, like: Params) -> "Prior":
        """The same prior with one scale and one mean for each leaf of `like`.

        Raises:
            InvalidInput: Where the scales or means do not fit the parameters.
        """
        scale = _per_leaf("Prior(scale=)", self.scale, like)
        mean = _per_leaf("Prior(mean=)", self.mean, like)
        for path, leaf in tree.named_leaves(scale):
            if not (np.isfinite(leaf).all() and (leaf > 0).all()):
                given = f"{np.min(leaf):g} at {path!r}"
                checks.reject("Prior(scale=)", given, "a number above zero", "A scale is a standard deviation.")
        for path, leaf in tree.named_leaves(mean):
            checks.finite(f"Prior(mean=) at {path!r}", leaf, "Pass finite means.")
        return Prior(scale=scale, mean=mean)

    # The methods below are for a resolved prior.

    def anchor(self, position: Params) -> Params:
        """The anchor at a walk's position: mean + scale * position."""
        return jax.tree.map(lambda m, s, z: (m + s * z).astype(m.dtype), self.mean, self.scale, position)

    def draw(self, key: Key, like: Params) -> Params:
        """A draw from the prior, shaped like `like`."""
        return self.anchor(tree.normal_like(key, like))

    def anchored_log_prob(self, anchor: Params, params: Params) -> Array:
        """Log p_anc(θ) = log N(θ; θ_anc, Σ_prior), summed over all parameters."""

        def leaf(a: Array, s: Array, p: Array) -> Array:
            a, s, p = (value.astype(tree.precise(value.dtype)) for value in (a, s, p))
            used = s > 0  # see Problem.filled
            s = jnp.where(used, s, 1.0)
            log_prob = -0.5 * jnp.square((p - a) / s) - jnp.log(s) - 0.5 * math.log(2 * math.pi)
            return jnp.sum(jnp.where(used, log_prob, 0.0))

        return sum(jax.tree.leaves(jax.tree.map(leaf, anchor, self.scale, params)), jnp.zeros(()))

    def log_prob(self, params: Params) -> Array:
        """Log p(θ), summed over all parameters."""
        mean = jax.tree.map(lambda m, p: jnp.broadcast_to(m, p.shape), self.mean, params)
        return self.anchored_log_prob(mean, params)


def fan_in(gain: float = 1.0, bias: float = 1.0) -> Rule:
    """A rule for scales: gain / sqrt(fan-in) for arrays of two axes or more, `bias` for the rest.

    The fan-in of a leaf is the product of all its axes but the last, as for a dense kernel (in, out) or
    a convolution (height, width, in, out).

    Example:
        >>> import anchorwalk as aw, jax
        >>> aw.fan_in(2.0)("dense/kernel", jax.ShapeDtypeStruct((16, 3), "float32"))
        0.5
    """
    checks.positive("fan_in(gain=)", gain)
    checks.positive("fan_in(bias=)", bias)

    def rule(path: str, leaf: Any) -> float:
        return gain / math.sqrt(max(1, math.prod(leaf.shape[:-1]))) if len(leaf.shape) >= 2 else bias

    return rule


def by_path(values: Mapping[str, float]) -> Rule:
    """A rule for scales or means: the first pattern that fits a leaf's path decides.

    Args:
        values: From patterns with `*` and `?` (as for file names) to numbers, in order of precedence.

    Example:
        >>> import anchorwalk as aw
        >>> rule = aw.by_path({"*/bias": 1.0, "*": 0.1})
        >>> rule("dense/bias", None), rule("dense/kernel", None)
        (1.0, 0.1)
    """

    def rule(path: str, leaf: Any) -> float:
        for pattern, value in values.items():
            if fnmatch.fnmatchcase(path, pattern):
                return value
        known = ", ".join(map(repr, values))
        return checks.reject(
            "by_path", f"no pattern that fits the parameter {path!r}", f"one of {known} to fit", "Add '*'."
        )

    return rule


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, np.ndarray | np.number | jax.Array) and value.ndim == 0)


def _per_leaf(argument: str, value: Any, like: Params) -> Params:
    if _is_number(value):
        return jax.tree.map(lambda leaf: np.asarray(value, leaf.dtype), like)
    if callable(value):
        return jax.tree_util.tree_map_with_path(
            lambda path, leaf: _fitting(f"{argument} at {tree.name(path)!r}", value(tree.name(path), leaf), leaf), like
        )
    if [path for path, _ in tree.named_leaves(value)] != [path for path, _ in tree.named_leaves(like)]:
        known = ", ".join(path for path, _ in tree.named_leaves(like))
        given = f"a tree with the leaves {', '.join(path for path, _ in tree.named_leaves(value)) or 'none'}"
        remedy = "Match the parameters' tree, or pass one number, fan_in(...) or by_path(...)."
        checks.reject(argument, given, f"a tree with the leaves {known}", remedy)
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf, v: _fitting(f"{argument} at {tree.name(path)!r}", v, leaf), like, value
    )


def _fitting(argument: str, value: Any, leaf: Any) -> np.ndarray[Any, Any]:
    try:
        array = np.asarray(value, leaf.dtype)
    except (TypeError, ValueError):
        checks.reject(argument, repr(value), "a number", "Pass numbers or arrays of numbers.")
    try:
        fits = np.broadcast_shapes(array.shape, leaf.shape) == leaf.shape
    except ValueError:
        fits = False
    if not fits:
        checks.reject(
            argument,
            f"shape {array.shape}",
            f"a number or shape {leaf.shape}",
            "Match the parameter's shape.",
        )
    return array
