"""Keys of a run: all randomness comes from its root key.

Chain key = fold_in(root, chain), key of a call = fold_in(chain key, number of the call). What belongs to no chain, or
to no call, is folded in under a number that no chain and no call has.
"""

import enum

import jax

from anchorwalk.methods.base import Keys
from anchorwalk.types import Array, Key


class Stream(enum.IntEnum):
    """Numbers that no chain and no call has."""

    SHARED = 2**32 - 1  # of the root key: what all chains share, such as one order of rows
    PREPARE = 2**32 - 2  # of the root key: `Method.prepare`, such as the choice of validation rows
    TRIAL = 2**32 - 3  # of the root key: the planner's trials
    START = 2**32 - 6  # of a chain's key, in the place of a call's number: `Method.start`


def keys_of(root: Key, chain: Array | int, number: Array | int) -> Keys:
    """The keys of a call of a chain; `Stream.START` is the number of its start."""
    own = jax.random.fold_in(jax.random.fold_in(root, chain), number)
    return Keys(own, jax.random.fold_in(jax.random.fold_in(root, Stream.SHARED), number))
