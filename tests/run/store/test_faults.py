"""Kills and failing disks: no finished member is lost, no bit differs, no store becomes unreadable."""

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import files
from anchorwalk.errors import StoreFailed
from anchorwalk.run.store import DiskStore, manifest, writer
from helpers import about_of, begin, leaves_equal, made_up_round, small_apply, small_plan, small_problem, stacked_params

LIKE = {"w": jax.ShapeDtypeStruct((3,), np.float32)}
PLAN = small_plan(chains=2, members=40, walk=aw.GuidedWalk(step_size=0.3))
HMC = aw.HMC(windows=(10, 20, 20), thin=1, leapfrogs=3, block=10, draws=10, descent=2)
PLANS = {"SAE": PLAN, "HMC": aw.Plan(HMC, chains=2, members=300)}


def go(store, threads=1, lanes=2, method="SAE"):
    runner = aw.Local(int(threads), int(lanes))
    return aw.sample(jax.random.key(7), small_problem(), PLANS[method], runner=runner, store=store, callbacks=[])


def linear(params, x):
    return x @ params["w"]


class FailingSystem:
    """`os` as the writer sees it, with the n-th call that matters failing; a failed write may leave a part behind."""

    def __init__(self, fail_at, error, partial):
        self.calls, self.fail_at, self.error, self.partial = 0, fail_at, error, partial

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in ("write", "fsync", "replace"):
            return real

        def call(*arguments):
            self.calls += 1
            if self.calls == self.fail_at:
                if name == "write" and self.partial:
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise OSError(self.error, os.strerror(self.error))
            return real(*arguments)

        return call


def write_rounds(folder, rounds):
    """A writer of rounds that nobody trained; returns those that were committed."""
    store = DiskStore(folder)
    committed = []
    begin(store, LIKE, about_of((0, 1), rounds))
    try:
        done = store.progress()[0].calls if 0 in store.progress() else 0
        for index in range(done, rounds):
            store.commit(made_up_round(LIKE, (0, 1), index))
            committed.append(index)
    finally:
        store.end()
    return done, committed


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
@pytest.mark.parametrize("partial", [False, True])
def test_every_write_may_fail(tmp_path, monkeypatch, error, partial):
    monkeypatch.setattr(writer, "MERGED", 3)
    counting = FailingSystem(-1, error, partial)
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", counting)
        write_rounds(tmp_path / "whole", 6)
    whole = DiskStore(tmp_path / "whole")
    whole.open(LIKE, manifest.read(tmp_path / "whole"), verify=True)
    assert counting.calls > 60
    for fail_at in range(1, counting.calls + 1):
        folder = tmp_path / f"run{fail_at}"
        finished, message = 0, ""
        with monkeypatch.context() as patch:
            patch.setattr(files, "os", FailingSystem(fail_at, error, partial))
            store = DiskStore(folder)
            try:
                begin(store, LIKE, about_of((0, 1), 6))
                for index in range(6):
                    store.commit(made_up_round(LIKE, (0, 1), index))
                    finished = index + 1
            except StoreFailed as failure:
                message = str(failure)
            store.end()
        assert f"could not write to {folder}: {os.strerror(error)}" in message
        # A round whose files and manifest are written is safe, also where making one file of many failed after that.
        safe = [count for count in (2 * finished, 2 * finished + 2) if f"The {count} members that were" in message]
        assert len(safe) == 1
        assert not list(folder.glob("*.tmp"))  # on a full disk it would keep the room
        found = manifest.read(folder)
        if found is not None:  # all that is named is whole, and nothing that was finished is missing
            reader = DiskStore(folder)
            reader.open(LIKE, found, verify=True, states=True)
            assert not reader.damaged
            assert len(reader.infos()) >= safe[0]
        assert finished == 0 or found is not None
        done, _ = write_rounds(folder, 6)  # there is room again
        assert done >= finished
        store = DiskStore(folder)
        store.open(LIKE, manifest.read(folder), verify=True)
        assert not store.damaged
        assert len(store.infos()) == 12
        for info in whole.infos():
            one, other = (s.member(info.chain, info.index) for s in (store, whole))
            assert leaves_equal(one.params, other.params)
        leftovers = {path.name for path in folder.iterdir()} - store.manifest.files
        assert leftovers == {"run.json", "run.backup.json", "lock"}


