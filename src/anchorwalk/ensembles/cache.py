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
    jax.config.update("jax_compilation_cache_dir", place or str(home / "anchorwalk" / "programs"))
    compilation_cache.reset_cache()  # type: ignore[no-untyped-call]  # JAX looks for a folder once, and may have looked
