"""A Ray cluster: blocks of chains as tasks, on as many machines as there are.

States and draws come back to this process, the driver, which alone writes to stores. A task that is lost with its
worker is sent again from there.
"""

import math
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.errors import WorkerLost
from anchorwalk.methods.base import Method, State
from anchorwalk.problem import Problem
from anchorwalk.run.runners import cluster, worker
from anchorwalk.run.runners.base import Job, Layout, Result, T
from anchorwalk.run.runners.local import Local

AGAIN = 3  # how often a call is sent again after its worker was lost
LOOK = 1.0  # seconds between two looks at what nodes there are
MOST = 512  # tasks under way: each has a thread here that waits for it


@dataclass(frozen=True)
class Ray:
    """A Ray cluster: blocks of `lanes` chains as tasks on its workers.

    Members are those of `Local` with the same lanes, to the last bit, where the workers are machines like this one. A
    call whose worker dies is sent again, three times at most. Then the block's chains are given up, and the others
    continue. Workers may join and leave while a run is under way.

    Args:
        address: "auto" for the cluster that this machine belongs to, or its "host:port"; None for the one that this
            process is connected to, or else for one on this machine that ends with the run.
        workers: Tasks at a time at most; None for as many as the cluster's nodes have room for.
        resources: What a task needs, such as `{"CPU": 2}` or `{"CPU": 1, "GPU": 1}`.
        lanes: Chains of a block, as in `Local`.
        other_machines: Whether workers may be of another kind than this process: with other versions or processors.
            Results are then equal to rounding only, after long trainings in distribution.

    Raises:
        ImportError: Ray is not installed.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Ray(address="auto", resources={"CPU": 2}).resources
        {'CPU': 2}
    """

    address: str | None = None
    workers: int | None = None
    resources: Mapping[str, float] = field(default_factory=lambda: {"CPU": 1})
    lanes: int | None = None
    other_machines: bool = False

    def __post_init__(self) -> None:
        cluster.library()
        if self.address is not None and not isinstance(self.address, str):
            checks.reject("Ray(address=)", repr(self.address), '"auto", "host:port" or None', "Pass one of them.")
        for name in ("workers", "lanes"):
            if getattr(self, name) is not None:
                checks.count(f"Ray({name}=)", getattr(self, name))
        if not isinstance(self.resources, Mapping) or not any(self.resources.values()):
            remedy = 'Pass such as {"CPU": 1}.'
            checks.reject("Ray(resources=)", repr(self.resources), "amounts by name, one above zero", remedy)
        for name, amount in self.resources.items():
            if checks.number(f"Ray(resources={{{name!r}: }})", amount) < 0:
                checks.reject("Ray(resources=)", repr(self.resources), "no negative amounts", "Leave it out.")

    def layout(self, problem: Problem, chains: int, passes: float, recorded: Layout | None) -> Layout:
        """That of `Local`."""
        return Local(lanes=self.lanes).layout(problem, chains, passes, recorded)

    def open(self, method: Method, problem: Problem, layout: Layout, chains: int) -> "RaySession":
        """Connect, look at the workers, and send them what all calls need."""
        return RaySession(self, method, problem, layout, -(-chains // layout.lanes))

    def map(self, function: Callable[..., T], common: Any, items: Iterable[Any]) -> Iterator[T]:
        """What `function(common, item)` gives for each item, in their order, each on some worker."""
        shared = cluster.taken_apart({"network": common}, self._settings(wide=False))
        with cluster.connected(self.address, self._cpus, _room(common)) as ray:
            cluster.check_workers(ray, self.resources, shared)
            reference = ray.put(shared)
            task = ray.remote(worker.apply).options(**cluster.options(self.resources))
            left, under_way = iter(items), list[tuple[Any, Any]]()
            while True:
                room = self._places(ray) + 1 - len(under_way)  # one waits, so that no worker does
                under_way += [(item, task.remote(function, [reference], item)) for item in islice(left, max(0, room))]
                if not under_way:
                    return
                item, answer = under_way.pop(0)
                losses: list[str] = []
                while True:
                    try:
                        yield ray.get(answer)
                        break
                    except Exception as error:
                        losses.append(_loss(ray, error))
                        if len(losses) > AGAIN:
                            raise WorkerLost(losses) from error
                    answer = task.remote(function, [reference], item)

    @property
    def _cpus(self) -> int | None:
        """CPUs of a cluster that is started here; None for the cores of this process."""
        return None if self.workers is None else max(1, math.ceil(self.workers * self.resources.get("CPU", 0)))

    def _settings(self, wide: bool) -> worker.Settings:
        return cluster.settings(wide, not self.other_machines)

    def _places(self, ray: Any) -> int:
        return max(1, min(cluster.places(ray, self.resources), self.workers or MOST, MOST))


class Carried(NamedTuple):
    """States after a call: where the cluster has them, and a copy for the case that it loses them."""

    reference: Any
    states: State


class RaySession(AbstractContextManager["RaySession"]):
    """A connection that carries out the jobs of one run; a thread waits for each task that is under way."""

    def __init__(self, runner: Ray, method: Method, problem: Problem, layout: Layout, blocks: int) -> None:
        given = runner._settings(layout.wide)
        parts = {"plan.method": method, "problem": problem}
        shared = cluster.taken_apart(parts, given)
        self._runner, self._layout, self._name = runner, layout, uuid.uuid4().hex
        self._looked, self._places, self._busy = -np.inf, 1, 0
        self._ready, self._closing = threading.Condition(), False
        self._sent: set[Any] = set()
        with ExitStack() as stack:
            self._ray = stack.enter_context(cluster.connected(runner.address, runner._cpus, _room(problem)))
            cluster.check_workers(self._ray, runner.resources, shared)
            self._shared = [self._ray.put(shared)]
            task = self._ray.remote(worker.carry_out)
            self._task = task.options(**cluster.options(runner.resources), num_returns=2)
            self._pool = ThreadPoolExecutor(min(blocks, MOST) + 1, thread_name_prefix="anchorwalk-ray")
            self._stack = stack.pop_all()

    @property
    def slots(self) -> int:
        """Tasks that the cluster has room for; nodes come and go."""
        if time.monotonic() > self._looked + LOOK:
            self._looked, self._places = time.monotonic(), self._runner._places(self._ray)
        return self._places

    def submit(self, job: Job) -> Future[Result]:
        """Send a job to the cluster as soon as there is room."""
        future: Future[Result] = Future()
        self._pool.submit(self._wait_for, future, job)
        return future

    def _wait_for(self, future: Future[Result], job: Job) -> None:
        try:
            if not self._room_for(future):
                return
            try:
                future.set_result(self._carry_out(job))
            finally:
                with self._ready:
                    self._busy -= 1
                    self._ready.notify()
        except BaseException as error:  # whatever it is: nobody else ends this future
            future.set_exception(error)

    def _room_for(self, future: Future[Result]) -> bool:
        """Wait until there is room for a job; False where it was taken back."""
        with self._ready:
            while self._busy >= self.slots and not future.cancelled() and not self._closing:
                self._ready.wait(LOOK)
            begins = future.set_running_or_notify_cancel()
            self._busy += begins
            return begins

    def _carry_out(self, job: Job) -> Result:
        """Send a job, again where its worker is lost."""
        losses: list[str] = []
        while not self._closing:
            try:
                return self._once(job)._replace(losses=tuple(losses))
            except Exception as error:
                losses.append(_loss(self._ray, error))
                if len(losses) > AGAIN:
                    raise WorkerLost(losses) from error
                if isinstance(job.states, Carried):  # they may be lost too
                    job = job._replace(states=job.states.states)
        raise RuntimeError("the session is closed")

    def _once(self, job: Job) -> Result:
        root = str(jax.random.key_impl(job.roots)), np.asarray(jax.random.key_data(job.roots))
        states = job.states.reference if isinstance(job.states, Carried) else job.states
        bare: Any = {"roots": None, "states": None}  # they travel by themselves
        references = self._task.remote(self._name, self._shared, self._layout, job._replace(**bare), root, states)
        with self._ready:
            self._sent.add(references[0])
            too_late = self._closing
        if too_late:  # nobody else cancels what was sent while the session closed
            self._ray.cancel(references[0], force=True)
        try:
            # Copies: what is in the cluster's memory stays there as long as anybody looks at it.
            last, found = jax.tree.map(np.array, self._ray.get(references))
        except self._ray.exceptions.RayError:
            with suppress(self._ray.exceptions.RayError):  # Ray prints errors that nobody looks at
                self._ray.get(references[1])
            raise
        finally:
            with self._ready:
                self._sent.discard(references[0])
        results = [Result(last if one[0] is None else one[0], one[1], float(one[2])) for one in found]
        results[-1] = results[-1]._replace(carry=Carried(references[0], last))
        return results[0]._replace(more=tuple(results[1:]))

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        with self._ready:
            self._closing = True
            sent = list(self._sent)
            self._ready.notify_all()
        for reference in sent:  # after an error nothing waits for calls under way
            self._ray.cancel(reference, force=True)
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._stack.close()


def _loss(ray: Any, error: Exception) -> str:
    """What happened to a worker; an error of the work itself is raised as it is.

    A task whose arguments are lost with a node runs, and fails with Ray's own error in the place of its work's.
    """
    if isinstance(error, ray.exceptions.RayTaskError):
        cause: Any = error.cause
        if not isinstance(cause, ray.exceptions.RayError):
            raise cause from error
        error = cause
    if not isinstance(error, ray.exceptions.RayError):
        raise error
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300]


def _room(value: Any) -> int:
    """Bytes in the cluster's memory for what all tasks need, and for what comes and goes."""
    return 4 * tree.nbytes([leaf for leaf in jax.tree.leaves(value) if hasattr(leaf, "dtype")])
