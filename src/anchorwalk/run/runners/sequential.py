"""One chain after the other: for networks that fill the machine by themselves."""

from dataclasses import dataclass
from functools import partial

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.methods.base import ChainState, Member
from anchorwalk.methods.chain import Options, Recipe, start_chain, step_chain
from anchorwalk.run.runners.base import Lanes
from anchorwalk.types import Key


@dataclass(frozen=True)
class Sequential:
    """One chain at a time, not vectorised.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Sequential().width
        1
    """

    @property
    def width(self) -> int:
        """Chains in a block: one."""
        return 1

    def start(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, attempts: Lanes
    ) -> tuple[ChainState, Member]:
        """The first member of one chain."""
        return _start(root, recipe, options, chains, attempts)  # type: ignore[no-any-return]

    def step(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, index: int, states: ChainState
    ) -> tuple[ChainState, Member]:
        """The next member of one chain."""
        return _step(root, recipe, options, chains, np.int32(index), states)  # type: ignore[no-any-return]


@partial(jax.jit, static_argnames="options")
def _start(root, recipe, options, chains, attempts):  # type: ignore[no-untyped-def]
    return _lanes(start_chain(root, recipe, options, chains[0], attempts[0]))


@partial(jax.jit, static_argnames="options")
def _step(root, recipe, options, chains, index, states):  # type: ignore[no-untyped-def]
    return _lanes(step_chain(root, recipe, options, chains[0], index, tree.lane(states, 0)))


def _lanes(result: tuple[ChainState, Member]) -> tuple[ChainState, Member]:
    """A leading axis of one, added inside the compiled program so that no further program is needed."""
    expanded: tuple[ChainState, Member] = jax.tree.map(lambda leaf: leaf[None], result)
    return expanded
