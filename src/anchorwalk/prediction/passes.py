"""Passes over the members: the outputs of each network on all rows, one network at a time."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree
from anchorwalk.types import Apply, Array, Inputs, Params

CACHE_BYTES = 128 * 2**20
"""Outputs of all members are kept between passes where they fit into this; else networks run again."""


class Passes:
    """Outputs of every member on the same rows, as often as they are asked for.

    Memory holds one member's outputs and at most CACHE_BYTES of others, whatever the number of members.

    Args:
        members: Gives the parameters of member i.
        count: Number of members.
        apply: The network.
        x: All rows.
        rows: Their number.
        batch_size: Rows in one call of the network.
    """

    def __init__(
        self,
        members: Callable[[int], Params],
        count: int,
        apply: Apply,
        x: Inputs,
        rows: int,
        batch_size: int,
    ) -> None:
        self.count = count
        self._members = members
        self._apply = apply
        self.rows = rows
        size = min(batch_size, rows)
        self._batches = [_padded(x, start, size, rows) for start in range(0, rows, size)]
        self._cache: dict[int, Array] = {}

    def outputs(self, which: Sequence[int] | None = None) -> Iterator[tuple[int, Array]]:
        """Each member's number and outputs, or those of the members in `which`."""
        for i in range(self.count) if which is None else which:
            found = self._cache.get(i)
            if found is None:
                params = self._members(i)
                parts = [_forward(self._apply, params, batch) for batch in self._batches]
                found = (jnp.concatenate(parts) if len(parts) > 1 else parts[0])[: self.rows]
                if found.nbytes * self.count <= CACHE_BYTES:
                    self._cache[i] = found
            yield i, found


def _padded(x: Inputs, start: int, size: int, rows: int) -> Inputs:
    """A batch of exactly `size` rows, the last one filled up with its last row, so that one program serves all."""
    indices = np.minimum(np.arange(start, start + size), rows - 1)
    return jax.tree.map(lambda leaf: leaf[indices], x)


@partial(jax.jit, static_argnames="apply")
def _forward(apply: Apply, params: Params, x: Inputs) -> Any:
    outputs = apply(params, x)
    return outputs.astype(tree.precise(outputs.dtype))
