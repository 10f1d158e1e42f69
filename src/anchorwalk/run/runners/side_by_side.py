"""Chains of several runs side by side: for experiments that repeat a small run many times."""

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


@dataclass(frozen=True, eq=False)
class SideBySide:
    """Blocks of `width` chains at a time, of one run after the other: chain c of run r has the number r * chains + c.

    Each run has a root key of its own, and its chains have the keys, anchors and orders of rows that they would have
    in a run by themselves.

    Args:
        roots: Keys of the runs, an array of keys.
        chains: Chains of each run.
        width: Chains in a block, of whatever runs.

    Example:
        >>> import jax
        >>> from anchorwalk.run.runners import SideBySide
        >>> SideBySide(jax.random.split(jax.random.key(0), 3), chains=2, width=4)
        SideBySide(runs=3, chains=2, width=4)
    """

    roots: Key
    chains: int
    width: int

    def __post_init__(self) -> None:
        checks.count("SideBySide(chains=)", self.chains)
        checks.count("SideBySide(width=)", self.width)

    def __repr__(self) -> str:
        return f"SideBySide(runs={self.roots.shape[0]}, chains={self.chains}, width={self.width})"

    def start(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, attempts: Lanes
    ) -> tuple[ChainState, Member]:
        """The first member of each chain."""
        roots, numbers = self._of(chains)
        return _numbered(_start(roots, recipe, options, numbers, self._fill(attempts)), self._fill(chains))

    def step(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, index: int, states: ChainState
    ) -> tuple[ChainState, Member]:
        """The next member of each chain."""
        roots, numbers = self._of(chains)
        states = jax.tree.map(self._fill, states)
        return _numbered(_step(roots, recipe, options, numbers, np.int32(index), states), self._fill(chains))

    def _of(self, chains: Lanes) -> tuple[Key, Lanes]:
        """The root key of each chain of a block, and the chain's number within its run."""
        runs, numbers = np.divmod(self._fill(chains), np.uint32(self.chains))
        return self.roots[runs], numbers

    def _fill(self, lanes: Any) -> Any:
        return filled(lanes, self.width)


def _numbered(result: tuple[ChainState, Member], chains: Lanes) -> tuple[ChainState, Member]:
    states, members = result
    return states, members._replace(info=members.info._replace(chain=chains))


@partial(jax.jit, static_argnames="options")
def _start(roots, recipe, options, chains, attempts):  # type: ignore[no-untyped-def]
    return jax.vmap(lambda r, c, a: start_chain(r, recipe, options, c, a))(roots, chains, attempts)


@partial(jax.jit, static_argnames="options")
def _step(roots, recipe, options, chains, index, states):  # type: ignore[no-untyped-def]
    return jax.vmap(lambda r, c, s: step_chain(r, recipe, options, c, index, s))(roots, chains, states)
