"""Compiled programs on disk, each under a checksum: JAX's own files have none that finds every changed bit.

JAX asks this cache for programs in the place of its own. A program counts where its checksum fits its bytes, its key,
and the versions and the machine that it was compiled for; else it is removed and compiled again.
"""

import hashlib
import os
import platform
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from anchorwalk import files
from anchorwalk.errors import StoreFailed
from anchorwalk.files import Damaged

SEAL = 32  # bytes of a checksum, before the program
LONGEST = 2**31  # bytes of a program that are read
ENDING = "-sealed"  # of names: JAX's own, which may be in the same folder, end otherwise


class Programs:
    """What JAX takes for its cache: `get` and `put` by a key, and `_path`."""

    def __init__(self, folder: Path) -> None:
        self._path = folder
        self._machine = machine()

    def get(self, key: str) -> bytes | None:
        """The program of a key; None where there is none, or none that can be trusted."""
        path = self._path / (key + ENDING)
        try:
            content = files.read_all(path, LONGEST)
        except files.Missing:
            return None
        except (Damaged, StoreFailed):
            content = b""
        if content[:SEAL] == self._seal(key, content[SEAL:]):
            return content[SEAL:]
        with suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keep a program; nothing happens where it cannot be kept."""
        with suppress(OSError):
            # A name of its own, since several processes may compile the same program at a time.
            descriptor, temporary = tempfile.mkstemp(suffix=files.TEMPORARY, dir=self._path)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(self._seal(key, value) + value)
                os.replace(temporary, self._path / (key + ENDING))
            except BaseException:
                os.unlink(temporary)
                raise

    def _seal(self, key: str, value: bytes) -> bytes:
        return hashlib.sha256(f"{self._machine}\n{key}\n".encode() + value).digest()


def machine() -> str:
    """What a program is compiled for: versions, and what the processor can do."""
    lines: list[str] = []
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    features = next((line for line in lines if line.startswith(("flags", "Features"))), platform.processor())
    return "\n".join([version("jax"), version("jaxlib"), platform.system(), platform.machine(), features])


def install(folder: Path) -> bool:
    """Let JAX use this cache from now on; False where this version of JAX has no place for it."""
    inner: Any
    try:
        from jax._src import compilation_cache as inner
    except ImportError:
        return False
    if not (hasattr(inner, "_cache") and hasattr(inner, "_cache_initialized")):
        return False
    inner._cache, inner._cache_initialized = Programs(folder), True
    return True
