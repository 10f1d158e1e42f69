"""Files that are there whole or not at all."""

import os
from pathlib import Path

TEMPORARY = ".tmp"
"""What the name of a file that is not finished ends with."""


def write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a crash."""
    put(path, content)
    sync(path.parent)


def put(path: Path, content: bytes) -> None:
    """The same, except that after a crash the old file, or none, may be back until `sync` of its folder.

    A link at the temporary name is never followed, so that nothing outside of the folder is written.
    """
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        try:
            rest = memoryview(content)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)  # on a full disk it would keep the room
        raise


def sync(folder: Path) -> None:
    """Make the names in a folder last through a crash."""
    if os.name != "posix":  # pragma: no cover  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
