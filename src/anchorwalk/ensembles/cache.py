"""Compiled programs on disk, so that the next process need not compile them again."""

import os
from pathlib import Path

import jax
from jax.experimental.compilation_cache import compilation_cache

VARIABLE = "ANCHORWALK_CACHE"
"""A folder for compiled programs, or "off"."""


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
