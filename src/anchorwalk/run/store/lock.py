"""One process writes to a run at a time."""

import json
import os
import socket
import stat
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from anchorwalk import checks

try:
    import fcntl
except ImportError:  # pragma: no cover  # not a POSIX system: there is no guard
    fcntl = None  # type: ignore[assignment]


class Lock:
    """A lock on a folder, which the system takes back when its holder dies; its file stays and names who held it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take the lock; InvalidInput where another holds it names the holder."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:  # it will be written to
            os.close(descriptor)
            checks.reject("store", f"{str(self.path)!r}, a link or no plain file", "a file of the run", "Remove it.")
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(descriptor, 1000, 0).decode(errors="replace")
            os.close(descriptor)
            given = f"the folder {self.path.parent}, to which another process writes: {holder or 'just starting'}"
            remedy = "Wait for it, end it, or choose another folder; reading is always possible."
            checks.reject("store", given, "a run that nobody writes to", remedy)
        except OSError:  # a file system without locks
            pass
        self._descriptor = descriptor
        now = datetime.now().astimezone().isoformat(timespec="seconds")
        holder = json.dumps({"process": os.getpid(), "host": socket.gethostname(), "since": now})
        with suppress(OSError):  # on a full disk the lock holds without a name
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, holder.encode(), 0)

    def release(self) -> None:
        """Give the lock back; nothing happens where it is not held."""
        if self._descriptor is not None:
            if fcntl is not None:  # a child process may have inherited the file
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = None