def test_a_full_disk_stops_a_run_that_goes_on_later(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", FailingSystem(60, errno.ENOSPC, True))
        with pytest.raises(StoreFailed, match=r"No space left on device. The \d+ members that were finished before"):
            go(folder)
    kept = aw.load(folder, small_apply)
    assert 0 < len(kept) < PLAN.total
    before = stacked_params(kept)
    whole = go(folder)
    assert leaves_equal(stacked_params(whole), stacked_params(go(None)))
    again = aw.load(folder, small_apply).thin(1)
    assert leaves_equal(
        jax.tree.map(lambda a: a[: len(before["out"]) // 2], stacked_params(again)),
        jax.tree.map(lambda a: a[: len(before["out"]) // 2], before),
    )


@pytest.mark.parametrize("fail_at", range(1, 7))
def test_marking_a_chain_as_failed_may_fail_too(tmp_path, monkeypatch, fail_at):
    folder = tmp_path / "run"
    store = DiskStore(folder)
    begin(store, LIKE, about_of((0, 1), 2))
    store.commit(made_up_round(LIKE, (1,), 0))
    with monkeypatch.context() as patch:
        patch.setattr(files, "os", FailingSystem(fail_at, errno.ENOSPC, True))
        with pytest.raises(StoreFailed, match=r"No space left on device. The 1 members that were finished before"):
            store.fail(0)
    store.end()
    assert len(aw.load(folder, linear)) == 1  # readable, without a warning
    store = DiskStore(folder)
    begin(store, LIKE, about_of((0, 1), 2))  # there is room again
    store.fail(0)
    assert store.failed() == [0]
    store.end()
    assert aw.load(folder, linear).failed == (0,)


CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/run/store")
import jax
jax.config.update("jax_compilation_cache_dir", sys.argv[3])
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
from test_faults import go
from anchorwalk.run.store import writer
writer.MERGED = 4
go(sys.argv[2], *sys.argv[4:])
print("done")
"""


def killed_run(folder, cache, kills, seed, runner):
    """Run to the end, killed `kills` times at random moments; returns how many landed, and how many in a write."""
    rng, landed, in_writes, members = random.Random(seed), 0, 0, {}
    tests = Path(__file__).parent.parent.parent
    while True:
        command = [sys.executable, "-c", CHILD, str(tests), str(folder), str(cache), *map(str, runner)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if landed < kills:
            names = _names(folder)
            while child.poll() is None and _names(folder) == names:  # until it writes for the first time
                time.sleep(0.0005)
            time.sleep(rng.uniform(0, 0.02))
            child.send_signal(signal.SIGKILL)
        _, error = child.communicate()
        assert child.returncode in (0, -signal.SIGKILL), error
        if child.returncode == 0:
            return landed, in_writes
        landed += 1
        in_writes += bool(list(folder.glob("*.tmp")))
        if (folder / "run.json").exists():
            loaded = aw.load(folder, small_apply)  # readable at every moment, without a warning
            now = {(m.info.chain, m.info.index): m.params for m in loaded}
            assert members.keys() <= now.keys()
            assert all(leaves_equal(members[place], now[place]) for place in members)
            members = now


def _names(folder):
    return {path.name for path in folder.iterdir()} - {"lock"} if folder.is_dir() else set()


def check_kills(tmp_path, kills, each, method):
    """Runs one after the other, of one block and of two at a time, until so many kills have landed."""
    landed = in_writes = number = 0
    runners = [(1, 2, method), (2, 1, method)]
    expected = [stacked_params(go(None, *runner)) for runner in runners]
    while landed < kills:
        folder, kind = tmp_path / f"run{number}", number % 2
        done, writes = killed_run(folder, tmp_path / "cache", min(each, kills - landed), number, runners[kind])
        assert leaves_equal(stacked_params(aw.load(folder, small_apply)), expected[kind])
        landed, in_writes, number = landed + done, in_writes + writes, number + 1
    return in_writes


@pytest.mark.parametrize("method", ["SAE", pytest.param("HMC", marks=pytest.mark.slow)])
def test_ten_kills(tmp_path, method):
    check_kills(tmp_path, 10, 5, method)


@pytest.mark.slow
@pytest.mark.parametrize("method", PLANS)
def test_a_hundred_kills(tmp_path, method):
    assert check_kills(tmp_path, 100, 15, method) >= 5  # of a hundred at random moments some fall into a write
