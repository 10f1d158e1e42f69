"""Compiled programs outlive their process, where the user lets them."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.run import programs
from helpers import small_plan, small_problem

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, anchorwalk as aw
from helpers import small_plan, small_problem
jax.numpy.ones(3).sum().block_until_ready()  # JAX has compiled something before
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
posterior = aw.sample(jax.random.key(0), small_problem(), small_plan(), callbacks=[])
print(len(hits), float(sum(member.params["out"].sum() for member in posterior)))
"""


def run(place):
    tests = str(Path(__file__).parent.parent)
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment["ANCHORWALK_CACHE"] = str(place)
    out = subprocess.run(
        [sys.executable, "-c", CHILD, tests], env=environment, capture_output=True, text=True, check=True
    )
    hits, total = out.stdout.split()
    return int(hits), float(total)


def test_a_second_process_compiles_nothing_anew(tmp_path):
    folder = tmp_path / "deep" / "programs"
    first, total = run(folder)
    kept = len(list(folder.iterdir()))
    assert kept >= 2  # first trainings and later ones
    second, again = run(folder)
    assert second >= first + 2
    assert again == total
    assert len(list(folder.iterdir())) == kept


def test_what_cannot_be_kept_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(blocked / "programs")[0] == 0


def trained(key=0):
    posterior = aw.sample(jax.random.key(key), small_problem(), small_plan(), callbacks=[])
    return np.stack([member.params["out"] for member in posterior])


@pytest.mark.parametrize(("used", "forgotten"), [(50, 0), (51, 1)])
def test_programs_are_forgotten_at_half_of_the_mappings(tmp_path, monkeypatch, used, forgotten):
    (tmp_path / "maps").write_text("a mapping\n" * used)
    (tmp_path / "most").write_text("100\n")
    monkeypatch.setattr(programs, "MAPS", tmp_path / "maps")
    monkeypatch.setattr(programs, "MOST_MAPS", tmp_path / "most")
    cleared = []
    monkeypatch.setattr(jax, "clear_caches", lambda: cleared.append(True))
    trained()
    assert len(cleared) == forgotten


def test_a_run_is_the_same_after_programs_were_forgotten():
    before = trained()
    jax.clear_caches()
    np.testing.assert_array_equal(trained(), before)


def test_where_mappings_are_not_told_nothing_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MAPS", tmp_path / "none")
    monkeypatch.setattr(jax, "clear_caches", lambda: pytest.fail("forgot programs without need"))
    assert len(trained()) > 1


@pytest.mark.skipif(not programs.MAPS.exists(), reason="Linux alone tells a process's mappings")
def test_forgetting_gives_mappings_back():
    def count():
        return len(programs.MAPS.read_bytes().splitlines())

    jax.clear_caches()
    before = count()
    trained()
    with_programs = count()
    jax.clear_caches()
    assert with_programs - before > 2 * max(0, count() - before)
