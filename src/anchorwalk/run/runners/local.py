"""This machine: blocks of chains in threads, each block as one compiled program.

XLA's CPU programs run most of a loop's operations on one core. Several programs at a time use all of them.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import islice
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from anchorwalk import checks, tree
from anchorwalk.methods.base import Call, Keys, Method, State
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream, keys_of
from anchorwalk.run.programs import ONCE, QUICKLY, WELL, Options, compiled, wide_floats
from anchorwalk.run.runners.base import Job, Layout, Result, T
from anchorwalk.run.runners.layout import choose, cores
from anchorwalk.types import HostArray, Key

KEYS = Options(several_cores=False, level=ONCE)  # for programs that make keys
# Placements on a mesh of devices: a leading axis of lanes over them, and the same on each.
LANES: Any = PartitionSpec("devices")  # type: ignore[no-untyped-call]
EACH: Any = PartitionSpec()  # type: ignore[no-untyped-call]
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

    def map(self, function: Callable[..., T], common: Any, items: Iterable[Any]) -> Iterator[T]:
        """What `function(common, item)` gives for each item, in their order, several at a time."""
        x64, precision = (
            wide_floats(),
            getattr(jax.config, "jax_default_matmul_precision", None),
        )  # they belong to a thread

        def work(item: Any) -> T:
            with jax.enable_x64(x64), jax.default_matmul_precision(precision):
                return function(common, item)

        threads, left, under_way = self.threads or cores(), iter(items), list[Future[T]]()
        with ThreadPoolExecutor(threads, thread_name_prefix="anchorwalk") as pool:
            while True:
                under_way += [pool.submit(work, item) for item in islice(left, threads + 1 - len(under_way))]
                if not under_way:
                    return
                yield under_way.pop(0).result()


class LocalSession(AbstractContextManager["LocalSession"]):
    """Threads that carry out the jobs of one run, on one device or on all of a mesh.

    On a mesh a block has `layout.lanes` chains for each device, and each device runs the program of so many.
    """

    def __init__(
        self, method: Method, problem: Problem, layout: Layout, threads: int, mesh: Mesh | None = None
    ) -> None:
        self._mesh, self.width = mesh, layout.lanes * (mesh.size if mesh else 1)
        # JAX's settings belong to a thread: what the user set in a context is taken along.
        self._x64 = wide_floats(problem)
        with jax.enable_x64(self._x64):
            self._method, self._problem, self._layout = method, self._put(problem, EACH), layout
        self.slots = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="anchorwalk")
        self._options = Options(layout.wide, QUICKLY if layout.quick else WELL)
        self._starting = Options(several_cores=False, level=ONCE if layout.quick else QUICKLY)

    def submit(self, job: Job) -> Future[Result]:
        """Compile the job's program, where it is not there yet, and carry it out in a thread."""
        lanes, roots = self.width, job.roots
        chains = filled(job.chains, lanes)
        if roots.ndim:
            roots = filled(roots, lanes) if lanes > 1 else roots[0]
        make_keys = compiled(_keys, None, KEYS, roots, chains, np.uint32(0))
        keys = self._spread(make_keys(roots, chains, np.uint32(job.number)))
        common = (self._method, self._problem)
        with jax.enable_x64(self._x64):
            if job.number == 0:
                start_keys = self._spread(make_keys(roots, chains, np.uint32(Stream.START)))
                first = (*common, start_keys, self._put(filled(job.attempts, lanes), LANES))
                states = compiled(_start, self._mesh, self._starting, *first)(*first)
            else:
                states = self._put(jax.tree.map(lambda leaf: filled(leaf, lanes), job.states), LANES)
            arguments = (*common, keys, np.int32(job.number), states)
            call = Call(job.call.kind, job.call.draws)  # calls of a kind share a program, whatever they cost
            program = compiled(_step, (call, self._mesh), self._options, *arguments)

        def work() -> Result:
            began = time.perf_counter()
            with jax.enable_x64(self._x64):
                carry, found = program(*arguments)
                states, draws = tree.lane(jax.device_get((carry, found)), slice(len(job.chains)))
            if job.call.trace is not None:  # the program has room for more
                draws = draws._replace(trace=jax.tree.map(lambda leaf: leaf[:, :, : job.call.trace], draws.trace))
            return Result(states, draws, time.perf_counter() - began, carry)  # it stays where it is, for the next job

        return self._pool.submit(work)

    def _put(self, tree: Any, spec: PartitionSpec) -> Any:
        """Arrays on the mesh; without one, on its device what all calls need, and where it is what one call needs."""
        if self._mesh is None:
            return tree if spec == LANES else jax.device_put(tree)
        return jax.device_put(tree, NamedSharding(self._mesh, spec))

    def _spread(self, keys: Keys) -> Keys:
        """Keys on the devices of their lanes."""
        return (
            keys
            if self._mesh is None
            else Keys(self._put(keys.own, LANES), self._put(keys.shared, LANES if keys.shared.ndim else EACH))
        )

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)  # after an error nothing waits for calls under way


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


def _start(mesh: Mesh | None, method: Method, problem: Problem, keys: Keys, attempts: HostArray) -> State:
    def start(method: Method, problem: Problem, keys: Keys, attempts: Any) -> State:
        return _lanes(lambda keys, attempt: method.start(keys, problem, attempt), keys, attempts)

    return _on_each_device(mesh, start, keys)(method, problem, keys, attempts)


def _step(form: Any, method: Method, problem: Problem, keys: Keys, number: Any, states: State) -> Any:
    call, mesh = form

    def step(method: Method, problem: Problem, keys: Keys, states: State, number: Any) -> Any:
        # The number is the same in all lanes, so that with a shared order one gather serves all.
        return _lanes(lambda keys, state: method.step(keys, problem, state, call, number), keys, states)

    return _on_each_device(mesh, step, keys, EACH)(method, problem, keys, states, number)


def _on_each_device(mesh: Mesh | None, function: Any, keys: Keys, *further: PartitionSpec) -> Any:
    """A function of method, problem, keys and values of lanes, on each device's own lanes."""
    if mesh is None:
        return function
    specs = (EACH, EACH, Keys(LANES, LANES if keys.shared.ndim else EACH), LANES, *further)
    # No device's values are needed by another, so that nobody need check which of them differ.
    return jax.shard_map(function, mesh=mesh, in_specs=specs, out_specs=LANES, check_vma=False)


def _lanes(lane: Any, keys: Keys, values: Any) -> Any:
    """A function of one chain for all lanes of a block."""
    if keys.own.size > 1:
        axes: Any = Keys(0, 0 if keys.shared.ndim else None)  # type: ignore[arg-type]
        return jax.vmap(lane, in_axes=(axes, 0))(keys, values)
    single = lane(Keys(keys.own[0], keys.shared), tree.lane(values, 0))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], single)
