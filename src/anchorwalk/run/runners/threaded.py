"""Blocks of chains in threads, a core each: for CPUs, where XLA's own threads bring little inside a compiled loop."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.methods.base import ChainState, Member
from anchorwalk.methods.chain import Options, Recipe, start_chain, step_chain
from anchorwalk.run.runners.base import Lanes, filled
from anchorwalk.types import Key

KEPT = 64
"""Compiled programs that are kept, the latest used ones."""
ONE_THREAD: dict[str, str | bool] = {"xla_cpu_multi_thread_eigen": False}
"""How XLA is asked for programs that use one core each."""


@dataclass(frozen=True)
class Threaded:
    """Blocks of `lanes` chains, as many at a time as there are threads, each block on a core of its own.

    XLA's CPU programs run most of a loop's operations on one core. Several programs at a time use all of them.

    Args:
        threads: Blocks at a time.
        lanes: Chains in a block, side by side under vmap; 1 for networks that fill a core by themselves. It decides the
            compiled program, and so the last bits of the results; the number of threads does not.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Threaded(threads=2, lanes=5).width
        10
    """

    threads: int
    lanes: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "threads", checks.count("Threaded(threads=)", self.threads))
        object.__setattr__(self, "lanes", checks.count("Threaded(lanes=)", self.lanes))

    @property
    def width(self) -> int:
        """Chains at a time, in all threads."""
        return self.threads * self.lanes

    def start(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, attempts: Lanes
    ) -> tuple[ChainState, Member]:
        """The first member of each chain."""
        blocks = [(root, recipe, block, tries) for block, tries in self._blocks(chains, attempts)]
        return self._run(_start_one if self.lanes == 1 else _start_block, options, blocks, len(chains))

    def step(
        self, root: Key, recipe: Recipe, options: Options, chains: Lanes, index: int, states: ChainState
    ) -> tuple[ChainState, Member]:
        """The next member of each chain."""
        states = jax.tree.map(np.asarray, states)
        blocks = [(root, recipe, block, np.int32(index), of) for block, of in self._blocks(chains, states)]
        return self._run(_step_one if self.lanes == 1 else _step_block, options, blocks, len(chains))

    def _blocks(self, chains: Lanes, beside: Any) -> list[tuple[Any, Any]]:
        """Chains, and what goes with them, in blocks; the last one filled up."""
        starts = range(0, len(chains), self.lanes)
        parts = [(tree.lane((chains, beside), slice(start, start + self.lanes))) for start in starts]
        return [jax.tree.map(lambda leaf: filled(leaf, self.lanes), part) for part in parts]

    def _run(
        self, function: Callable[..., Any], options: Options, blocks: Sequence[tuple[Any, ...]], count: int
    ) -> tuple[ChainState, Member]:
        program = compiled(function, options, *blocks[0])
        with ThreadPoolExecutor(self.threads) as pool:
            results = list(pool.map(lambda block: jax.device_get(program(*block)), blocks))
        joined: tuple[ChainState, Member] = jax.tree.map(lambda *leaves: np.concatenate(leaves)[:count], *results)
        return joined


_programs: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.Lock()


def compiled(function: Callable[..., Any], options: Options, *arguments: Any) -> Any:
    """The program of a function for arguments of these shapes, compiled once however many threads ask for it."""
    leaves, structure = jax.tree.flatten(arguments)
    kinds = tuple((aval.shape, aval.dtype, aval.weak_type) for aval in map(jax.typeof, leaves))
    key = (function, options, structure, kinds)
    with _lock:
        if key not in _programs:
            lowered = jax.jit(function, static_argnums=0).lower(options, *arguments)
            _programs[key] = lowered.compile(compiler_options=ONE_THREAD)
            if len(_programs) > KEPT:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
        return _programs[key]


def _start_one(options: Options, root: Key, recipe: Recipe, chains: Any, attempts: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf[None], start_chain(root, recipe, options, chains[0], attempts[0]))


def _step_one(options: Options, root: Key, recipe: Recipe, chains: Any, index: Any, states: Any) -> Any:
    result = step_chain(root, recipe, options, chains[0], index, tree.lane(states, 0))
    return jax.tree.map(lambda leaf: leaf[None], result)


def _start_block(options: Options, root: Key, recipe: Recipe, chains: Any, attempts: Any) -> Any:
    return jax.vmap(lambda c, a: start_chain(root, recipe, options, c, a))(chains, attempts)


def _step_block(options: Options, root: Key, recipe: Recipe, chains: Any, index: Any, states: Any) -> Any:
    return jax.vmap(lambda c, s: step_chain(root, recipe, options, c, index, s))(chains, states)
