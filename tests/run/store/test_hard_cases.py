"""Cases that are easy to get wrong: a writer beside a reader, kills at odd moments, forged shards, odd names."""

import errno
import gc
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from importlib import import_module
from pathlib import Path

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save

import anchorwalk as aw
from anchorwalk.errors import AnchorwalkError, DamagedWarning, InvalidInput, StoreDamaged, StoreFailed
from anchorwalk.run.store import DiskStore, folders, lock, maintenance, manifest, tensors, writer
from helpers import about_of, begin, leaves_equal, made_up_round, made_up_run
from stored import apply, call, flip, rewritten, same

LIKE = {"w": jax.ShapeDtypeStruct((3,), np.float32)}


def begun(folder, members=3, chains=(0, 1)):
    store = DiskStore(folder)
    begin(store, LIKE, about_of(chains, members))
    return store


def commit(store, *indices, chains=(0, 1)):
    for index in indices:
        store.commit(made_up_round(LIKE, chains, index))


# A reader beside a writer


def test_a_run_that_changes_under_a_readers_eyes_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MERGED", 4)
    store = begun(tmp_path / "run", 9)
    commit(store, 0, 1, 2, 3)
    later = iter([4])

    def read_and_write(folder, real=manifest.read):
        found = real(folder)
        for index in later:
            commit(store, index)  # makes one file of four
        return found

    with monkeypatch.context() as patch:
        patch.setattr(import_module("anchorwalk.posterior.load"), "read", read_and_write)
        assert len(aw.load(tmp_path / "run", apply)) == 10
    later = iter([5])
    with monkeypatch.context() as patch:
        patch.setattr(maintenance, "read", read_and_write)
        assert maintenance.verify(tmp_path / "run") == {}
    assert next(later, None) is None
    store.end()


