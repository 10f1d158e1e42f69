"""Several devices in one process: the members of Local with the lanes of one device.

A process has one number of devices: these tests skip, but for the first, which runs the others in a child with four.
"""

import os
import subprocess
import sys

import jax
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.run.runners import layout
from anchorwalk.run.runners.devices import default
from helpers import leaves_equal, small_plan, small_problem, stacked_params

KEY = jax.random.key(7)
FLAG = "--xla_force_host_platform_device_count=4"
four = pytest.mark.skipif(FLAG not in os.environ.get("XLA_FLAGS", ""), reason="wants four devices")


def run(plan, runner, store=None, problem=None):
    return aw.sample(KEY, problem or small_problem(), plan, runner=runner, store=store, callbacks=[])


def same(one, other):
    return leaves_equal(stacked_params(one), stacked_params(other)) and one.settings == other.settings


@pytest.mark.skipif(FLAG in os.environ.get("XLA_FLAGS", ""), reason="this is the child")
@pytest.mark.parametrize(("chosen", "count"), [("not slow", 6), pytest.param("slow", 3, marks=pytest.mark.slow)])
def test_with_four_devices(chosen, count):
    flags = f"{os.environ.get('XLA_FLAGS', '')} {FLAG}"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "-m", chosen, __file__]
    child = subprocess.run(command, env=os.environ | {"XLA_FLAGS": flags}, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout
    assert f"{count} passed" in child.stdout


@four
@pytest.mark.parametrize(
    ("chains", "lanes", "shared"), [(7, 2, False), pytest.param(4, 1, True, marks=pytest.mark.slow)]
)
def test_members_are_those_of_local(chains, lanes, shared):
    plan = small_plan(chains, shared_order=shared)
    assert same(run(plan, aw.Devices(lanes)), run(plan, aw.Local(1, lanes)))


@four
def test_auto_uses_them_and_their_number_decides_nothing():
    assert default() == aw.Devices()
    plan = small_plan(8)
    found = run(plan, "auto")
    assert found.settings["lanes"] == "2"
    assert same(run(plan, aw.Devices(lanes=2, count=3)), found)


@four
def test_a_run_goes_from_one_device_to_four(tmp_path):
    run(small_plan(5, members=2), aw.Local(1, 1), tmp_path)
    assert same(run(small_plan(5, members=3), "auto", tmp_path), run(small_plan(5, members=3), aw.Local(1, 1)))


@four
@pytest.mark.slow
def test_chains_that_are_begun_anew():
    """A first training that does not stay finite, on one device of several."""
    plan = small_plan(4, rate=1e20)
    with pytest.raises(aw.errors.TrainingFailed, match="chains 0, 1, 2, 3"):
        run(plan, "auto")


@four
@pytest.mark.slow
def test_runs_side_by_side():
    keys = [jax.random.key(seed) for seed in (7, 8)]
    found = aw.sample_many(keys, small_problem(), small_plan(3), runner=aw.Devices(2), callbacks=[])
    assert same(found[0], run(small_plan(3), aw.Local(1, 2)))


@four
def test_every_device_is_at_work():
    plan, problem = small_plan(4), small_problem()
    shape = aw.Devices().layout(problem, 4, 1.0, None)
    with aw.Devices().open(plan.method, problem, shape, 4) as session:
        assert session.width == 4
        assert len(session._problem.data.x.sharding.device_set) == 4


def test_lanes_of_one_device(monkeypatch):
    """The rule of one device, and no more than each device's share of the chains."""
    monkeypatch.setattr(jax, "local_devices", lambda: ["device"] * 8)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    problem = small_problem()
    shapes = [aw.Devices().layout(problem, chains, 1.0, None) for chains in (1, 8, 20, 1000)]
    assert [shape.lanes for shape in shapes] == [1, 1, 3, layout.WIDEST]
    assert aw.Devices(count=2).layout(problem, 20, 1.0, None).lanes == 10
    stored = layout.Layout(5, wide=True)
    assert aw.Devices().layout(problem, 20, 1.0, stored) == stored
    assert default() == aw.Devices()


def test_devices_that_are_not_there_are_refused():
    with pytest.raises(InvalidInput, match=r"Devices\(count=\): got 99 for a process with \d+, expected"):
        aw.Devices(count=99)
    with pytest.raises(InvalidInput, match=r"Devices\(lanes=\): got 0"):
        aw.Devices(lanes=0)
