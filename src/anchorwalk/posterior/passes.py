"""Passes over the members: the outputs of each network on all rows, one network at a time."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from anchorwalk import tree
from anchorwalk.likelihoods import Likelihood
from anchorwalk.run.runners import Mapper
from anchorwalk.run.runners.layout import effort_of
from anchorwalk.types import Apply, Array, Inputs, Params

CACHE_BYTES = 128 * 2**20
"""Outputs of all members are kept between passes where they fit into this; else networks run again."""
MOST_ROWS = 1000
"""Rows in one call of the network, at the most, where nobody says."""
TOGETHER = 8 * 2**20
"""Bytes of members that go to a runner's worker at a time, at the most; but at least SHARES groups of members."""
SHARES = 16
PROBE_ROWS = 32
LEAST_ROWS = 8
NEAR_BYTES = 12 * 2**20
"""Memory for what a network makes on its way, up to which a CPU's caches serve it; docs/speed.md has measurements."""
KEPT = 32
"""Networks whose compiled programs are kept."""
LONGEST_FLOAT = 8
"""Bytes of a number, at the most."""


class Passes:
    """Outputs of every member on the same rows, as often as they are asked for.

    `members` gives the parameters of member i. Memory holds one member's outputs and at most CACHE_BYTES of others,
    whatever the number of members. Without a `batch_size`, `fitting_rows` chooses one. With a runner networks run
    there, several at a time, in the same batches.
    """

    def __init__(
        self,
        members: Callable[[int], Params],
        count: int,
        apply: Apply,
        x: Inputs,
        rows: int,
        batch_size: int | None,
        runner: Mapper | None = None,
    ) -> None:
        self.count, self.rows, self._runner = count, rows, runner
        self._members, self._apply = members, apply
        self.batch_size = size = min(batch_size or fitting_rows(apply, members(0), x, rows), rows)
        self._batches = [_padded(x, start, size, rows) for start in range(0, rows, size)]
        self._cache: dict[int, Array] = {}

    def outputs(self, which: Sequence[int] | None = None) -> Iterator[tuple[int, Array]]:
        """Each member's number and outputs, or those of the members in `which`."""
        wanted = range(self.count) if which is None else which
        if self._runner is not None:
            yield from self._from_runner(self._runner, wanted)
            return
        begun: tuple[int, Array] | None = None
        for i in wanted:
            ahead = i, self._outputs(i)  # runs while the caller works on the one before
            if begun is not None:
                yield begun
            begun = ahead
        if begun is not None:
            yield begun

    def _outputs(self, i: int) -> Array:
        found = self._cache.get(i)
        if found is None:
            found = self._kept(i, _all_rows(self._apply, self._batches, self._members(i))[: self.rows])
        return found

    def _kept(self, i: int, found: Array) -> Array:
        if found.nbytes * self.count <= CACHE_BYTES:
            self._cache[i] = found
        return found

    def _from_runner(self, runner: Mapper, wanted: Sequence[int]) -> Iterator[tuple[int, Array]]:
        """Outputs that a runner computes, and those that are kept, in the order that is wanted."""
        missing = [i for i in wanted if i not in self._cache]
        size = max(1, min(TOGETHER // max(1, tree.nbytes(self._members(0))), -(-len(missing) // SHARES)))
        groups = [missing[start : start + size] for start in range(0, len(missing), size)]
        common = Partial(self._apply), self._batches  # type: ignore[no-untyped-call]
        found = runner.map(_of_group, common, ([self._members(i) for i in group] for group in groups))
        new = (outputs for group in found for outputs in group)
        for i in wanted:
            yield i, self._cache[i] if i in self._cache else self._kept(i, next(new)[: self.rows])


def fitting_rows(apply: Apply, params: Params, x: Inputs, rows: int) -> int:
    """Rows in one call of a network, up to 1000.

    On a CPU what a network makes on its way should stay near: for LeNet-5, 32 rows a call are four times as fast as
    200. So there it is a power of two whose memory fits into 12 MiB by the compiler's own account, and at least 8. The
    compiler is not asked where all that is made for all rows fits.
    """
    if jax.default_backend() != "cpu" or rows <= PROBE_ROWS:
        return MOST_ROWS
    like = jax.eval_shape(lambda: (params, _padded(x, 0, PROBE_ROWS, rows)))
    made = effort_of(jax.make_jaxpr(apply)(*like).jaxpr).outputs * LONGEST_FLOAT
    if made * min(rows, MOST_ROWS) <= NEAR_BYTES * PROBE_ROWS:
        return MOST_ROWS
    leaves, structure = jax.tree.flatten(like)
    return _fitting_rows(apply, structure, tuple((leaf.shape, leaf.dtype) for leaf in leaves))


@lru_cache(maxsize=64)
def _fitting_rows(apply: Apply, structure: Any, kinds: tuple[Any, ...]) -> int:
    leaves = [jax.ShapeDtypeStruct(*kind) for kind in kinds]  # type: ignore[no-untyped-call]
    params, x = jax.tree.unflatten(structure, leaves)
    memory: Any = _forward_of(apply).lower(params, x).compile().memory_analysis()
    rows = PROBE_ROWS * NEAR_BYTES / max(memory.temp_size_in_bytes, 1)
    return int(min(MOST_ROWS, max(LEAST_ROWS, 2.0 ** math.floor(math.log2(rows)))))


def _all_rows(apply: Apply, batches: Sequence[Inputs], params: Params) -> Array:
    """The outputs of a network on all batches."""
    params = jax.device_put(params)  # once, not with each batch
    forward = _forward_of(apply)
    parts = [forward(params, batch) for batch in batches]
    return jnp.concatenate(parts) if len(parts) > 1 else parts[0]


def _of_group(common: Any, members: Sequence[Params]) -> list[Array]:
    """The outputs of several members, where a runner wants them."""
    network, batches = common
    return [_all_rows(network.func, batches, params) for params in members]


def _padded(x: Inputs, start: int, size: int, rows: int) -> Inputs:
    """A batch of exactly `size` rows, the last one filled up with its last row, so that one program serves all."""
    indices = np.minimum(np.arange(start, start + size), rows - 1)
    return jax.tree.map(lambda leaf: leaf[indices], x)


@jax.jit
def moments(likelihood: Likelihood, outputs: Array) -> tuple[Array, Array]:
    """Mean and variance of the target under one member."""
    return likelihood.mean(outputs), likelihood.variance(outputs)


@lru_cache(maxsize=KEPT)
def _forward_of(apply: Apply) -> Any:
    """A function that JAX compiles for each shape; its programs are gone when it is forgotten."""
    return jax.jit(partial(_forward, apply))


def _forward(apply: Apply, params: Params, x: Inputs) -> Array:
    outputs: Array = apply(params, x)
    return outputs.astype(tree.precise(outputs.dtype))
