"""Contracts that a user's own parts can be put through."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from anchorwalk import tree, walks
from anchorwalk.types import Key
from anchorwalk.walks.base import Walk, WalkInfo, WalkState

__all__ = ["assert_standard_normal", "check_walk", "moments"]

COORDINATES = 100_000
"""Independent parameters over which a walk's distribution is judged."""
STEPS = (1, 2, 5, 50)
"""Numbers of steps after which it is judged."""

Z = 5.93
"""Two-sided normal quantile of 3e-9: how many of its standard errors a statistic may be off. A check compares five
moments and two correlations at five times; the skewness of the fourth power raises its tail threefold at 100,000
draws. With the Kolmogorov-Smirnov distances a true walk fails less than once in a million checks."""

_DKW = float(np.sqrt(np.log(2 / 1e-8) / 2))
"""Massart's bound: P(sqrt(n) sup |F_n - F| > this) < 1e-8, for every n."""


def check_walk(walk: Walk, key: Key | None = None) -> None:
    """Run the contract of walks on `walk`.

    From a draw of the standard normal, the positions must be standard normal again after any number of steps, which
    is judged by the first four moments, by E exp(x / 2) (which is not symmetric) and by the
    Kolmogorov-Smirnov distance over 100,000 independent parameters. Parameters must be independent of each
    other. State and structure must keep their shapes; `step` must do under `jit` and `vmap` what it does
    without. Positions must be float32 at least, also where `like` is narrower. A walk that keeps the contract fails
    less than once in a million.

    Args:
        walk: A walk, registered as a pytree.
        key: Fixed unless given.

    Raises:
        InvalidInput: Something that cannot be a walk at all.
        AssertionError: With what is wrong.

    Example:
        >>> import anchorwalk as aw
        >>> aw.testing.check_walk(aw.GuidedWalk(step_size=0.3))
    """
    walks.validate_walk(walk)
    key = jax.random.key(0) if key is None else key
    shape_key, law_key, jit_key = jax.random.split(key, 3)
    _check_structure(walk, shape_key)
    _check_law(walk, law_key)
    _check_transformations(walk, jit_key)
    _check_precision(walk, shape_key)


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
        _require(
            abs(error) < Z * standard_error,
            f"{what}: E {name} is off by {error:.4g}, {abs(error) / standard_error:.1f} standard errors",
        )
    ordered = np.sort(np.asarray(ndtr(jnp.ravel(jnp.asarray(x))), np.float64))
    ranks = np.arange(ordered.size + 1) / ordered.size
    distance = max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1]))
    limit = _DKW / np.sqrt(ordered.size)
    _require(distance < limit, f"{what}: Kolmogorov-Smirnov distance {distance:.4g} from the normal, above {limit:.4g}")


def _nested(leaf: int) -> dict[str, Any]:
    """A tree with several leaves, scalars and empty nodes among them."""
    return {"a": jnp.zeros((leaf, 2)), "b": [jnp.zeros(()), {"c": jnp.zeros((3, 1, leaf))}], "d": ()}


def _check_structure(walk: Walk, key: Key) -> None:
    like = _nested(4)
    init_key, step_key = jax.random.split(key)
    state = walk.init(init_key, like)
    after, info = walk.step(step_key, state)
    _require(isinstance(state, WalkState), "init must return a WalkState")
    _require(isinstance(after, WalkState), "step must return (WalkState, WalkInfo)")
    _require(isinstance(info, WalkInfo), "step must return (WalkState, WalkInfo)")
    _require(
        _shapes(state.position) == _shapes(like), "init must give positions in the tree, shapes and dtypes of `like`"
    )
    _require(_shapes(after) == _shapes(state), "step must keep the tree, shapes and dtypes of its state")
    share = float(info.acceptance)
    _require(0 <= share <= 1, f"the acceptance is a share of the parameters, got {share}")
    shaped = walk.init(init_key, jax.eval_shape(lambda: like))
    _require(_equal(shaped, state), "init must not depend on the values of `like`, which may be shapes alone")


def _check_precision(walk: Walk, key: Key) -> None:
    half = walk.init(key, {"a": jnp.zeros(3, jnp.bfloat16)})
    _require(
        all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(half.position)),
        "for half-precision parameters `like`, positions must be float32 all the same: small steps drown in less",
    )


def _check_law(walk: Walk, key: Key) -> None:
    half = COORDINATES // 2
    init_key, step_key = jax.random.split(key)
    state = _init(walk, init_key, {"one": jnp.zeros(half), "two": [jnp.zeros((half // 10, 10))]})
    _check_positions(state, "at the start")
    for i in range(max(STEPS)):
        state, _ = _step(walk, jax.random.fold_in(step_key, i), state)
        if i + 1 in STEPS:
            _check_positions(state, f"after {i + 1} steps from the prior")


def _check_positions(state: WalkState, what: str) -> None:
    one, two = (np.ravel(leaf) for leaf in jax.tree.leaves(state.position))
    assert_standard_normal(np.concatenate([one, two]), what)
    for name, a, b in (("two leaves", one, two), ("neighbours in a leaf", one[:-1], one[1:])):
        correlation = float(np.mean(np.float64(a) * b)) * np.sqrt(a.size)
        _require(abs(correlation) < Z, f"{what}: {name} are correlated; does each parameter have noise of its own?")


def _check_transformations(walk: Walk, key: Key) -> None:
    like = _nested(4)
    keys = jax.random.split(key, 6)
    states = [_init(walk, k, like) for k in keys[:3]]
    steps = [_step(walk, k, s) for k, s in zip(keys[3:], states, strict=True)]
    _require(_close(walk.init(keys[0], like), states[0]), "init must do under jit what it does without")
    _require(_close(walk.step(keys[3], states[0]), steps[0]), "step must do under jit what it does without")
    stacked = tree.stack(states)
    together = _steps(walk, keys[3:], stacked)
    _require(
        _close([tree.lane(together, i) for i in range(3)], steps), "step must do under vmap what it does in a loop"
    )
    _require(not _equal(states[0].position, states[1].position), "init must depend on its key")
    _require(not _equal(steps[0][0].position, states[0].position), "step must move some parameter")


# The walk is an argument, so that walks which differ in their numbers alone share these programs.


@jax.jit
def _init(walk: Walk, key: Key, like: Any) -> WalkState:
    return walk.init(key, like)


@jax.jit
def _step(walk: Walk, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
    return walk.step(key, state)


@jax.jit
def _steps(walk: Walk, keys: Key, states: WalkState) -> tuple[WalkState, WalkInfo]:
    return jax.vmap(walk.step)(keys, states)


def _require(condition: object, message: str) -> None:
    """An assertion that `python -O` does not remove."""
    if not condition:
        raise AssertionError(message)


def _shapes(tree: Any) -> Any:
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(leaf.shape, leaf.dtype) for leaf in leaves]


def _pairs(one: Any, other: Any) -> Sequence[tuple[Any, Any]]:
    return list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))


def _equal(one: Any, other: Any) -> bool:
    return all(np.array_equal(a, b) for a, b in _pairs(one, other))


def _close(one: Any, other: Any) -> bool:
    """Equal up to the few roundings by which fused arithmetic may differ."""
    return all(np.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in _pairs(one, other))
