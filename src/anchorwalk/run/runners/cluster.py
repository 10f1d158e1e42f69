"""The way to a Ray cluster: connect to one or start one, look at its workers, and say what is wrong with either."""

import dataclasses
import inspect
import os
import socket
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import InvalidInput
from anchorwalk.run.machine import of_machine
from anchorwalk.run.programs import wide_floats
from anchorwalk.run.runners.layout import cores
from anchorwalk.run.runners.worker import Settings, Shared, refuse

LEAST_ROOM = 256 * 2**20  # bytes of a local cluster's object store beside what a run needs
PATIENCE = 5.0  # seconds for an address to answer
LONGEST_LOOK = 60.0  # seconds for workers to begin; those that have not are looked at with their first task
# What a client says first in HTTP/2, which Ray speaks: a fixed text, and an empty frame of the server's first type.
FIRST_FRAME = b"\4"
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(3) + FIRST_FRAME + bytes(5)
PREFIXES = ("JAX_", "XLA_", "ANCHORWALK_")  # variables of the environment that workers take over


def library() -> Any:
    """Ray.

    Raises:
        ImportError: It is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise ImportError("Ray needs the package of that name: pip install 'anchorwalk[ray]'") from error
    return ray


@contextmanager
def connected(address: str | None, workers: int | None, room: int) -> Iterator[Any]:
    """Ray, connected: to what this process has already; to the cluster at an address; or to one that lives as long.

    Args:
        address: None, "auto" or "host:port".
        workers: CPUs of a cluster that is started here; None for the cores of this process.
        room: Bytes that its object store shall hold.

    Raises:
        InvalidInput: No cluster at the address, or one of other versions of Python or Ray.
    """
    ray = library()
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if address not in (None, "auto", there):
            remedy = "Call ray.shutdown() first, or leave address= out."
            checks.reject("Ray(address=)", f"{address!r} in a process that works with {there}", "that one", remedy)
        yield ray
        return
    where: dict[str, Any] = {"address": address}
    if address is None:
        where = {"address": "local", "num_cpus": workers or cores(), "object_store_memory": LEAST_ROOM + room}
        where["include_dashboard"] = False
    else:
        _check_answers(address)
    with _quietly():
        try:
            ray.init(**where, configure_logging=False, log_to_driver=False)
        except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
            remedy = "Start one with `ray start --head` and the same versions, or leave address= out."
            checks.reject("Ray(address=)", f"{address!r} ({error})", "a Ray cluster that runs", remedy)
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens, or no Ray: Ray itself would try for many minutes."""
    meant = _meant_by_auto() if address == "auto" else address
    if meant is None:
        return
    host, _, port = meant.rpartition(":")
    remedy = "`ray start --head` starts one and prints its address; without address= one is started here."
    try:
        with socket.create_connection((host, int(port)), PATIENCE) as connection:
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):
                connection.sendall(GREETING)
                if connection.recv(9)[3:4] != FIRST_FRAME:
                    raise OSError("something else answers there")
    except (OSError, ValueError, OverflowError) as error:
        given = f"{address!r}{f', here {meant}' if meant != address else ''} ({error})"
        checks.reject("Ray(address=)", given, '"auto" or the host:port of a Ray cluster', remedy)


def _meant_by_auto() -> str | None:
    """The address that Ray would try: of RAY_ADDRESS, or of a cluster of this machine, which may have died since.

    None where there is none, or where this version of Ray has no such function. There is no public one.
    """
    with suppress(Exception):
        from ray._private import services

        return str(services.canonicalize_bootstrap_address("auto"))
    return None


@contextmanager
def _quietly() -> Iterator[None]:
    """Without reports of usage to Ray's makers, where the user has not said otherwise; nothing stays changed.

    JAX warns of the forks that start Ray's processes, which use no JAX.
    """
    wanted = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}
    ours = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(ours)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
            yield
    finally:
        for name in ours:
            os.environ.pop(name, None)


def options(resources: Mapping[str, float]) -> dict[str, Any]:
    """What a task asks Ray for; a task that is lost is not Ray's to send again."""
    rest = {name: amount for name, amount in resources.items() if name not in ("CPU", "GPU", "memory")}
    variables = {name: value for name, value in os.environ.items() if name.startswith(PREFIXES)}
    platforms = getattr(jax.config, "jax_platforms", None)
    variables |= {"JAX_PLATFORMS": platforms} if platforms else {}
    found = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "resources": rest}
    found |= {"memory": resources["memory"]} if "memory" in resources else {}
    return {**found, "max_retries": 0, "runtime_env": {"env_vars": variables}}


def settings(wide: bool, strict: bool) -> Settings:
    """Of this thread, for programs that may use several cores or one."""
    precision, folder = (
        getattr(jax.config, name, None) for name in ("jax_default_matmul_precision", "jax_compilation_cache_dir")
    )
    machine = of_machine(cores() if wide else 1)
    return Settings(wide_floats(), precision, folder, tuple(sys.path), machine, wide, strict)


