"""What every store promises; a run in it can be ended and gone on with."""

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.run.store import DiskStore, MemoryStore, Progress, maintenance
from helpers import (
    about_of,
    begin,
    leaves_equal,
    made_up_round,
    small_apply,
    small_plan,
    small_problem,
    stacked_params,
)

KEY = jax.random.key(7)
WALK = aw.GuidedWalk(step_size=0.3)


def plan_of(chains=3, members=4, walk=WALK):
    return small_plan(chains, members, walk=walk)


def run(store, plan=None, **options):
    plan = plan_of() if plan is None else plan
    arguments = {"runner": aw.Local(threads=1, lanes=2), "callbacks": []} | options
    return aw.sample(KEY, small_problem(), plan, store=store, **arguments)


@pytest.fixture(params=["memory", "disk"])
def new_store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else DiskStore(tmp_path / "run")


def test_a_store_gives_back_what_it_took(new_store):
    kept, reference = run(new_store), run(None)
    assert leaves_equal(stacked_params(kept), stacked_params(reference))
    for a, b in zip(kept, reference, strict=True):
        assert a.info._replace(seconds=0) == b.info._replace(seconds=0)
        np.testing.assert_array_equal(a.trace, b.trace)
    assert [(i.chain, i.index) for i in new_store.infos()] == [(c, i) for c in range(3) for i in range(4)]
    x = small_problem().data.x
    np.testing.assert_array_equal(kept.predict(x).mean, reference.predict(x).mean)


def test_a_run_goes_on_bit_for_bit(new_store):
    run(new_store, plan_of(chains=2, members=2))
    assert leaves_equal(stacked_params(run(new_store)), stacked_params(run(None)))


def test_a_run_with_other_arguments_is_refused(new_store):
    run(new_store, plan_of(chains=2, members=2))
    with pytest.raises(InvalidInput, match=r"with a run of other arguments: walk was"):
        run(new_store, plan_of(walk=aw.GuidedWalk(step_size=0.2)))
    assert len(new_store.infos()) == 4


def test_a_failed_chain_is_remembered(new_store):
    like = {"w": jax.ShapeDtypeStruct((3,), np.float32)}
    begin(new_store, like, about_of((0, 1, 2), 2))
    assert (new_store.failed(), new_store.progress(), new_store.infos()) == ([], {}, [])
    new_store.fail(2)
    new_store.commit(made_up_round(like, (1,), 0))
    new_store.fail(0)
    new_store.fail(2)
    assert new_store.failed() == [0, 2]
    assert new_store.progress() == {1: Progress(calls=1, members=1, attempt=0)}
    assert new_store.about()["plan"] == about_of((0, 1, 2), 2)["plan"]
    new_store.end()


@tree.node()
@dataclass(frozen=True)
class Drifting:
    """A method of two calls without draws and then two draws a call; its first attempt may be bad."""

    step_size: float
    bad_attempts: int = 0

    def prepare(self, key, problem):
        return problem

    def calls(self, problem, members):
        yield from [aw.Call("warm-up", draws=0, passes=1.5)] * 2
        yield from [aw.Call("draw", draws=2, passes=0.25)] * -(-members // 2)

    def start(self, keys, problem, attempt):
        return problem.init(keys.own), attempt

    def step(self, keys, problem, state, call, number):
        params, attempt = state
        moves = jax.random.normal(keys.own, (max(1, call.draws), 8)) * self.step_size
        out = params["out"] + jnp.cumsum(moves, axis=0)
        after = params | {"out": out[-1]}
        drawn = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (call.draws, *leaf.shape)), params)
        drawn |= {"out": out[: call.draws]}
        good = jnp.full(call.draws, attempt >= self.bad_attempts)
        return (after, attempt), aw.Draws(drawn, moves[: call.draws], good, {"number": jnp.full(call.draws, number)})


@pytest.mark.parametrize("bad_attempts", [0, 2])
def test_calls_without_draws_and_of_several(new_store, bad_attempts):
    class Stop(Exception):
        pass

    def stop_after(calls):
        def stop(info):
            nonlocal calls
            calls -= 1
            if calls == 0:
                raise Stop

        return stop

    plan = aw.Plan(Drifting(0.1, bad_attempts), chains=3, members=6)
    whole = run(None, plan)
    assert [(m.info.chain, m.info.index) for m in whole] == [(c, i) for c in range(3) for i in range(6)]
    assert [m.info.values for m in whole][:6] == [{"number": number} for number in (2, 2, 3, 3, 4, 4)]
    assert whole[0, 1].trace.shape == (8,)
    for calls in (1, 2, 3):  # after the first warm-up, in the second, and among the draws
        with pytest.raises(Stop):
            run(new_store, plan, callbacks=[stop_after(calls)])
    found = new_store.progress()
    assert all(one.members == 2 * max(0, one.calls - 2) for one in found.values())
    reports = []
    again = run(new_store, plan, callbacks=[reports.append])
    assert leaves_equal(stacked_params(again), stacked_params(whole))
    assert new_store.progress() == {chain: Progress(calls=5, members=6, attempt=bad_attempts) for chain in range(3)}
    assert reports[-1].passes_done == plan.epochs == 3 * 3.75
    assert reports[-1].last
    longer = aw.Plan(plan.method, chains=3, members=8)
    assert leaves_equal(stacked_params(run(new_store, longer)), stacked_params(run(None, longer)))


def test_a_finished_run_is_read_without_its_states(tmp_path):
    for method, name in ((plan_of().method, "sae"), (Drifting(0.1), "drifting")):
        folder, plan = tmp_path / name, aw.Plan(method, chains=3, members=4)
        whole = run(folder, plan)
        maintenance.prune(folder, states=True)
        assert leaves_equal(stacked_params(run(folder, plan, callbacks=[pytest.fail])), stacked_params(whole))
        with pytest.raises(InvalidInput, match=r"without the state of chain 0, expected a whole run"):
            run(folder, aw.Plan(method, chains=3, members=6))
        assert len(aw.load(folder, small_apply)) == 12


def test_a_run_in_memory_is_copied_to_disk(tmp_path):
    memory, disk = MemoryStore(), DiskStore(tmp_path / "run")
    part = run(memory, plan_of(members=2))
    memory.fail(7)
    memory.copy_to(disk)
    assert leaves_equal(stacked_params(aw.load(tmp_path / "run", small_apply)), stacked_params(part))
    assert (disk.failed(), disk.header()) == ([7], memory.header())
    assert leaves_equal(stacked_params(run(tmp_path / "run")), stacked_params(run(None)))


def test_a_folder_is_opened_anew_and_goes_on(tmp_path):
    folder = tmp_path / "deep" / "run"
    run(str(folder), plan_of(chains=3, members=2))
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
