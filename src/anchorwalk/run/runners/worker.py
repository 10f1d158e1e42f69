"""What a worker of a cluster does: it carries out calls, or other work, that a driver sends.

It is a process that the cluster started and may end. Between calls it keeps its programs, and the data on its device.
"""

import pickle
import platform
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import jax

from anchorwalk import checks, tree
from anchorwalk.run.machine import of_machine
from anchorwalk.run.programs import cache_programs
from anchorwalk.run.runners.base import Job, Layout
from anchorwalk.run.runners.layout import cores
from anchorwalk.run.runners.local import LocalSession

KEPT = 4  # runs whose data and programs a worker keeps
ENOUGH = 0.25  # seconds of work in one task: shorter calls of a block are put together


class Settings(NamedTuple):
    """JAX's settings of the driver that decide bits, and the driver's environment, which the worker's must equal."""

    x64: bool
    precision: str | None
    programs: str | None  # JAX's folder of compiled programs
    paths: tuple[str, ...]  # where it finds modules, and a worker on the same files too
    machine: dict[str, Any]
    wide: bool  # whether a program may use several cores, whose number then decides bits
    strict: bool  # whether a worker of another environment is refused


class Shared(NamedTuple):
    """What all calls of a run need.

    Functions and structure are pickled apart from the arrays. Two runs of one network have the same bytes here, and a
    worker that knows them has the network's programs already.
    """

    skeleton: bytes  # a method and a problem, or what else is needed, with 0 for each leaf
    leaves: list[Any]
    settings: Settings


class _Open(NamedTuple):
    """A run that this worker works for."""

    session: LocalSession
    settings: Settings


_runs: OrderedDict[str, _Open] = OrderedDict()
_alike: set[str] = set()  # settings of drivers whose environment is this one


def carry_out(run: str, shared: list[Any], layout: Layout, job: Job, root: tuple[str, Any], states: Any) -> Any:
    """The calls of a job: the last states; and of each call the states but the last, the draws and the seconds.

    Args:
        run: A name that no other run has.
        shared: A reference to `Shared`, in a list so that it is fetched only where it is not here yet.
        layout: Of the run.
        job: Without roots and states.
        root: Implementation and data of its roots.
        states: Its states.
    """
    session, settings = _opened(run, shared, layout)
    found: list[Any] = []
    with _like_the_driver(settings):
        roots = jax.random.wrap_key_data(root[1], impl=root[0])
        for ahead, call in enumerate([job.call, *job.more]):
            now = job._replace(call=call, number=job.number + ahead, roots=roots, states=states)
            result = session.submit(now).result()
            states = result.carry
            found.append([result.states, result.draws, result.seconds])
            if sum(seconds for *_, seconds in found) >= ENOUGH:
                break
    last, found[-1][0] = found[-1][0], None  # they go by themselves, so that the next call can take them from here
    return last, found


def apply(function: Callable[..., Any], shared: list[Any], item: Any) -> Any:
    """What a function gives for what all items need and for one item, on the host."""
    import ray

    given: Shared = ray.get(shared[0])
    with _like_the_driver(given.settings):
        (common,) = _whole(given)
        return jax.device_get(function(common, item))


def differences(settings: Settings) -> list[str]:
    """What of this process's environment is not as the driver's."""
    with _settings_of(settings):
        found = of_machine(cores() if settings.wide else 1)
    wanted = settings.machine.items()
    return [f"{name} is {found[name]!r}, not {value!r}" for name, value in wanted if found[name] != value]


def refuse(place: str, found: Sequence[str]) -> NoReturn:
    """Refuse a worker on which results would be others."""
    remedy = "Let both have the same, or pass Ray(other_machines=True) for results that are equal to rounding only."
    checks.reject("Ray", f"a worker on {place} of another kind: {'; '.join(found)}", "one like the driver", remedy)


def _opened(run: str, shared: list[Any], layout: Layout) -> _Open:
    import ray

    if run not in _runs:
        given: Shared = ray.get(shared[0])
        with _like_the_driver(given.settings):
            method, problem = _whole(given)
            _runs[run] = _Open(LocalSession(method, problem, layout, threads=1), given.settings)
        while len(_runs) > KEPT:
            _runs.popitem(last=False)[1].session.__exit__(None)
    _runs.move_to_end(run)
    return _runs[run]


@contextmanager
def _like_the_driver(settings: Settings) -> Iterator[None]:
    """Work with the driver's settings, and only in an environment that equals its own."""
    name = repr(settings)
    if settings.strict and name not in _alike:
        if found := differences(settings):
            refuse(platform.node(), found)
        _alike.add(name)
    with _settings_of(settings):
        yield


@contextmanager
def _settings_of(settings: Settings) -> Iterator[None]:
    if settings.programs is not None:
        cache_programs(settings.programs)
    with jax.enable_x64(settings.x64), jax.default_matmul_precision(settings.precision):
        yield


def _whole(given: Shared) -> Any:
    """What was taken apart."""
    return jax.tree.unflatten(structure(given.skeleton, given.settings.paths), given.leaves)


@lru_cache(maxsize=32)
def structure(skeleton: bytes, paths: tuple[str, ...]) -> Any:
    """The structure, with functions, of a skeleton whose modules are in one of these folders too."""
    sys.path += [path for path in paths if path not in sys.path]
    whole = pickle.loads(skeleton)  # noqa: S301  # from the driver, as this function is
    while unknown := [type(leaf) for leaf in jax.tree.leaves(whole) if not isinstance(leaf, int)]:
        # A class of the user's script comes as code, and is no pytree here yet.
        if tree.STATIC not in vars(unknown[0]):
            given = f"the class {unknown[0].__name__}, a pytree in your script only"
            checks.reject("Ray", given, "one that workers can import", "Define and register it in a module.")
        tree.node(static=vars(unknown[0])[tree.STATIC])(unknown[0])
    return jax.tree.structure(whole)
