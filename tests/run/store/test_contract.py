"""What every store promises; a run in it can be ended and gone on with."""

import signal
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.run.store import DiskStore, MemoryStore
from helpers import leaves_equal, small_plan, small_problem, stacked_params

KEY = jax.random.key(7)
WALK = aw.GuidedWalk(step_size=0.3)


def run(store, plan=None, **options):
    plan = small_plan(chains=3, members=4) if plan is None else plan
    arguments = {"walk": WALK, "runner": aw.Vectorized(width=2), "callbacks": []} | options
    return aw.sample(KEY, small_problem(), plan, store=store, **arguments)


@pytest.fixture(params=["memory", "disk"])
def new_store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else DiskStore(tmp_path / "run")


def test_a_store_gives_back_what_it_took(new_store):
    kept, reference = run(new_store), run(None)
    assert leaves_equal(stacked_params(kept), stacked_params(reference))
    for a, b in zip(kept, reference, strict=True):
        assert a.info._replace(seconds=0) == b.info._replace(seconds=0)
        np.testing.assert_array_equal(a.losses, b.losses)
    assert [(i.chain, i.index) for i in new_store.infos()] == [(c, i) for c in range(3) for i in range(4)]
    x = small_problem().data.x
    np.testing.assert_array_equal(kept.predict(x).mean, reference.predict(x).mean)


def test_a_run_goes_on_bit_for_bit(new_store):
    run(new_store, small_plan(chains=2, members=2))
    assert leaves_equal(stacked_params(run(new_store)), stacked_params(run(None)))


def test_a_run_with_other_arguments_is_refused(new_store):
    run(new_store, small_plan(chains=2, members=2))
    with pytest.raises(InvalidInput, match=r"with a run of other arguments: walk was"):
        run(new_store, walk=aw.GuidedWalk(step_size=0.2))
    assert len(new_store.infos()) == 4


def test_a_folder_is_opened_anew_and_goes_on(tmp_path):
    folder = tmp_path / "deep" / "run"
    run(str(folder), small_plan(chains=3, members=2))
    reports = []
    whole = run(folder, callbacks=[reports.append])
    assert sum(len(r.members) for r in reports) == 6  # the rest alone
    assert leaves_equal(stacked_params(whole), stacked_params(run(None)))
    again = run(folder, callbacks=[reports.append])
    assert len(reports) == 4  # two rounds of two blocks, and nothing the second time
    assert leaves_equal(stacked_params(again), stacked_params(whole))
    assert len(list(folder.glob("state-*"))) == 2  # the newest state of each block
    assert not list(folder.glob("*.tmp"))


def test_folders_that_cannot_be_right_are_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"with other files in it, expected a run or an empty folder"):
        run(tmp_path)
    with pytest.raises(InvalidInput, match=r"store: got the file '.*notes.txt', expected a folder"):
        run(tmp_path / "notes.txt")
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_things_that_are_no_store_are_refused():
    with pytest.raises(InvalidInput, match=r'store: got 3, expected a Store. Pass a folder such as "runs/mine"'):
        run(3)
    with pytest.raises(InvalidInput, match=r"store: got '/proc/nowhere' .*expected a folder to write to"):
        run("/proc/nowhere")


CHILD = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
sys.path.insert(0, sys.argv[1] + "/run/store")
from test_contract import run
def die(round_info):
    if round_info.members_done == 5:
        os.kill(os.getpid(), signal.SIGKILL)
run(sys.argv[2], callbacks=[die])
"""


def test_a_killed_run_goes_on_bit_for_bit(tmp_path):
    folder = tmp_path / "run"
    tests = Path(__file__).parent.parent.parent
    child = subprocess.run([sys.executable, "-c", CHILD, str(tests), str(folder)], capture_output=True, text=True)
    assert child.returncode == -signal.SIGKILL, child.stderr
    (folder / "members-000002-000000.safetensors.tmp").write_bytes(b"cut short")  # as a kill during a write leaves it
    assert len(DiskStore(folder).infos()) == 0
    whole = run(folder)
    assert leaves_equal(stacked_params(whole), stacked_params(run(None)))
    assert not list(folder.glob("*.tmp"))
