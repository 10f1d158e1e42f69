"""Real file systems: a disk of a few megabytes on a loop device, full, read-only, locked by another process."""

import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput, StoreFailed
from anchorwalk.run.store import DiskStore, maintenance
from helpers import about_of, begin, made_up_round, made_up_run
from stored import apply, same

LIKE = {"w": jax.ShapeDtypeStruct((3,), np.float32)}
MEGABYTES = 4
HOLDER = """
import sys
from pathlib import Path
from anchorwalk.run.store.lock import Lock
lock = Lock(Path(sys.argv[1]))
lock.acquire()
print("locked", flush=True)
sys.stdin.read()
"""
pytestmark = pytest.mark.slow


def tried(*command):
    try:
        return subprocess.run([str(one) for one in command], capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


@pytest.fixture(params=["ext4", "tmpfs"])
def disk(request, tmp_path):
    image, place = tmp_path / "image", tmp_path / "disk"
    place.mkdir()
    if request.param == "ext4":
        image.write_bytes(bytes(MEGABYTES * 2**20))
        mounted = tried("mkfs.ext4", "-q", image) and tried("mount", "-o", "loop", image, place)
    else:
        mounted = tried("mount", "-t", "tmpfs", "-o", f"size={MEGABYTES}m", "none", place)
    if not mounted:
        pytest.skip("mounting needs the rights for it")
    try:
        yield place
    finally:
        assert tried("umount", "-l", place)


def fill(path):
    with path.open("wb") as file:
        while True:
            file.write(bytes(2**12))
            file.flush()


def go_on(folder, members):
    store = DiskStore(folder)
    try:
        begin(store, LIKE, about_of((0, 1), members))
        for index in range(store.progress()[0].calls, members):
            store.commit(made_up_round(LIKE, (0, 1), index))
    finally:
        store.end()


def test_a_disk_that_is_really_full(disk):
    folder, ballast = disk / "run", disk / "ballast"
    made_up_run(folder, members=2)
    with pytest.raises(OSError, match="No space left"):
        fill(ballast)
    with pytest.raises(StoreFailed, match="No space left on device"):
        go_on(folder, 40)
    safe = len(aw.load(folder, apply))
    assert safe >= 4
    with pytest.raises((OSError, StoreFailed), match="No space left on device"):
        maintenance.merge([folder, _other(disk)], disk / "both")
    assert not (disk / "both").exists()
    ballast.unlink()
    kept = made_up_run(disk / "whole", members=40)
    go_on(folder, 40)
    assert same(aw.load(folder, apply), kept)
    assert maintenance.verify(folder) == {}


def _other(disk):
    """A run with other chains that needs room of its own, on another disk."""
    folder = disk.parent / "other"
    made_up_run(folder, blocks=((2,), (3,)), members=2)
    return folder


def test_another_process_holds_the_lock(disk):
    folder = disk / "run"
    made_up_run(folder)
    command = [sys.executable, "-c", HOLDER, str(folder / "lock")]
    holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(InvalidInput, match=f'another process writes: .*"process": {holder.pid}'):
            maintenance.prune(folder)
    finally:
        holder.kill()
        holder.communicate()
    assert maintenance.prune(folder) == []  # the system takes the lock back


def test_a_disk_that_may_only_be_read(disk):
    folder = disk / "run"
    kept = made_up_run(folder)
    if not tried("mount", "-o", "remount,ro", disk):
        pytest.skip("it cannot be made read-only")
    assert same(aw.load(folder, apply), kept)
    assert maintenance.verify(folder) == {}
    with pytest.raises(InvalidInput, match=r"Read-only file system\), expected a folder to write to"):
        made_up_run(folder, members=4)
    with pytest.raises(OSError, match="Read-only file system"):
        maintenance.thin(folder, disk / "thin", 2)
    assert not Path(disk / "thin").exists()
