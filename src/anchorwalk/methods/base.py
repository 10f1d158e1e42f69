"""What the methods share: the state of a chain and its members."""

from typing import Any, NamedTuple

from jax.typing import ArrayLike

from anchorwalk.types import Params
from anchorwalk.walks.base import WalkState


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
