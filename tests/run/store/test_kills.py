"""Kills of everything that writes: sample, extend, merge, thin, prune, save, `anchorwalk fit`. Nothing is lost.

Each kill hits another process at a random moment; what is there is then read, and the same command carried out again.
"""

import os
import pickle
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pandas as pd
import pytest

import anchorwalk as aw
from anchorwalk.app import tables
from anchorwalk.integrations.sklearn import SAERegressor
from anchorwalk.run.store import maintenance
from anchorwalk.run.store.lock import LOCK
from helpers import leaves_equal, made_up_run, small_apply, small_plan, small_problem, stacked_params
from stored import apply, flip

KILLS = int(os.environ.get("ANCHORWALK_KILLS", "100"))
HMC = aw.HMC(windows=(10, 20, 20), thin=1, leapfrogs=3, block=10, draws=10, descent=2)
PLANS = {
    "SAE": lambda members: small_plan(chains=2, members=members, walk=aw.GuidedWalk(step_size=0.3)),
    "HMC": lambda members: aw.Plan(HMC, chains=2, members=10 * members),
}
MEMBERS = 20  # made-up ones of each chain
X = np.random.default_rng(0).normal(size=(40, 2))
FIT = {"budget": 40, "chains": 2, "hidden": (3,), "random_state": 0}  # of sequential ensembles
CHILD = """
import sys
sys.path[:0] = [sys.argv[1], sys.argv[1] + "/run/store"]
from pathlib import Path
import test_kills
print("ready", flush=True)
test_kills.ACTIONS[sys.argv[2]](Path(sys.argv[3]))
print("done")
"""


def sampled(folder, method, members):
    options = {"runner": aw.Local(1, 2), "callbacks": []}
    return aw.sample(jax.random.key(7), small_problem(), PLANS[method](members), store=folder, **options)


def prune(folder):
    maintenance.prune(folder / "a")


def save_from_memory(folder):
    pickle.loads((folder / "model").read_bytes()).save(folder / "out")  # noqa: S301  # our own bytes


def fit(folder):
    table, settings = pd.read_csv(folder / "t.csv"), tables.FitSettings(target="y", budget=40, chains=2, hidden=(3,))
    tables.fit(table, settings, folder / "out")


ACTIONS = {
    "sample SAE": lambda folder: sampled(folder / "out", "SAE", 20),
    "sample HMC": lambda folder: sampled(folder / "out", "HMC", 20),
    "extend SAE": lambda folder: sampled(folder / "out", "SAE", 20),
    "extend HMC": lambda folder: sampled(folder / "out", "HMC", 20),
    "merge": lambda folder: maintenance.merge([folder / "a", folder / "b"], folder / "out"),
    "merge HMC": lambda folder: maintenance.merge([folder / "c", folder / "d"], folder / "out"),
    "thin": lambda folder: maintenance.thin(folder / "a", folder / "out", 2),
    "thin HMC": lambda folder: maintenance.thin(folder / "c", folder / "out", 2),
    "prune": prune,
    "save from memory": save_from_memory,
    "save from disk": lambda folder: SAERegressor.load(folder / "saved").save(folder / "out"),
    "fit": fit,
}
MERGED = ("merge", "merge HMC", "thin", "thin HMC", "save from memory", "save from disk")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


@pytest.fixture(scope="module")
def originals(tmp_path_factory):
    """What every action begins with, and what it must lead to."""
    folder = tmp_path_factory.mktemp("originals")
    made_up_run(folder / "a", blocks=((0,), (1,)), members=MEMBERS)
    made_up_run(folder / "b", blocks=((2,),), members=MEMBERS)
    for name, chains in (("c", [0]), ("d", [1])):
        options = {"store": folder / name, "chains": chains, "callbacks": [], "runner": aw.Local(1, 1)}
        aw.sample(jax.random.key(7), small_problem(), PLANS["HMC"](5), **options)
    model = SAERegressor(**FIT).fit(X, X[:, 0])
    (folder / "model").write_bytes(pickle.dumps(model))
    model.save(folder / "saved")
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] + X[:, 1]}).to_csv(folder / "t.csv", index=False)
    return folder


