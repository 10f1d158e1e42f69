"""The lock on a run's folder: one process writes at a time, and stops where the folder is no longer its own."""

import errno
import json
import os
import socket
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from types import ModuleType

from anchorwalk import checks, files
from anchorwalk.errors import NoLockWarning, StoreFailed, warn

fcntl: ModuleType | None
msvcrt: ModuleType | None
try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows
    fcntl = None
try:
    import msvcrt
except ImportError:
    msvcrt = None

LOCK = "lock"
FAR = 2**30  # the byte that is locked on Windows, where nobody reads what is locked
TRIES = 10  # to lock a file that others remove and make again
HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EDEADLK)


class Lock:
    """A lock on a folder, which the system takes back when its holder dies; its file stays and names who held it.

    The same object may take it several times; it is given back as often.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._taken = 0

    def acquire(self) -> None:
        """Take the lock; InvalidInput where another holds it names the holder."""
        if self._descriptor is None:
            self._descriptor = self._locked()
            now = datetime.now().astimezone().isoformat(timespec="seconds")
            holder = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})
            with suppress(OSError):  # on a full disk the lock holds without a name
                os.ftruncate(self._descriptor, 0)
                os.lseek(self._descriptor, 0, os.SEEK_SET)
                os.write(self._descriptor, holder.encode())
        self._taken += 1

    def release(self) -> None:
        """Give the lock back; nothing happens where it is not held."""
        self._taken = max(0, self._taken - 1)
        if self._descriptor is not None and not self._taken:
            with suppress(OSError):  # a file system without locks
                _unlock(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def check(self) -> None:
        """StoreFailed where the file that is locked is no longer the one in the folder: others may write there now."""
        assert self._descriptor is not None, "acquire comes first"
        if self._in_place(self._descriptor):
            return
        folder = self.path.parent
        what = f"its file {self.path.name!r} was removed or replaced" if folder.is_dir() else "it is gone"
        raise StoreFailed(
            f"the folder {folder} is no longer the one that this run writes to: {what}. It has stopped, since "
            "another process may write there now. Members that it finished are safe only where their files still are: "
            "see `anchorwalk verify`. The same call resumes from what is there, or starts anew."
        )

    def _locked(self) -> int:
        """The descriptor of the folder's lock file, which is locked."""
        for _ in range(TRIES):
            descriptor = os.open(self.path, _flags(), 0o666)
            try:
                found = os.fstat(descriptor)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1:  # it will be written to
                    given = f"{str(self.path)!r}, a link or no plain file"
                    checks.reject("store", given, "a file of the run", "Remove it.")
                self._lock(descriptor)
                if self._in_place(descriptor):  # else it was removed in the meantime
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise StoreFailed(f"could not lock {self.path}: others remove it again and again")

    def _lock(self, descriptor: int) -> None:
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            elif msvcrt is not None:
                os.lseek(descriptor, FAR, os.SEEK_SET)
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            else:
                raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        except OSError as error:
            if error.errno in HELD:
                os.lseek(descriptor, 0, os.SEEK_SET)
                holder = os.read(descriptor, 1000).decode(errors="replace")
                given = f"the folder {self.path.parent}, to which another process writes: {holder or 'just starting'}"
                remedy = "Wait for it, end it, or choose another folder; reading is always possible."
                checks.reject("store", given, "a run that nobody writes to", remedy)
            warn(
                f"{self.path.parent} cannot be locked ({error.strerror}): nothing keeps two processes from writing to "
                "it at a time, so start one alone",
                NoLockWarning,
            )

    def _in_place(self, descriptor: int) -> bool:
        """Whether an open file is the one at the lock's path."""
        try:
            return os.path.samestat(os.fstat(descriptor), os.stat(self.path, follow_symlinks=False))
        except OSError:
            return False


def _flags() -> int:
    return os.O_RDWR | os.O_CREAT | files.PLAIN | getattr(os, "O_NOINHERIT", 0)


def _unlock(descriptor: int) -> None:
    if fcntl is not None:  # a child process may have inherited the file
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    elif msvcrt is not None:
        os.lseek(descriptor, FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
