"""The contract of walks."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree, walks
from anchorwalk.testing.common import (
    Z,
    assert_standard_normal,
    close,
    equal,
    nested,
    require,
    shapes,
)
from anchorwalk.types import Key
from anchorwalk.walks.base import Walk, WalkInfo, WalkState

COORDINATES = 100_000
"""Independent parameters over which a walk's distribution is judged."""
STEPS = (1, 2, 5, 50)
"""Numbers of steps after which it is judged."""


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


def _check_structure(walk: Walk, key: Key) -> None:
    like = nested(4)
    init_key, step_key = jax.random.split(key)
    state = walk.init(init_key, like)
    after, info = walk.step(step_key, state)
    require(isinstance(state, WalkState), "init must return a WalkState")
    require(isinstance(after, WalkState), "step must return (WalkState, WalkInfo)")
    require(isinstance(info, WalkInfo), "step must return (WalkState, WalkInfo)")
    require(shapes(state.position) == shapes(like), "init must give positions in the tree, shapes and dtypes of `like`")
    require(shapes(after) == shapes(state), "step must keep the tree, shapes and dtypes of its state")
    share = float(info.acceptance)
    require(0 <= share <= 1, f"the acceptance is a share of the parameters, got {share}")
    shaped = walk.init(init_key, jax.eval_shape(lambda: like))
    require(equal(shaped, state), "init must not depend on the values of `like`, which may be shapes alone")


def _check_precision(walk: Walk, key: Key) -> None:
    half = walk.init(key, {"a": jnp.zeros(3, jnp.bfloat16)})
    require(
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
        require(abs(correlation) < Z, f"{what}: {name} are correlated; does each parameter have noise of its own?")


def _check_transformations(walk: Walk, key: Key) -> None:
    like = nested(4)
    keys = jax.random.split(key, 6)
    states = [_init(walk, k, like) for k in keys[:3]]
    steps = [_step(walk, k, s) for k, s in zip(keys[3:], states, strict=True)]
    require(close(walk.init(keys[0], like), states[0]), "init must do under jit what it does without")
    require(close(walk.step(keys[3], states[0]), steps[0]), "step must do under jit what it does without")
    stacked = tree.stack(states)
    together = _steps(walk, keys[3:], stacked)
    require(close([tree.lane(together, i) for i in range(3)], steps), "step must do under vmap what it does in a loop")
    require(not equal(states[0].position, states[1].position), "init must depend on its key")
    require(not equal(steps[0][0].position, states[0].position), "step must move some parameter")


@jax.jit
def _init(walk: Walk, key: Key, like: Any) -> WalkState:
    return walk.init(key, like)


@jax.jit
def _step(walk: Walk, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
    return walk.step(key, state)


@jax.jit
def _steps(walk: Walk, keys: Key, states: WalkState) -> tuple[WalkState, WalkInfo]:
    return jax.vmap(walk.step)(keys, states)