def places(ray: Any, resources: Mapping[str, float]) -> int:
    """Tasks of these resources that the cluster's nodes can carry out at a time, whoever else uses them."""
    return sum(_places_on(node, resources) for node in ray.nodes())


def _places_on(node: Mapping[str, Any], resources: Mapping[str, float]) -> int:
    wanted, there = {name: amount for name, amount in resources.items() if amount}, node["Resources"]
    return min(int(there.get(name, 0) // amount) for name, amount in wanted.items()) if node["Alive"] else 0


def check_workers(ray: Any, resources: Mapping[str, float], shared: Shared) -> None:
    """Look at a worker of each node that has room, before any work: whether it can begin and is like the driver.

    Raises:
        InvalidInput: No node with the resources, or one without anchorwalk or of another environment.
    """
    nodes = [node for node in ray.nodes() if node["Alive"]]
    if not any(_places_on(node, resources) for node in nodes):
        there = "; ".join(str(_plain(node["Resources"])) for node in nodes)
        remedy = "Ask for less, or add such a node."
        checks.reject("Ray(resources=)", f"{dict(resources)} of a cluster with {there}", "what one node has", remedy)
    asked, strategies = {}, ray.util.scheduling_strategies
    # A look does not wait for CPUs that are busy. Of GPUs and the like it needs what a task needs: JAX opens them.
    needed = {name: amount for name, amount in resources.items() if name not in ("CPU", "memory")}
    for node in nodes:
        if _places_on(node, resources):
            where = strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            look = ray.remote(_look()).options(**options(needed), scheduling_strategy=where)
            asked[look.remote(shared.skeleton, tuple(shared.settings))] = node["NodeManagerHostname"]
    looked, waiting = ray.wait(list(asked), num_returns=len(asked), timeout=LONGEST_LOOK)
    for reference in waiting:
        ray.cancel(reference)
    for reference in looked:
        host = asked[reference]
        try:
            found = ray.get(reference)
        except ray.exceptions.RayTaskError as error:
            if isinstance(error.cause, InvalidInput):
                raise error.cause from None
            remedy = "Install what is missing, or first call ray.init(address=, runtime_env={'working_dir': '.'})."
            expected = "anchorwalk and the modules of your network there"
            checks.reject("Ray", f"a worker on {host} that cannot begin ({error.cause!r})", expected, remedy)
        except ray.exceptions.RayError:
            continue  # lost at once: the run itself will see whether others are there
        if found and shared.settings.strict:
            refuse(host, found)


def _look() -> Callable[[bytes, Any], list[str]]:
    """A function that travels as code, so that it runs where anchorwalk is not installed and can say so."""

    def look(skeleton: bytes, settings: Any) -> list[str]:
        from anchorwalk.run.runners.worker import Settings, differences, structure

        given = Settings(*settings)
        structure(skeleton, given.paths)
        return differences(given)

    return look


def _plain(resources: Mapping[str, float]) -> dict[str, float]:
    return {name: amount for name, amount in resources.items() if name[:5] != "node:" and "memory" not in name}


def taken_apart(parts: Mapping[str, Any], given: Settings) -> Shared:
    """What all tasks need, as `Shared`.

    Args:
        parts: Each part, by the name that errors have for it.
        given: Of this thread.

    Raises:
        InvalidInput: A part that does not pickle.
    """
    from ray import cloudpickle

    dumps: Any = cloudpickle.dumps
    leaves, structure = jax.tree.flatten(tuple(parts.values()))
    skeleton = jax.tree.unflatten(structure, [0] * len(leaves))
    try:
        content = dumps(skeleton)
    except Exception as error:
        for name, part in parts.items():
            _check_pickles(name, part)
        remedy = "Define networks as functions of a module, without open files, locks or devices in them."
        checks.reject("Ray", f"a problem that does not pickle ({error})", "one that does", remedy)
    return Shared(content, [_on_host(leaf) for leaf in leaves], given)


def _on_host(leaf: Any) -> Any:
    """A leaf as it travels; a number without a firm type stays one."""
    if not isinstance(leaf, jax.Array):
        return leaf
    return leaf.item() if leaf.weak_type and not leaf.ndim else np.asarray(leaf)


def _check_pickles(name: str, part: Any) -> None:
    """Name what does not pickle: the part, and in a function the variable."""
    from ray import cloudpickle

    dumps: Any = cloudpickle.dumps
    for one in dataclasses.fields(part) if dataclasses.is_dataclass(part) else ():
        _check_pickles(f"{name}.{one.name}", getattr(part, one.name))

    try:
        dumps(part)
        return
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
    inside = ""
    for key, value in _variables(part).items():
        try:
            dumps(value)
        except Exception:
            inside = f", because of its variable {key!r}, a {type(value).__name__}"
            break
    remedy = "Make it inside of the function, or pass what it is made from."
    checks.reject(name, f"what does not pickle{inside} ({reason})", "what can be sent to workers", remedy)


def _variables(part: Any) -> dict[str, Any]:
    """What a function takes from around it."""
    function = getattr(part, "func", part)  # of a partial one
    with suppress(TypeError):
        found = inspect.getclosurevars(function)
        return {**found.nonlocals, **found.globals}
    return {}