def begun(originals, action, folder):
    """A folder to carry out an action in."""
    shutil.copytree(originals, folder)
    if action == "prune":
        flip(folder / "a" / "members-000001-000000.safetensors")
    if action.startswith("extend"):
        sampled(folder / "out", action.removeprefix("extend "), 10)


def result(action, folder):
    """What an action has led to, to be compared."""
    if action in MERGED:
        return contents(folder / "out")
    if action == "fit":
        return tables.load(folder / "out").predict(pd.read_csv(folder / "t.csv"))[0].to_numpy()
    if action == "prune":
        return {(one.info.chain, one.info.index): one.params["w"].tolist() for one in aw.load(folder / "a", apply)}
    return stacked_params(aw.load(folder / "out", small_apply))


def check_left(action, folder, before):
    """What a kill left: readable, with all that was there before; returns the members that are safe."""
    out = folder / "out"
    if action in MERGED:
        assert not out.exists() or maintenance.verify(out) == {}
        return {}
    if action in ("prune", "fit") or not (out / "run.json").exists():
        return before
    now = {(one.info.chain, one.info.index): one.params for one in aw.load(out, small_apply)}
    assert before.keys() <= now.keys()
    assert all(leaves_equal(before[place], now[place]) for place in before)
    return now


def killed(action, folder, seconds, rng):
    """Carry out an action in a process and kill it; whether it was still at work."""
    tests = str(Path(__file__).parent.parent.parent)
    command = [sys.executable, "-c", CHILD, tests, action, str(folder)]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n", child.communicate()[1]
    names = _names(folder)
    if rng.random() < 0.7:  # most kills come once it writes
        while child.poll() is None and _names(folder) == names:
            time.sleep(0.0002)
    time.sleep(rng.uniform(0, seconds))
    child.send_signal(signal.SIGKILL)
    _, error = child.communicate()
    assert child.returncode in (0, -signal.SIGKILL), error
    return child.returncode != 0


def _names(folder):
    found = []
    for path, _, names in os.walk(folder):
        found += [f"{path}/{name}" for name in names if name != LOCK]
    return set(found)


def check_kills(originals, tmp_path, kills):
    """So many kills that land, spread over all actions; how many there were of each."""
    rng, landed = random.Random(0), dict.fromkeys(ACTIONS, 0)
    expected, seconds = {}, {}
    for number in range(20 * kills):
        if sum(landed.values()) >= kills:
            break
        action = min(ACTIONS, key=lambda name: (landed[name], name))
        if action not in expected:
            whole = tmp_path / f"whole {action}"
            begun(originals, action, whole)
            start = time.perf_counter()
            ACTIONS[action](whole)
            seconds[action] = min(0.5, time.perf_counter() - start)
            expected[action] = result(action, whole)
        folder = tmp_path / f"{number}"
        begun(originals, action, folder)
        before = check_left(action, folder, {})
        for _ in range(rng.randint(1, 3)):
            landed[action] += killed(action, folder, seconds[action], rng)
            before = check_left(action, folder, before)
            if (folder / "out").exists() and action in MERGED:
                break
        if not (action in MERGED and (folder / "out").exists()):
            ACTIONS[action](folder)
        found = result(action, folder)
        if isinstance(found, np.ndarray):
            np.testing.assert_array_equal(found, expected[action])
        elif action in MERGED or action == "prune":
            assert found == expected[action]
        else:
            assert leaves_equal(found, expected[action])
        for name in ("a", "b", "c", "d", "saved"):
            if not (action == "prune" and name == "a"):
                assert contents(folder / name) == contents(originals / name)
        shutil.rmtree(folder)
    return landed


@pytest.mark.slow
def test_a_hundred_kills_of_everything_that_writes(originals, tmp_path):
    landed = check_kills(originals, tmp_path, KILLS)
    assert sum(landed.values()) >= KILLS
    assert min(landed.values()) >= KILLS // (2 * len(ACTIONS))


def test_kills(originals, tmp_path, monkeypatch):
    for action in set(ACTIONS) - {"thin", "save from memory"}:  # the quickest; the others are among the hundred
        monkeypatch.delitem(ACTIONS, action)
    landed = check_kills(originals, tmp_path, 2)
    assert sum(landed.values()) >= 2
