"""Blocks of chains side by side under vmap: for networks that are too small to fill the machine."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.methods.base import ChainState, Member
from anchorwalk.methods.chain import Options, Recipe, start_chain, step_chain
from anchorwalk.run.runners.base import Lanes, filled
from anchorwalk.types import Key


@dataclass(frozen=True)
class Vectorized:
    """Blocks of `width` chains at a time; the last block is filled up with copies that nobody sees.

    Args:
        width: Chains in a block. It decides the compiled program, and so the last bits of the results.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Vectorized(width=8)
        Vectorized(width=8)
    """

    width: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", checks.count("Vectorized(width=)", self.width))

    def start(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, attempts: Lanes
    ) -> tuple[ChainState, Member]:
        """The first member of each chain."""
        return _start(root, recipe, options, self._fill(chains), self._fill(attempts))  # type: ignore[no-any-return]

    def step(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, index: int, states: ChainState
    ) -> tuple[ChainState, Member]:
        """The next member of each chain."""
        states = jax.tree.map(self._fill, states)
        return _step(root, recipe, options, self._fill(chains), np.int32(index), states)  # type: ignore[no-any-return]

    def _fill(self, lanes: Any) -> Any:
        return filled(lanes, self.width)


# Index and root are the same in all lanes, so that with a shared order of rows one gather serves the block.


@partial(jax.jit, static_argnames="options")
def _start(root, recipe, options, chains, attempts):  # type: ignore[no-untyped-def]
    return jax.vmap(lambda c, a: start_chain(root, recipe, options, c, a))(chains, attempts)


@partial(jax.jit, static_argnames="options")
def _step(root, recipe, options, chains, index, states):  # type: ignore[no-untyped-def]
    return jax.vmap(lambda c, s: step_chain(root, recipe, options, c, index, s))(chains, states)
