"""Aliases, and the small records that flow from the walk to the store."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
from jax.typing import ArrayLike

Array = jax.Array
Key = jax.Array
Params = Any
"""Any pytree of floating-point arrays."""
Inputs = Any
"""Any pytree of arrays with a leading axis of N rows."""
Init = Callable[[Key], Params]
Apply = Callable[[Params, Inputs], Array]


class WalkState(NamedTuple):
    """Where a walk stands.

    Attributes:
        position: (anchor - prior mean) / prior scale; every walk lives on the standard normal.
        memory: Directions, momentum, or `()`.
    """

    position: Params
    memory: Any


class WalkInfo(NamedTuple):
    """What a reader wants to know of a step: the share of parameters whose proposal was accepted."""

    acceptance: Array


@runtime_checkable
class Walk(Protocol):
    """A Markov chain for each parameter that leaves the standard normal invariant.

    A walk is a pytree: its step sizes are leaves, so that another step size compiles nothing. Positions are
    float32 at least, whatever the parameters are. `anchorwalk.testing.check_walk` runs the contract on your own.

    Example:
        >>> import dataclasses, jax, jax.numpy as jnp, anchorwalk as aw
        >>> @jax.tree_util.register_dataclass
        ... @dataclasses.dataclass(frozen=True)
        ... class Mixing:
        ...     share: float
        ...
        ...     def init(self, key, like):
        ...         leaves, structure = jax.tree.flatten(like)
        ...         keys = jax.random.split(key, len(leaves))
        ...         drawn = [jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves)]
        ...         return aw.WalkState(jax.tree.unflatten(structure, drawn), ())
        ...
        ...     def step(self, key, state):
        ...         new = self.init(key, state.position).position
        ...         mix = lambda old, new: jnp.sqrt(1 - self.share) * old + jnp.sqrt(self.share) * new
        ...         position = jax.tree.map(mix, state.position, new)
        ...         return aw.WalkState(position, ()), aw.WalkInfo(jnp.ones(()))
        >>> aw.testing.check_walk(Mixing(share=0.1))
    """

    def init(self, key: Key, like: Params) -> WalkState:
        """Draw the first position from the standard normal, shaped like `like`, which may be shapes alone."""
        ...

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Move each parameter once."""
        ...


class ChainState(NamedTuple):
    """All that a chain needs to go on, beside its keys and its index.

    Attributes:
        walk: The anchor's walk.
        noise: The walk of the targets' perturbation, or None where there is none.
        params: The last good optimum, from which the next training starts.
    """

    walk: WalkState
    noise: WalkState | None
    params: Params


class MemberInfo(NamedTuple):
    """What is known of one member.

    Attributes:
        chain: Its chain, from 0.
        index: Its place in the chain, from 0.
        status: See `Status`.
        loss_start: Full-data anchored loss, in nats per row, before training.
        loss_end: The same after training.
        gradient_norm_start: Euclidean norm of that loss's gradient, before training.
        gradient_norm_end: The same after training.
        acceptance: Share of the anchor's parameters that moved in the step that led here (1 at index 0).
        seconds: Wall time of the training, its equal share of the block's.
    """

    chain: ArrayLike
    index: ArrayLike  # type: ignore[assignment]  # it hides tuple.index, which nobody calls here
    status: ArrayLike
    loss_start: ArrayLike
    loss_end: ArrayLike
    gradient_norm_start: ArrayLike
    gradient_norm_end: ArrayLike
    acceptance: ArrayLike
    seconds: ArrayLike


class Member(NamedTuple):
    """One network of the ensemble.

    Attributes:
        params: The optimum that training found.
        losses: Mean anchored minibatch loss of each epoch, in nats per row.
        info: Everything else that is known of it.
    """

    params: Params
    losses: Any
    info: MemberInfo
