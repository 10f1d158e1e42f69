"""One writer at a time: a folder that is removed under a writer's hands, other systems' locks, file systems without."""

import errno
import os
import shutil
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import files
from anchorwalk.errors import InvalidInput, NoLockWarning, StoreFailed
from anchorwalk.run.store import DiskStore, lock, maintenance, manifest, writer
from anchorwalk.run.store.lock import LOCK, Lock
from helpers import about_of, begin, made_up_round, made_up_run
from stored import apply, same

LIKE = {"w": jax.ShapeDtypeStruct((3,), np.float32)}


def begun(folder, members=4):
    store = DiskStore(folder)
    begin(store, LIKE, about_of((0, 1), members))
    return store


def commit(store, index, seed=0):
    one = made_up_round(LIKE, (0, 1), index, seed)
    store.commit(one)
    return {(chain, index): one.member(lane, 0) for lane, chain in enumerate((0, 1))}


def remove_folder(folder):
    shutil.rmtree(folder)


def remove_lock(folder):
    (folder / LOCK).unlink()


@pytest.mark.parametrize("remove", [remove_folder, remove_lock])
def test_a_second_writer_ends_the_first(tmp_path, remove):
    folder = tmp_path / "run"
    first = begun(folder)
    kept = commit(first, 0)
    remove(folder)
    second = begun(folder)
    begins = len(second.infos()) // 2  # none where the folder was removed
    for index in range(begins, 3):
        kept |= commit(second, index)
    for _ in range(2):
        with pytest.raises(StoreFailed, match=r"no longer the one that this run writes to: its file 'lock' was rem"):
            commit(first, 1, seed=1)  # not even a file of members is replaced
    with pytest.raises(StoreFailed, match="no longer the one"):
        first.fail(1)
    first.end()
    kept |= commit(second, 3)
    second.end()
    assert maintenance.verify(folder) == {}
    assert same(aw.load(folder, apply), kept)


def test_a_folder_that_is_gone_is_said_to_be_gone(tmp_path):
    store = begun(tmp_path / "run")
    commit(store, 0)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(StoreFailed, match="no longer the one that this run writes to: it is gone") as failure:
        commit(store, 1)
    assert "that were finished before are safe" not in str(failure.value)
    assert not (tmp_path / "run").exists()
    store.end()


def test_a_folder_that_goes_while_it_is_written_to(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    first, second, put = begun(folder), [], files.put

    def put_and_lose(path, content):
        put(path, content)
        if path.name.startswith("state"):  # the manifest comes next
            monkeypatch.setattr(writer.files, "put", put)
            shutil.rmtree(folder)
            second.append(begun(folder))

    monkeypatch.setattr(writer.files, "put", put_and_lose)
    with pytest.raises(StoreFailed, match="no longer the one"):
        commit(first, 0)
    assert manifest.read(folder).members == ()
    kept = commit(second[0], 0)
    second[0].end()
    assert same(aw.load(folder, apply), kept)


def test_a_folder_that_goes_between_two_files_is_said_to_be_gone(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    store, put = begun(folder), files.put

    def put_and_lose(path, content):
        put(path, content)
        shutil.rmtree(folder)

    monkeypatch.setattr(writer.files, "put", put_and_lose)
    with pytest.raises(StoreFailed, match="no longer the one that this run writes to: it is gone"):
        commit(store, 0)
    store.end()


def test_pruning_stops_too(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    made_up_run(folder)
    (folder / "members-000001-000000.safetensors").write_bytes(b"")
    real = maintenance._damaged_manifests

    def lose(path):
        (folder / LOCK).unlink()
        return real(path)

    before = {path.name for path in folder.iterdir()}
    monkeypatch.setattr(maintenance, "_damaged_manifests", lose)
    with pytest.raises(StoreFailed, match="no longer the one"):
        maintenance.prune(folder)
    assert {path.name for path in folder.iterdir()} == before - {LOCK}


def test_a_lock_file_that_goes_before_it_is_locked(tmp_path, monkeypatch):
    one, other, real = Lock(tmp_path / LOCK), Lock(tmp_path / LOCK), lock.fcntl.flock
    left = iter([None])

    def slow(descriptor, operation):
        for _ in left:
            (tmp_path / LOCK).unlink()
            other.acquire()
        real(descriptor, operation)

    monkeypatch.setattr(lock, "fcntl", SimpleNamespace(**{**vars(lock.fcntl), "flock": slow}))
    with pytest.raises(InvalidInput, match="another process writes"):
        one.acquire()
    other.release()
    one.acquire()
    one.check()
    one.release()


def test_a_lock_can_be_taken_twice_by_the_same_holder(tmp_path):
    one, other = Lock(tmp_path / LOCK), Lock(tmp_path / LOCK)
    one.acquire()
    one.acquire()
    one.release()
    with pytest.raises(InvalidInput, match=f'another process writes: .*"process": {os.getpid()}'):
        other.acquire()
    one.release()
    one.release()  # once too often is no error
    other.acquire()
    other.release()


# Other systems


class Windows:
    """`msvcrt.locking` on this system: a byte of a file, once for all who ask."""

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.held = set()

    def locking(self, descriptor, mode, count):
        found = os.fstat(descriptor)
        place = (found.st_ino, os.lseek(descriptor, 0, os.SEEK_CUR), count)
        assert place[1] > 10_000  # the name of the holder can still be read
        if mode == self.LK_UNLCK:
            self.held.remove(place)
        elif place in self.held:
            raise PermissionError(errno.EACCES, "Permission denied")
        else:
            self.held.add(place)


def test_windows_locks_a_byte(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "fcntl", None)
    monkeypatch.setattr(lock, "msvcrt", Windows())
    monkeypatch.delattr(os, "pread")  # Windows has none
    monkeypatch.delattr(os, "pwrite")
    folder = tmp_path / "run"
    store = begun(folder)
    kept = commit(store, 0)
    with pytest.raises(InvalidInput, match=f'another process writes: .*"process": {os.getpid()}'):
        begun(folder)
    store.end()
    store = begun(folder)
    for index in (1, 2, 3):
        kept |= commit(store, index)
    store.end()
    assert same(aw.load(folder, apply), kept)
    assert maintenance.verify(folder) == {}


def test_windows_refuses_a_file_that_is_open_for_a_moment(tmp_path, monkeypatch):
    times = iter([True] * 3)

    def refusing(*paths, real=os.replace):
        if next(times, False):
            raise PermissionError(errno.EACCES, "Permission denied")
        real(*paths)

    monkeypatch.setattr(files, "os", SimpleNamespace(**{**vars(os), "name": "nt", "replace": refusing}))
    monkeypatch.setattr(files.time, "sleep", lambda _: None)
    files.put(tmp_path / "a", b"content")
    assert (tmp_path / "a").read_bytes() == b"content"
    assert next(times, None) is None
    times = iter([True] * 1000)
    with pytest.raises(PermissionError):
        files.put(tmp_path / "b", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL])
def test_a_file_system_without_locks_is_told(tmp_path, monkeypatch, error):
    def none(*_):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(lock, "fcntl", SimpleNamespace(**{**vars(lock.fcntl), "flock": none}))
    with pytest.warns(NoLockWarning, match=f"cannot be locked \\({os.strerror(error)}\\): nothing keeps two"):
        store = begun(tmp_path / "run")
    kept = commit(store, 0)
    remove_lock(tmp_path / "run")
    with pytest.raises(StoreFailed, match="no longer the one"):  # this much is seen there as well
        commit(store, 1)
    store.end()
    assert same(aw.load(tmp_path / "run", apply), kept)
