"""What the checks of all contracts share."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

Z = 5.93
"""Two-sided normal quantile of 3e-9: how many of its standard errors a statistic may be off. A check compares five
moments and two correlations at five times; the skewness of the fourth power raises its tail threefold at 100,000
draws. With the Kolmogorov-Smirnov distances a true walk fails less than once in a million checks."""
DKW = float(np.sqrt(np.log(2 / 1e-8) / 2))
"""Massart's bound: P(sqrt(n) sup |F_n - F| > this) < 1e-8, for every n."""


def moments(x: Any) -> dict[str, tuple[float, float]]:
    """Statistics of supposedly standard normal numbers: name to (estimate - truth, standard error).

    Example:
        >>> import numpy as np
        >>> from anchorwalk.testing import moments
        >>> sorted(moments(np.array([-1.0, 1.0])))
        ['exp(x/2)', 'x', 'x^2', 'x^3', 'x^4']
    """
    x = np.asarray(x, np.float64).ravel()
    truths = {
        "x": (x, 0.0, 1.0),
        "x^2": (x**2, 1.0, 2.0),
        "x^3": (x**3, 0.0, 15.0),
        "x^4": (x**4, 3.0, 96.0),
        "exp(x/2)": (np.exp(x / 2), np.exp(1 / 8), np.exp(1 / 2) - np.exp(1 / 4)),
    }
    return {
        name: (float(values.mean() - truth), float(np.sqrt(variance / x.size)))
        for name, (values, truth, variance) in truths.items()
    }


def assert_standard_normal(x: Any, what: str) -> None:
    """Assert that independent numbers are standard normal, by moments and by Kolmogorov-Smirnov.

    Raises:
        AssertionError: With the statistic that is off.

    Example:
        >>> import jax
        >>> from anchorwalk.testing import assert_standard_normal
        >>> assert_standard_normal(jax.random.normal(jax.random.key(0), 1000), "normal draws")
    """
    for name, (error, standard_error) in moments(x).items():
        require(
            abs(error) < Z * standard_error,
            f"{what}: E {name} is off by {error:.4g}, {abs(error) / standard_error:.1f} standard errors",
        )
    ordered = np.sort(np.asarray(ndtr(jnp.ravel(jnp.asarray(x))), np.float64))
    ranks = np.arange(ordered.size + 1) / ordered.size
    distance = max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1]))
    limit = DKW / np.sqrt(ordered.size)
    require(distance < limit, f"{what}: Kolmogorov-Smirnov distance {distance:.4g} from the normal, above {limit:.4g}")


def nested(leaf: int) -> dict[str, Any]:
    """A tree with several leaves, scalars and empty nodes among them."""
    return {"a": jnp.zeros((leaf, 2)), "b": [jnp.zeros(()), {"c": jnp.zeros((3, 1, leaf))}], "d": ()}


def require(condition: object, message: str) -> None:
    """An assertion that `python -O` does not remove."""
    if not condition:
        raise AssertionError(message)


def shapes(tree: Any) -> Any:
    """Structure, shapes and dtypes of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def pairs(one: Any, other: Any) -> Sequence[tuple[Any, Any]]:
    """The leaves of two trees, side by side."""
    return list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def equal(one: Any, other: Any) -> bool:
    """Whether two trees are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in pairs(one, other))


def close(one: Any, other: Any) -> bool:
    """Equal up to the few roundings by which fused arithmetic may differ."""
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in pairs(one, other))
