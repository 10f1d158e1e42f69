"""Trainings in low precision, in the way of SWALP (Yang et al. 2019).

Parameters, inputs, activations and gradients are bfloat16. A step is rounded up or down at random, so that its mean is
what it would be without rounding: rounded to the nearest, small steps would all be lost. The optimiser keeps its own
numbers in float32, which differs from that paper.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from anchorwalk import tree
from anchorwalk.methods.swa import precisely
from anchorwalk.optimizers import Training
from anchorwalk.optimizers.soap import around
from anchorwalk.optimizers.train import Trained, train
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


class RoundedState(NamedTuple):
    """The optimiser's own state, and a key for the next step's rounding."""

    inner: Any
    key: Key


def round_at_random(key: Key, values: Array) -> Array:
    """Float32 numbers rounded to neighbours in bfloat16, at random, so that the mean stays."""
    bits = jax.lax.bitcast_convert_type(values, jnp.uint32)
    added = bits + (jax.random.bits(key, values.shape, jnp.uint32) >> 16)
    rounded = jax.lax.bitcast_convert_type(added & np.uint32(0xFFFF0000), jnp.float32)
    return jnp.where(jnp.isfinite(values), rounded, values)


@tree.node()
@dataclass(frozen=True)
class Rounded(Settings):
    """An optimiser that leaves parameters in bfloat16."""

    optimizer: Any

    any_steps = True

    def build(self, steps: int) -> optax.GradientTransformation:
        """The optimiser for a training of `steps` steps."""
        inner = optax.with_extra_args_support(self.optimizer.build(steps))

        def init(params: Params) -> RoundedState:
            return RoundedState(inner.init(precisely(params)), jax.random.key(0))

        def update(gradient: Params, state: RoundedState, params: Params, **extra: Any) -> tuple[Params, RoundedState]:
            wide = precisely(params)
            moves, after = inner.update(precisely(gradient), state.inner, wide, **extra)
            key, own = jax.random.split(state.key)
            vector = round_at_random(own, tree.ravel(jax.tree.map(jnp.add, wide, moves)).astype(jnp.float32))
            rounded = tree.unravel(vector, wide)
            return jax.tree.map(jnp.subtract, rounded, wide), RoundedState(after, key)

        return around(inner, init, update, lambda state: state.inner, lambda state, new: state._replace(inner=new))


def train_half(
    key: Key, problem: Problem, training: Training, anchor: Params, params: Params, noise: Array | None = None
) -> Trained:
    """A training in bfloat16; the parameters that it leaves are float32 again."""
    order_key, round_key = jax.random.split(key)
    low_problem: Problem = tree.map_named(
        lambda name, leaf: _narrow(leaf) if name.startswith(("data/x", "validation/x")) else leaf, problem
    )
    low_training, start = training.using(Rounded(training.optimizer)), jax.tree.map(_narrow, params)
    state = low_training.build(problem.n).init(start)._replace(key=round_key)
    found = train(order_key, low_problem, low_training, anchor, start, noise, state)
    return found._replace(params=precisely(found.params), state=None)


def _narrow(leaf: Any) -> Any:
    leaf = jnp.asarray(leaf)
    return leaf.astype(jnp.bfloat16) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf
