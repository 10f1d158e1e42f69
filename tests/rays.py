"""What tests with a Ray cluster share: finding its worker processes, below one of ours, and ending them."""

import os
import signal
from pathlib import Path


def descendants(ancestor):
    """Processes below one, and what each calls itself."""
    parents, names = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
            names[int(folder.name)] = (folder / "cmdline").read_text().replace("\0", " ").strip()
        except (OSError, IndexError, ValueError):  # it has just ended
            continue
    found, new = {}, [ancestor]
    while new:
        new = [pid for pid, parent in parents.items() if parent in new]
        found |= {pid: names.get(pid, "") for pid in new}
    return found


def workers(ancestor):
    """Those at work. Without its helpers, which have such names too, a node would end, and its driver with it."""
    return [pid for pid, name in descendants(ancestor).items() if name.startswith("ray::carry_out")]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