def test_damage_does_not_stop_a_writer(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MERGED", 4)
    folder = tmp_path / "run"
    store = begun(folder, 12)
    commit(store, 0, 1, 2, 3)
    flip(folder / "members-000002-000000.safetensors")
    with pytest.warns(DamagedWarning, match=r"members-000002-000000.safetensors is damaged: its checksum"):
        commit(store, 4)
    commit(store, 5, 6, 7, 8)  # and goes on merging after it
    store.end()
    assert [part.count for part in store.manifest.members].count(4) == 1
    assert list(maintenance.verify(folder)) == ["members-000002-000000.safetensors"]


def test_holes_do_not_end_merging(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MERGED", 4)
    folder = tmp_path / "run"
    store = begun(folder, 41)
    commit(store, 0, 1, 2, 3)
    store.end()
    flip(folder / "members-000002-000000.safetensors")
    maintenance.prune(folder)
    store = begun(folder, 41)
    commit(store, *range(4, 41))
    store.end()
    # The first, one before the hole, and 38 after it in nine files of four and two single ones.
    assert len(store.manifest.members) == 1 + 1 + 9 + 2
    assert not aw.load(folder, apply).complete  # two members are gone


# Kills and errors


FIRST_WRITE = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from helpers import made_up_run
from anchorwalk import files
class Killed:
    def __getattr__(self, name):
        if name == "fsync" and list(__import__("pathlib").Path(sys.argv[2]).glob("*.tmp")):
            os.kill(os.getpid(), signal.SIGKILL)
        return getattr(os, name)
files.os = Killed()
made_up_run(sys.argv[2])
"""


def test_a_kill_in_the_first_write_of_all(tmp_path):
    folder, tests = tmp_path / "run", str(Path(__file__).parent.parent.parent)
    child = subprocess.run([sys.executable, "-c", FIRST_WRITE, tests, str(folder)], capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    assert {path.name for path in folder.iterdir()} == {"lock", "run.backup.json.tmp"}
    kept = made_up_run(folder)
    assert same(aw.load(folder, apply), kept)


def test_a_copy_that_is_ahead_is_put_right(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MERGED", 4)
    folder = tmp_path / "run"
    kept = made_up_run(folder, members=4)
    store = begun(folder, 5)
    before = (folder / "run.json").read_bytes()
    commit(store, 4)
    store.end()
    ahead = (folder / "run.backup.json").read_bytes()
    (folder / "run.json").write_bytes(before)  # as a kill between the two leaves them; its files:
    added = made_up_run(tmp_path / "again", members=4)
    for path in (tmp_path / "again").glob("*.safetensors"):
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "run.backup.json").write_bytes(ahead)
    begun(folder, 4).end()
    assert (folder / "run.json").read_bytes() == (folder / "run.backup.json").read_bytes()
    (folder / "run.json").write_text("damaged")
    with pytest.warns(DamagedWarning, match=r"run.json is damaged"):
        assert same(aw.load(folder, apply), kept | added)


def test_pruning_deletes_nothing_that_may_be_all_that_is_left(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder, members=4)
    (folder / "members-000002-000000.safetensors").rename(folder / "members-000009-000000.safetensors")
    maintenance.prune(folder)
    assert (folder / "members-000009-000000.safetensors.damaged").exists()


def test_locks_do_not_leak(tmp_path, monkeypatch):
    folder = tmp_path / "run"

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(lock.os, "ftruncate", full)
        begun(folder).end()
    store = begun(folder)
    child = subprocess.Popen(["sleep", "60"], pass_fds=(store._lock._descriptor,))  # inherits the file
    try:
        store.end()
        begun(folder).end()
    finally:
        child.kill()
        child.wait()
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder / "lock").unlink()
    os.link(precious, folder / "lock")
    with pytest.raises(InvalidInput, match="a link or no plain file"):
        begun(folder)
    with pytest.raises(InvalidInput, match="a link or no plain file"):
        maintenance.prune(folder)
    assert precious.read_text() == "mine"


def test_files_are_closed(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("counts open files in /proc")
    gc.collect()
    before = len(list(descriptors.iterdir()))
    for _ in range(20):
        aw.load(folder, apply)[0, 0]
    flip(folder / "members-000001-000000.safetensors")
    loaded = aw.load(folder, apply, verify=False)
    for _ in range(20):
        with pytest.raises(StoreDamaged, match="checksum"):
            loaded[0, 1]
    gc.collect()
    assert len(list(descriptors.iterdir())) <= before + 1


def test_running_out_of_open_files_is_not_damage(tmp_path, monkeypatch):
    made_up_run(tmp_path / "run")
    real = os.open

    def none_left(path, *arguments):
        if "members" in str(path):
            raise OSError(errno.EMFILE, "Too many open files")
        return real(path, *arguments)

    monkeypatch.setattr(tensors.os, "open", none_left)
    with pytest.raises(StoreFailed, match="Too many open files"):
        aw.load(tmp_path / "run", apply)


def test_a_bad_sector_is_damage(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    kept = made_up_run(folder)
    bad, real = os.stat(folder / "members-000001-000000.safetensors").st_ino, os.pread

    def pread(descriptor, *arguments):
        if os.fstat(descriptor).st_ino == bad:
            raise OSError(errno.EIO, "Input/output error")
        return real(descriptor, *arguments)

    monkeypatch.setattr(tensors.os, "pread", pread)
    with pytest.warns(DamagedWarning, match=r"it cannot be read \(Input/output error\)"):
        loaded = aw.load(folder, apply)
    assert same(loaded, {place: member for place, member in kept.items() if place[1] != 1})


def test_files_that_vanish_are_named_each_time(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    loaded, late = aw.load(folder, apply), aw.load(folder, apply)
    for path in folder.glob("members-00000[12]*"):
        path.unlink()
    for _ in range(2):
        with pytest.raises(StoreDamaged, match="member 1 of chain 0 is no longer in"):
            loaded[0, 1]
    assert loaded[0, 0].info.index == 0
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    with pytest.raises(StoreDamaged, match="no longer in"):
        late[1, 0]


def test_a_file_that_is_changed_after_it_was_compared_is_compared_again(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    path = folder / "members-000001-000000.safetensors"
    loaded, before = aw.load(folder, apply), path.read_bytes()
    for number, place in enumerate(((0, 1), (1, 1))):  # a file that is not open, and one that is
        flip(path)
        os.utime(path, ns=(0, 2 * number))  # clocks of file systems are too coarse for this test
        with pytest.raises(StoreDamaged, match="its checksum does not fit its content"):
            loaded[place]
        path.write_bytes(before)
        os.utime(path, ns=(0, 2 * number + 1))
        assert loaded[place].info.index == 1


@pytest.mark.parametrize("blocks", [((0, 1),), ((0,), (1,))])
def test_another_run_in_the_folder_is_not_taken_for_this_one(tmp_path, blocks):
    folder = tmp_path / "run"
    made_up_run(folder, blocks=blocks, header={"key": "0"})
    loaded, store = aw.load(folder, apply), DiskStore(folder)
    begin(store, LIKE, about_of((0, 1), 3))
    store.end()
    shutil.rmtree(folder)
    made_up_run(folder, header={"key": "1"}, seed=1)  # in a file of the same name and size, or of another name
    for read in (loaded.__getitem__, lambda place: store.member(*place)):
        with pytest.raises(StoreDamaged, match=r"checksum does not fit|is no longer in"):
            read((1, 0))


# The manifest and its copy


@pytest.mark.parametrize("name", ["run.json", "run.backup.json"])
@pytest.mark.parametrize("content", ["junk", None])
def test_a_manifest_that_is_gone_is_told_and_mended(tmp_path, name, content):
    folder = tmp_path / "run"
    kept = made_up_run(folder)
    path = folder / name
    if content is None:
        path.unlink()
    else:
        path.write_text(content)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedWarning)
        assert list(maintenance.verify(folder)) == [name]
        assert maintenance.find(tmp_path) == [folder]
        assert "written anew" in maintenance.prune(folder)[0]
    assert maintenance.verify(folder) == {}
    assert same(aw.load(folder, apply), kept)


# Forged


def forged(folder, change):
    """A shard with other tensors or another header, with entries in the manifest that fit."""
    path = folder / "members-000001-000000.safetensors"
    content = change(path.read_bytes())
    path.write_bytes(content)
    import hashlib

    def entry(manifest):
        for one in manifest["members"]:
            if one["file"] == path.name:
                one.update(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())

    rewritten(folder, entry)


def with_header(change):
    def changed(content):
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        change(header)
        encoded = json.dumps(header).encode()
        return len(encoded).to_bytes(8, "little") + encoded + content[8 + length :]

    return changed


def overlapping(header):
    for i in range(400):
        header[f"extra{i}"] = dict(header["params/w"])


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["trace"].update(shape=[10**18] * 60_000),
        lambda header: header["trace"].update(shape=[1, 2, 0, 10**30], data_offsets=[0, 0]),
        lambda header: header["trace"].update(shape=[1, 2] + [1] * 98 + [2]),
        overlapping,
    ],
    ids=["a long product", "a dimension", "many axes", "overlapping"],
)
def test_forged_shards_are_left_out_soon(tmp_path, change):
    folder = tmp_path / "run"
    made_up_run(folder)
    forged(folder, with_header(change))
    began = time.perf_counter()
    with pytest.warns(DamagedWarning, match="members-000001"):
        assert len(list(aw.load(folder, apply))) == 4
    assert time.perf_counter() - began < 5


def test_tensors_that_nobody_asked_for_are_not_copied(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    path = folder / "members-000001-000000.safetensors"
    more = {**load_file(path), "extra": np.ones(())}
    forged(folder, lambda _: save(more))
    assert maintenance.thin(folder, tmp_path / "thin", 1) == 6
    names = {name for part in (tmp_path / "thin").glob("members*") for name in load_file(part)}
    assert "extra" not in names


@pytest.mark.parametrize("dtype", ["(1,f4", "O", "S5", "M8[s]", 7])
def test_forged_inputs(tmp_path, dtype):
    made_up_run(tmp_path / "run")
    inputs = {"tree": 0, "leaves": [{"shape": [3], "dtype": dtype}]}
    rewritten(tmp_path / "run", lambda content: content["about"].update(inputs=inputs))
    with pytest.raises(AnchorwalkError):
        aw.load(tmp_path / "run", apply)


def test_many_leaves_are_named_quickly():
    began = time.perf_counter()
    found = tensors.names([np.zeros(1)] * 20_000, "params")
    assert len(set(found)) == 20_000
    assert time.perf_counter() - began < 5


# Odd names and numbers


def test_odd_names_of_runs_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    for name in ("lr[best]", "a[/x]"):
        made_up_run(tmp_path / name)
    made_up_run(tmp_path / "nan")
    rewritten(tmp_path / "nan", lambda content: content["about"]["plan"]["calls"][0].__setitem__(2, math.inf))
    made_up_run(tmp_path / "no plan")
    rewritten(tmp_path / "no plan", lambda content: content["about"].pop("plan"))
    code, out = call("runs", tmp_path)
    assert code == 0
    assert all(name in out for name in ("lr[best]", "a[/x]", "nan", "no plan"))
    assert out.count("StoreDamaged") == 2
    for command in (("thin", "--every", "2"), ("merge", tmp_path / "nan")):
        code, out = call(command[0], tmp_path / "no plan", *command[1:], "--out", tmp_path / "out")
        assert code == 2
        assert "lacks or garbles" in out


def test_thinning_by_absurd_numbers_and_twice(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder, members=4)
    assert maintenance.thin(folder, tmp_path / "first", 2**31) == 2
    assert len(aw.load(tmp_path / "first", apply)) == 2
    maintenance.thin(folder, tmp_path / "half", 2)
    maintenance.thin(tmp_path / "half", tmp_path / "quarter", 2)
    assert aw.load(tmp_path / "quarter", apply).complete


def test_chains_run_one_after_the_other_in_one_folder_are_all_counted(tmp_path):
    folder = tmp_path / "run"
    store = begun(folder, 3, chains=(0,))
    commit(store, 0, chains=(0,))
    store.end()
    store = begun(folder, 3, chains=(1,))
    commit(store, 0, 1, 2, chains=(1,))
    store.end()
    assert not aw.load(folder, apply).complete
    summary = maintenance.summarize(folder)
    assert (summary.members, summary.planned) == (4, 6)
    assert leaves_equal(store.state(0).params, made_up_round(LIKE, (0,), 0).member(0, 0).params)


def test_a_failed_merge_leaves_nothing_in_the_way(tmp_path, monkeypatch):
    made_up_run(tmp_path / "a", blocks=((0,),))
    made_up_run(tmp_path / "b", blocks=((1,),))

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(folders.files, "copy", full)
        code, out = call("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both")
    assert code == 2
    assert "No space left" in out
    assert not (tmp_path / "both").exists()
    assert call("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "both")[0] == 0
