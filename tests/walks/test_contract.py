"""The contract of every walk, and that the contract itself can fail."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.walks import _each

WALKS = [
    aw.Independent(),
    aw.RandomWalk(step_size=0.3),
    aw.RandomWalk(step_size=2.4),
    aw.GuidedWalk(step_size=0.1),
    aw.GuidedWalk(step_size=1.5),
    aw.Hamiltonian(step_size=0.3, steps=3),
    aw.Hamiltonian(step_size=1.5, steps=2),
    aw.Autoregressive(step_size=0.3),
    aw.Rotation(step_size=0.2, refresh=0.1),
    aw.Rotation(step_size=0.2, refresh=0.0),
]


@pytest.mark.parametrize("walk", WALKS, ids=repr)
def test_walk_keeps_the_contract(walk):
    aw.testing.check_walk(walk)


def broken(name, move, memory=False):
    """A walk with the given move of one parameter."""

    @tree.node()
    @dataclass(frozen=True)
    class Broken:
        def init(self, key, like):
            one, two = jax.random.split(key)
            extra = tree.unravel(jax.random.rademacher(two, (tree.size(like),)), like) if memory else ()
            return aw.WalkState(tree.normal_like(one, like), extra)

        def step(self, key, state):
            return _each.step(move, key, state)

    return pytest.param(Broken(), id=name)


def drift(key, x, d):  # a guided walk that never turns round
    y = x + d * 0.3 * jnp.abs(jax.random.normal(key, x.shape))
    accepted = _each.accept(jax.random.fold_in(key, 1), x, y)
    return jnp.where(accepted, y, x), d, accepted


def always_accept(key, x, memory):
    return x + 0.1 * jax.random.normal(key, x.shape), (), jnp.ones(x.shape, bool)


def shared_noise(key, x, memory):  # one draw for all parameters
    return 0.8 * x + 0.6 * jax.random.normal(key), (), jnp.ones(x.shape, bool)


def wrong_ratio(key, x, memory):  # accepts by the ratio's square root
    y = x + jax.random.normal(key, x.shape)
    ratio = jnp.exp(0.25 * (x - y) * (x + y))
    accepted = jax.random.uniform(jax.random.fold_in(key, 1), x.shape) < ratio
    return jnp.where(accepted, y, x), (), accepted


@pytest.mark.parametrize(
    "walk",
    [
        broken("never turns", drift, memory=True),
        broken("always accepts", always_accept),
        broken("shared noise", shared_noise),
        broken("wrong ratio", wrong_ratio),
        broken("nothing moves", lambda key, x, memory: (x, (), jnp.zeros(x.shape, bool))),
    ],
)
def test_contract_finds_a_broken_walk(walk):
    with pytest.raises(AssertionError):
        aw.testing.check_walk(walk)


@pytest.mark.slow
@pytest.mark.parametrize("walk", WALKS, ids=repr)
def test_the_contract_holds_whatever_the_key(walk):
    for seed in range(1, 11):  # a false alarm is rarer than one in a million
        aw.testing.check_walk(walk, jax.random.key(seed))
