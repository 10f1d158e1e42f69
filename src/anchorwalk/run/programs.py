"""Compiled programs: kept for the runs of this process, and on disk for the next one where the user wants that."""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from anchorwalk.run import cache

VARIABLE = "ANCHORWALK_CACHE"  # a folder for compiled programs, or "off"
# Where Linux tells a process's mappings of memory, one a line, and how many it may have.
MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
LEAST_SECONDS = 0.02  # compilation that takes less is done again, which is as fast as reading a program
KEPT = 64  # programs that are kept; more than these are forgotten, the longest unused first
WELL, QUICKLY, ONCE = 3, 1, 0  # XLA's levels of optimisation: for runs of minutes, for shorter ones, for a single use


class Options(NamedTuple):
    """How a program is compiled."""

    several_cores: bool  # whether it may use several
    level: int  # WELL, QUICKLY or ONCE

    def of_xla(self) -> dict[str, Any] | None:
        """As XLA takes them; None for its defaults."""
        if jax.default_backend() != "cpu":
            return None
        found: dict[str, Any] = {} if self.several_cores else {"xla_cpu_multi_thread_eigen": False}
        if self.level != WELL:  # compiled in less time, and slower
            found |= {"xla_backend_optimization_level": self.level}
            if _knows("xla_cpu_use_fusion_emitters"):
                found |= {"xla_cpu_use_fusion_emitters": False}
        return found or None


@lru_cache
def _knows(option: str) -> bool:
    """Whether XLA has a switch: the older emitters, for example, left it after JAX 0.10."""
    try:
        jax.jit(lambda: np.zeros(())).lower().compile(compiler_options={option: False})
    except jax.errors.JaxRuntimeError:
        return False
    return True


_programs: OrderedDict[Any, Any] = OrderedDict()
_lock = threading.Lock()
_seconds: list[float] = []  # that each compilation took
_others = 0  # mappings of memory that were left when our programs were last forgotten
_watcher: ContextVar[Callable[[bool], None]] = ContextVar("watcher", default=lambda begins: None)


def cache_programs(folder: str | os.PathLike[str] | None = None) -> Path | None:
    """Let JAX keep compiled programs in a folder, so that the next process need not compile them again.

    This changes JAX's settings for the whole process, and nothing else in this library does. A folder that JAX has
    already is left as it is. Each program is under a checksum: one that is damaged, or of another version or
    machine, is compiled again.

    Args:
        folder: Where; None for that of the environment variable ANCHORWALK_CACHE, or else a folder in the user's cache.
            The variable's value "off" switches this function off.

    Returns:
        The folder; None where nothing is kept.

    Example:
        >>> import anchorwalk as aw
        >>> aw.cache_programs()  # doctest: +SKIP
    """
    place = os.environ.get(VARIABLE, "")
    known = getattr(jax.config, "jax_compilation_cache_dir", None)
    if place == "off" or known is not None:
        return None if known is None else Path(known)
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    path = Path(folder or place or home / "anchorwalk" / "programs")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to write: programs are compiled anew each time
        return None
    jax.config.update("jax_compilation_cache_dir", str(path))  # type: ignore[no-untyped-call]
    jax.config.update("jax_persistent_cache_min_compile_time_secs", LEAST_SECONDS)  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()  # JAX looks for a folder once, and may have looked
    if not cache.install(path):
        jax.config.update("jax_compilation_cache_dir", None)  # type: ignore[no-untyped-call]
        return None
    return path


def compiled(function: Callable[..., Any], form: Any, options: Options, *arguments: Any) -> Any:
    """The program of a function of a static `form` and arguments of these shapes; threads share one compilation."""
    leaves, structure = jax.tree.flatten(arguments)
    kinds = tuple((aval.shape, aval.dtype, aval.weak_type) for aval in map(jax.typeof, leaves))
    settings = (options, wide_floats(), matmul_precision(), jax.default_backend())
    key = (function, form, structure, kinds, settings)
    with _lock:
        if key not in _programs:
            _make_room()
            watcher, began = _watcher.get(), time.perf_counter()
            watcher(True)
            # JAX keeps a program as long as its function lives: one for each, so that what is forgotten is gone.
            lowered = jax.jit(partial(function, form)).lower(*arguments)
            _programs[key] = lowered.compile(compiler_options=options.of_xla())
            _seconds.append(time.perf_counter() - began)
            watcher(False)
            if len(_programs) > KEPT:
                _programs.popitem(last=False)
        _programs.move_to_end(key)
        return _programs[key]


def wide_floats(*trees: Any) -> bool:
    """Whether float64 is switched on for this thread, or these trees need it because they hold some."""
    leaves = [leaf for leaf in jax.tree.leaves(trees) if hasattr(leaf, "dtype")]
    return bool(getattr(jax.config, "jax_enable_x64", False)) or any(leaf.dtype == np.float64 for leaf in leaves)


def matmul_precision() -> str:
    """JAX's precision of matrix products, as it is set for this thread."""
    return str(getattr(jax.config, "jax_default_matmul_precision", None))


def forget() -> None:
    """Forget all programs; runs under way keep those that they use."""
    _programs.clear()


def compilations() -> int:
    """Programs that this process has compiled so far."""
    return len(_seconds)


def seconds() -> float:
    """Seconds that this process has spent on compiling runs' programs so far."""
    return sum(_seconds)


@contextmanager
def watched(watcher: Callable[[bool], None]) -> Iterator[None]:
    """Call a function with True when compiling begins in this thread, and with False when it ends."""
    token = _watcher.set(watcher)
    try:
        yield
    finally:
        _watcher.reset(token)


def _make_room() -> None:
    """Forget our programs at half of the memory mappings that Linux grants: XLA takes hundreds for each program.

    What is left after that belongs to others. Programs are forgotten again at half of the rest, and not before: else a
    process with many other programs would compile ours anew for each call.
    """
    global _others
    if (used := _mappings()) is None:  # other systems do not tell
        return
    most, _others = int(MOST_MAPS.read_text()), min(_others, used)
    if used > _others + (most - _others) // 2:
        forget()
        _others = _mappings() or 0


def _mappings() -> int | None:
    """Memory mappings of this process."""
    with suppress(OSError), MAPS.open("rb") as lines:
        return sum(1 for _ in lines)
    return None
