"""This machine: blocks of chains in threads, each block as one compiled program.

XLA's CPU programs run most of a loop's operations on one core. Several programs at a time use all of them.
"""

import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.methods.base import Call, Keys, Method, State
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream, keys_of
from anchorwalk.run.programs import ONCE, QUICKLY, WELL, Options, compiled, wide_floats
from anchorwalk.run.runners.base import Job, Layout, Result
from anchorwalk.run.runners.layout import choose, cores
from anchorwalk.types import HostArray, Key

KEYS = Options(several_cores=False, level=ONCE)  # for programs that make keys
MOST_THREADS = 8  # blocks of a large network at a time by default: each needs memory for its activations


@dataclass(frozen=True)
class Local:
    """Blocks of `lanes` chains, as many at a time as there are threads, each block on a core of its own.

    Args:
        threads: Blocks at a time; None for the cores of this process, up to 8 for large networks. Decides no result.
        lanes: Chains of a block, side by side under vmap; None follows a rule by problem and number of chains. Decides
            the last bits of the results.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Local(threads=2, lanes=5)
        Local(threads=2, lanes=5)
    """

    threads: int | None = None
    lanes: int | None = None

    def __post_init__(self) -> None:
        for name in ("threads", "lanes"):
            if getattr(self, name) is not None:
                checks.count(f"Local({name}=)", getattr(self, name))

    def layout(self, problem: Problem, chains: int, passes: float, recorded: Layout | None) -> Layout:
        """As asked for; else as the run was begun; else by the rule."""
        if recorded and self.lanes in (None, recorded.lanes):
            return recorded
        chosen = choose(problem, chains, passes)
        return chosen if self.lanes is None else chosen._replace(lanes=self.lanes, wide=chains == 1)

    def open(self, method: Method, problem: Problem, layout: Layout, chains: int) -> "LocalSession":
        """Start the threads."""
        blocks = -(-chains // layout.lanes)
        most = MOST_THREADS if layout.lanes == 1 else blocks
        threads = self.threads or (1 if layout.wide else min(cores(), most))
        return LocalSession(method, problem, layout, min(threads, blocks))


class LocalSession(AbstractContextManager["LocalSession"]):
    """Threads that carry out the jobs of one run."""

    def __init__(self, method: Method, problem: Problem, layout: Layout, threads: int) -> None:
        # JAX's settings belong to a thread: what the user set in a context is taken along.
        self._x64 = wide_floats(problem)
        with jax.enable_x64(self._x64):
            self._method, self._problem, self._layout = method, jax.device_put(problem), layout
        self.slots = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="anchorwalk")
        self._options = Options(layout.wide, QUICKLY if layout.quick else WELL)
        self._starting = Options(several_cores=False, level=ONCE if layout.quick else QUICKLY)

    def submit(self, job: Job) -> Future[Result]:
        """Compile the job's program, where it is not there yet, and carry it out in a thread."""
        lanes, roots = self._layout.lanes, job.roots
        chains = filled(job.chains, lanes)
        if roots.ndim:
            roots = filled(roots, lanes) if lanes > 1 else roots[0]
        make_keys = compiled(_keys, None, KEYS, roots, chains, np.uint32(0))
        keys = make_keys(roots, chains, np.uint32(job.number))
        common = (self._method, self._problem)
        with jax.enable_x64(self._x64):
            if job.number == 0:
                start_keys = make_keys(roots, chains, np.uint32(Stream.START))
                first = (*common, start_keys, filled(job.attempts, lanes))
                states = compiled(_start, None, self._starting, *first)(*first)
            else:
                states = jax.tree.map(lambda leaf: filled(leaf, lanes), job.states)
            arguments = (*common, keys, np.int32(job.number), states)
            call = Call(job.call.kind, job.call.draws)  # calls of a kind share a program, whatever they cost
            program = compiled(_step, call, self._options, *arguments)

        def work() -> Result:
            began = time.perf_counter()
            with jax.enable_x64(self._x64):
                carry, found = program(*arguments)
                states, draws = tree.lane(jax.device_get((carry, found)), slice(len(job.chains)))
            if job.call.trace is not None:  # the program has room for more
                draws = draws._replace(trace=jax.tree.map(lambda leaf: leaf[:, :, : job.call.trace], draws.trace))
            return Result(states, draws, time.perf_counter() - began, carry)  # it stays where it is, for the next job

        return self._pool.submit(work)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)  # after an error nobody wants what is under way


def filled(lanes: Any, width: int) -> Any:
    """Lanes of a block, filled up to its width with copies of the last one."""
    count = lanes.shape[0]
    return lanes if count == width else lanes[np.minimum(np.arange(width), count - 1)]


def _keys(_: None, roots: Key, chains: Any, number: Any) -> Any:
    """The keys of a call of each chain; what chains share is one key, or one of each where they are of several runs.

    They have a program of their own: so a call's program gives the same bits for chains of one run and of several.
    """
    many: Any = 0 if roots.ndim else None
    return jax.vmap(keys_of, in_axes=(many, 0, None), out_axes=Keys(0, many))(roots, chains, number)  # type: ignore[arg-type]


def _start(_: None, method: Method, problem: Problem, keys: Keys, attempts: HostArray) -> State:
    return _lanes(lambda keys, attempt: method.start(keys, problem, attempt), keys, attempts)


def _step(call: Call, method: Method, problem: Problem, keys: Keys, number: Any, states: State) -> Any:
    # The number is the same in all lanes, so that with a shared order one gather serves all.
    return _lanes(lambda keys, state: method.step(keys, problem, state, call, number), keys, states)


def _lanes(lane: Any, keys: Keys, values: Any) -> Any:
    """A function of one chain for all lanes of a block."""
    if keys.own.size > 1:
        axes: Any = Keys(0, 0 if keys.shared.ndim else None)  # type: ignore[arg-type]
        return jax.vmap(lane, in_axes=(axes, 0))(keys, values)
    single = lane(Keys(keys.own[0], keys.shared), tree.lane(values, 0))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], single)
