"""What a runner is: it trains one member of every chain of a block, as one compiled program."""

from typing import Any, Protocol, runtime_checkable

import numpy as np

from anchorwalk.methods.base import ChainState, Member
from anchorwalk.methods.chain import Options, Recipe
from anchorwalk.types import Key

Lanes = np.ndarray[tuple[int], np.dtype[np.uint32]]
"""Numbers, one for each chain of a block."""


@runtime_checkable
class Runner(Protocol):
    """Trains blocks of chains; everything that it takes and returns has a leading axis of chains.

    A chain's members depend on its own keys alone: not on its lane, its neighbours or the number of chains.
    """

    @property
    def width(self) -> int:
        """Chains in a block."""
        ...

    def start(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, attempts: Lanes
    ) -> tuple[ChainState, Member]:
        """The first member of each chain."""
        ...

    def step(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, index: int, states: ChainState
    ) -> tuple[ChainState, Member]:
        """The next member of each chain."""
        ...


def filled(lanes: Any, width: int) -> Any:
    """Lanes of a block, filled up to its width with copies of the last one."""
    missing = width - lanes.shape[0]
    return lanes if missing == 0 else np.concatenate([lanes, np.repeat(lanes[-1:], missing, axis=0)])
