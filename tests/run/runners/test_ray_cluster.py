"""Several nodes, each a process tree of its own: killed workers, nodes that come and go, a driver that dies."""

import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import jax
import pytest

import anchorwalk as aw
from anchorwalk.run import loop
from helpers import leaves_equal, small_apply, small_plan, small_problem, stacked_params
from rays import descendants, kill, workers

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow
KEY = jax.random.key(7)
TESTS = Path(__file__).parents[2]


@pytest.fixture
def nodes(monkeypatch):
    """A cluster of two nodes of one CPU each, to which this process is not connected."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    small = {"num_cpus": 1, "object_store_memory": 100 * 2**20}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
        found = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
        found.second = found.add_node(**small)
        found.wait_for_nodes()
        yield found
        ray.shutdown()
        found.shutdown()


def run(plan, runner, store=None, callbacks=()):
    return aw.sample(KEY, small_problem(), plan, runner=runner, store=store, callbacks=list(callbacks))


def events(folder):
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def test_twenty_workers_killed_at_random(nodes, tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "AHEAD", 4)  # small tasks, so that the run is long in tasks and not in members
    plan, rng, killed, heard = small_plan(4, members=500), random.Random(0), [], set()

    def strike(report):
        heard.update(report.chains)
        if len(killed) < 20 and len(heard) == 4 and rng.random() < 0.5:  # each has gone on since the last one
            found, before = workers(os.getpid()), set(descendants(os.getpid()))
            if found and kill(victim := rng.choice(found)):
                killed.append(victim)
                heard.clear()
                deadline = time.monotonic() + 10
                # Nothing new is sent meanwhile: else the other worker would end the run before twenty have died.
                while set(descendants(os.getpid())) <= before and time.monotonic() < deadline:
                    time.sleep(0.1)

    found = run(plan, aw.Ray(nodes.address, lanes=1), tmp_path, [strike])
    assert len(set(killed)) == 20
    assert leaves_equal(stacked_params(found), stacked_params(run(plan, aw.Local(lanes=1))))
    assert {event["event"] for event in events(tmp_path)} == {"sent again"}
    assert 1 <= sum(len(event["losses"]) for event in events(tmp_path)) <= 20  # some died when their task was done


def test_nodes_come_and_go(nodes, tmp_path):
    plan, changed = small_plan(4, members=1500), []

    def change(report):
        if report.members_done > 600 and not changed:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
                changed.append(nodes.add_node(num_cpus=1, object_store_memory=100 * 2**20))
        if report.members_done > 2500 and len(changed) == 1:
            changed.append(nodes.second)
            nodes.remove_node(nodes.second, allow_graceful=False)

    found = run(plan, aw.Ray(nodes.address, lanes=1), tmp_path, [change])
    assert len(changed) == 2
    assert changed[0] is not changed[1]
    assert leaves_equal(stacked_params(found), stacked_params(run(plan, aw.Local(lanes=1))))


DRIVER = """
import sys
sys.path.insert(0, {tests!r})
import anchorwalk as aw, jax
from helpers import small_plan, small_problem
address = None if {address!r} == "own" else {address!r}
if __name__ == "__main__":
    print("begun", flush=True)
    posterior = aw.sample(jax.random.key(7), small_problem(), small_plan(4, members=500),
                          runner=aw.Ray(address, workers=2, lanes=1), store={folder!r}, callbacks=[])
    print(len(posterior), posterior.complete)
"""


def begin(folder, address):
    """A driver in a process of its own, once it has written members."""
    code = DRIVER.format(tests=str(TESTS), folder=str(folder), address=address)
    driver = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 120
    while not list(folder.glob("members-000[1-9]*")) and time.monotonic() < deadline:
        assert driver.poll() is None, driver.communicate()
        time.sleep(0.1)
    return driver


@pytest.mark.parametrize("own", [False, True])
def test_a_driver_that_is_killed_resumes(nodes, own, tmp_path):
    plan = small_plan(4, members=500)
    driver = begin(tmp_path, "own" if own else nodes.address)
    driver.send_signal(signal.SIGKILL)
    driver.communicate()
    before = len(aw.load(tmp_path, small_apply))
    assert 0 < before < 2000
    found = run(plan, aw.Ray(nodes.address, lanes=1), tmp_path)
    assert leaves_equal(stacked_params(found), stacked_params(run(plan, aw.Local(lanes=1))))


def test_control_c_ends_after_what_is_under_way(tmp_path):
    driver = begin(tmp_path, "own")
    driver.send_signal(signal.SIGINT)
    output, errors = driver.communicate(timeout=60)
    assert driver.returncode == 0, errors
    assert "False" in output
    assert "the run was interrupted with" in errors
    assert 0 < len(aw.load(tmp_path, small_apply)) < 2000
