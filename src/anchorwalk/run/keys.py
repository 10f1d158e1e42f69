"""Keys of a run: all randomness comes from its root key.

Chain key = fold_in(root, chain), member key = fold_in(chain key, index), split into named keys once.
"""

import enum
from typing import NamedTuple

import jax

from anchorwalk.types import Array, Key


class Stream(enum.IntEnum):
    """What is folded into the root key for randomness that belongs to no chain; no chain has these numbers."""

    ORDER = 2**32 - 1
    """An order of rows that all chains share."""
    HOLD_BACK = 2**32 - 2
    """The choice of validation rows."""
    PILOT = 2**32 - 3
    """The planner's pilots."""
    PROBE = 2**32 - 4
    """The choice of inputs at which pilots are compared."""
    TRIAL = 2**32 - 5
    """The planner's trials of rates."""


class MemberKeys(NamedTuple):
    """The keys of one member, each used once."""

    init: Key
    walk: Key
    noise: Key
    order: Key


def member_keys(root: Key, chain: Array, index: Array, shared_order: bool) -> MemberKeys:
    """The keys of member `index` of `chain`; with `shared_order` no chain enters the key of the order."""
    own = MemberKeys(*jax.random.split(jax.random.fold_in(jax.random.fold_in(root, chain), index), 4))
    if shared_order:
        return own._replace(order=jax.random.fold_in(jax.random.fold_in(root, Stream.ORDER), index))
    return own
