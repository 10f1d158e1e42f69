"""Files of a folder that others may have changed: read with care, written whole or not at all."""

import errno
import hashlib
import json
import math
import os
import stat
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from anchorwalk.errors import StoreFailed

TEMPORARY = ".tmp"
"""What the name of a file that is not finished ends with."""
LONGEST = 256 * 2**20
"""Bytes of a JSON file that are read."""
DEEPEST = 256
"""Lists and objects inside of each other that are read."""
DIGITS = 300
"""Digits of a whole number that are read: all others are finite as a float."""
CHUNK = 2**20
NOT_PLAIN = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EACCES, errno.ENOTDIR, errno.EPERM)
"""Errors in opening that tell of the file, not of the machine."""
MISSING = "it is missing"
PLAIN = sum(getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_BINARY"))
"""For opening: no link is followed, and no pipe waited for."""
TRIES = 20  # to put a file in the place of another that somebody else has open, on Windows


class Damaged(Exception):
    """A file that is not what it should be; the message says how."""


class Missing(Damaged, FileNotFoundError):
    """A file that is not there."""


# Reading.


def open_plain(path: Path) -> int:
    """A file's descriptor for reading; Damaged for a link, a folder, a pipe, or what may not be read or is missing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | PLAIN)
    except FileNotFoundError:
        raise Missing(MISSING) from None
    except OSError as error:
        if error.errno in NOT_PLAIN:
            raise Damaged(f"it is no plain file that can be read ({error.strerror})") from None
        raise StoreFailed(f"could not open {path}: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise Damaged("it is no plain file")
    return descriptor


def identity(path: int | Path) -> tuple[int, ...]:
    """What changes where an open file, or the one at a path, is written to or replaced."""
    found = os.stat(path) if isinstance(path, int) else os.stat(path, follow_symlinks=False)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def read_at(descriptor: int, count: int, start: int) -> bytes:
    """At most `count` bytes of an open file from `start` on; Damaged where they cannot be read."""
    try:
        if hasattr(os, "pread"):
            return os.pread(descriptor, count, start)
        os.lseek(descriptor, start, os.SEEK_SET)  # Windows
        return os.read(descriptor, count)
    except OSError as error:
        raise Damaged(f"it cannot be read ({error.strerror})") from None


def read_text(descriptor: int, start: int, end: int) -> bytes:
    """The bytes of a text in an open file, from `start` to `end` or to the file's end; Damaged where they are none.

    A text has no zero byte, so that the holes of a sparse file are not read into memory.
    """
    parts: list[bytes] = []
    while start < end and (part := read_at(descriptor, min(CHUNK, end - start), start)):
        if b"\0" in part:
            raise Damaged("it holds zero bytes where a text should be")
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def read(path: Path) -> bytes:
    """The content of a JSON file; Damaged where it is no plain file, too long or no text, Missing where it is not."""
    descriptor = open_plain(path)
    try:
        content = read_text(descriptor, 0, LONGEST + 1)
    finally:
        os.close(descriptor)
    if len(content) > LONGEST:
        raise Damaged(f"it is longer than {LONGEST} bytes")
    return content


def read_all(path: Path, longest: int) -> bytes:
    """The content of a plain file of any kind; Damaged where it is none or too long, Missing where it is not."""
    descriptor = open_plain(path)
    try:
        size = os.fstat(descriptor).st_size
        if size > longest:
            raise Damaged(f"it is longer than {longest} bytes")
        parts, position = list[bytes](), 0
        while position < size and (part := read_at(descriptor, size - position, position)):
            parts.append(part)
            position += len(part)
    finally:
        os.close(descriptor)
    return b"".join(parts)


def from_json(content: bytes) -> Any:
    """What JSON says; ValueError where it is none, too deep, or has a number that is not finite."""
    try:
        value = json.loads(content, parse_constant=_number, parse_float=_number, parse_int=_whole)
    except RecursionError:
        raise ValueError("it is too deep") from None
    level, depth = [value], 0
    while level := [inside for one in level for inside in _inside(one)]:
        depth += 1
        if depth > DEEPEST:
            raise ValueError("it is too deep")
    return value


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]}")
    return number


def _whole(text: str) -> int:
    if len(text) > DIGITS:
        raise ValueError(f"the number {text[:20]}")
    return int(text)


# Writing.


def append(path: Path, line: bytes) -> None:
    """Add a line to a plain file; what a kill cut before it stays a line of its own. Damaged for a link or a pipe."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | PLAIN, 0o666)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:
            raise Damaged("it is a link or no plain file")
        cut = found.st_size > 0 and read_at(descriptor, 1, found.st_size - 1) != b"\n"
        os.write(descriptor, b"\n" * cut + line + b"\n")
    finally:
        os.close(descriptor)


def write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a crash."""
    put(path, content)
    sync(path.parent)


def put(path: Path, content: bytes) -> None:
    """The same, except that after a crash the old file, or none, may be back until `sync` of its folder.

    A link at the temporary name is never followed, so that nothing outside of the folder is written.
    """
    _put(path, [content])


def _put(path: Path, content: Iterable[bytes]) -> None:
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | PLAIN, 0o666)
    try:
        try:
            for part in content:
                rest = memoryview(part)
                while rest:
                    rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        _replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)  # on a full disk it would keep the room
        raise


def copy(source: Path, target: Path, size: int, sha256: str) -> None:
    """Copy a plain file a part at a time; Damaged where it is not of this size and checksum, and nothing is written."""

    def parts(descriptor: int) -> Iterator[bytes]:
        digest, position = hashlib.sha256(), 0
        while part := read_at(descriptor, min(CHUNK, size + 1 - position), position):
            digest.update(part)
            position += len(part)
            yield part
        if position != size or digest.hexdigest() != sha256:
            raise Damaged("its checksum does not fit its content")

    descriptor = open_plain(source)
    try:
        _put(target, parts(descriptor))
    finally:
        os.close(descriptor)


def _replace(temporary: Path, path: Path) -> None:
    """Put a file in the place of another; Windows refuses that as long as a reader has the other one open."""
    for left in reversed(range(TRIES if os.name == "nt" else 1)):
        try:
            return os.replace(temporary, path)
        except PermissionError:
            if not left:
                raise
            time.sleep(0.05)
    return None


def sync(folder: Path) -> None:
    """Make the names in a folder last through a crash."""
    if os.name != "posix":  # pragma: no cover  # other systems cannot open a folder
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
