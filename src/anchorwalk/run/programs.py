"""Compiled programs: kept on disk for the next process, and forgotten before they are too many for this one."""

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

VARIABLE = "ANCHORWALK_CACHE"
"""A folder for compiled programs, or "off"."""
MAPS, MOST_MAPS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")
"""Where Linux tells a process's mappings of memory, one a line, and how many it may have."""


def keep_programs() -> None:
    """Let JAX keep compiled programs in a folder, unless it has one already or the user wants none."""
    place = os.environ.get(VARIABLE, "")
    if place == "off" or getattr(jax.config, "jax_compilation_cache_dir", None) is not None:
        return
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = Path(place) if place else home / "anchorwalk" / "programs"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:  # nowhere to write: programs are compiled anew each time
        return
    jax.config.update("jax_compilation_cache_dir", str(folder))  # type: ignore[no-untyped-call]
    compilation_cache.reset_cache()  # JAX looks for a folder once, and may have looked


def make_room() -> None:
    """Forget compiled programs where they have taken half of the memory mappings that Linux grants a process.

    XLA maps a few hundred pieces for each program, and the process crashes at the limit: after some fifty fits of
    different shapes. What is still needed is compiled again, or read from disk.
    """
    try:
        with MAPS.open("rb") as lines:
            used = sum(1 for _ in lines)
        if used > int(MOST_MAPS.read_text()) // 2:
            jax.clear_caches()  # type: ignore[no-untyped-call]
    except OSError:  # not Linux
        return
