"""Compiled programs: kept for the runs of a process, and for the next process where the user wants that."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.run import cache, programs
from helpers import small_plan, small_problem

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, anchorwalk as aw
from anchorwalk.run import programs
from helpers import small_plan, small_problem
programs.LEAST_SECONDS = 1e-9  # every program is kept, however quick this machine is
jax.numpy.ones(3).sum().block_until_ready()  # JAX has compiled something before
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
before = dict(jax.config.values)
found = eval(sys.argv[2])
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
posterior = aw.sample(jax.random.key(0), small_problem(), small_plan(), callbacks=[])
changed = {name for name, value in jax.config.values.items() if before[name] != value}
print(found, len(hits), float(sum(member.params["out"].sum() for member in posterior)), *changed, sep=";")
"""


def run(call="aw.cache_programs()", **variables):
    """A run in a process of its own: what the call gave, programs found on disk, a sum, and JAX's changed settings."""
    tests = str(Path(__file__).parent.parent)
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    command = [sys.executable, "-c", CHILD, tests, call]
    out = subprocess.run(command, env=environment | variables, capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    found, hits, total, *changed = out.stdout.strip().split(";")
    return found, int(hits), float(total), changed


def test_a_second_process_compiles_nothing_anew(tmp_path):
    folder = tmp_path / "deep" / "programs"
    found, first, total, changed = run(ANCHORWALK_CACHE=str(folder))
    assert found == str(folder)
    assert sorted(changed) == ["jax_compilation_cache_dir", "jax_persistent_cache_min_compile_time_secs"]
    kept = len(list(folder.iterdir()))
    assert kept >= 2  # first trainings and later ones
    _, second, again, _ = run(f"aw.cache_programs({str(folder)!r})")  # the folder may be given, too
    assert second >= first + 2
    assert again == total
    assert len(list(folder.iterdir())) == kept


def child(folder, call="aw.cache_programs()"):
    command = [sys.executable, "-c", CHILD, str(Path(__file__).parent.parent), call]
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment["ANCHORWALK_CACHE"] = str(folder)
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ended(process):
    """Programs that a process found, and its sum; no warning was printed."""
    out, error = process.communicate()
    assert process.returncode == 0, error
    assert "cache" not in error
    _, hits, total, *_ = out.strip().split(";")
    return int(hits), float(total)


def test_programs_that_are_damaged_or_of_another_version_are_compiled_again(tmp_path):
    both = [child(tmp_path), child(tmp_path)]  # at the same time
    totals = {ended(process)[1] for process in both}
    hits, total = ended(child(tmp_path))
    assert totals == {total}
    assert hits >= 4
    paths = sorted(tmp_path.iterdir())
    assert all(path.name.endswith("-sealed") for path in paths)
    contents = [path.read_bytes() for path in paths]
    for number, (path, content) in enumerate(zip(paths, contents, strict=True)):
        middle = len(content) // 2
        if number % 4 == 0:
            path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
        elif number % 4 == 1:
            path.write_bytes(content[:middle])
        elif number % 4 == 2:
            path.write_bytes(contents[number - 1])  # another program
        else:
            path.unlink()
            path.symlink_to("/dev/zero")
    assert ended(child(tmp_path)) == (0, total)
    other = "(setattr(programs.cache, 'version', lambda name: '0.0'), aw.cache_programs())[1]"
    assert ended(child(tmp_path, other)) == (0, total)
    assert ended(child(tmp_path, other)) == (hits, total)


def test_a_program_on_disk_is_trusted_by_its_checksum_alone(tmp_path):
    kept = cache.Programs(tmp_path)
    assert kept.get("a") is None
    kept.put("a", b"program")
    kept.put("b", b"program")
    assert kept.get("a") == b"program"
    (tmp_path / "b-sealed").write_bytes((tmp_path / "a-sealed").read_bytes())
    assert kept.get("b") is None
    assert [path.name for path in tmp_path.iterdir()] == ["a-sealed"]
    content = (tmp_path / "a-sealed").read_bytes()
    for place in range(8 * len(content)):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << (place % 8)
        (tmp_path / "a-sealed").write_bytes(changed)
        assert kept.get("a") is None
    for path in (tmp_path / "a-sealed", tmp_path / "c-sealed"):
        os.mkfifo(path)
    assert kept.get("a") is kept.get("c") is None
    kept.put("a", b"again")
    assert cache.Programs(tmp_path).get("a") == b"again"
    kept.put("no/such/folder", b"")  # cannot be kept: nothing happens
    assert [path.name for path in tmp_path.iterdir()] == ["a-sealed"]


def test_without_a_place_for_checksums_nothing_is_kept(tmp_path):
    found, hits, _, _ = run("(setattr(programs.cache, 'install', lambda _: False), aw.cache_programs())[1]")
    assert (found, hits) == ("None", 0)


def test_the_users_cache_is_the_place_where_none_is_named(tmp_path):
    found, *_ = run(XDG_CACHE_HOME=str(tmp_path))
    assert found == str(tmp_path / "anchorwalk" / "programs")
    assert len(list(Path(found).iterdir())) >= 2


def test_nothing_is_kept_on_disk_unless_it_is_asked_for(tmp_path):
    variables = {"ANCHORWALK_CACHE": str(tmp_path / "mine"), "XDG_CACHE_HOME": str(tmp_path)}
    assert run("None", **variables)[1::2] == (0, [])
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_switched_off_from_outside(tmp_path):
    found, hits, _, changed = run(ANCHORWALK_CACHE="off", XDG_CACHE_HOME=str(tmp_path))
    assert (found, hits, changed) == ("None", 0, [])
    assert run(f"aw.cache_programs({str(tmp_path / 'mine')!r})", ANCHORWALK_CACHE="off")[0] == "None"
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_jax_has_already_is_left_as_it_is(tmp_path):
    folders = {"JAX_COMPILATION_CACHE_DIR": str(tmp_path / "jax"), "ANCHORWALK_CACHE": str(tmp_path / "mine")}
    found, _, _, changed = run(**folders)
    assert (found, changed) == (str(tmp_path / "jax"), [])
    assert not (tmp_path / "mine").exists()


def test_programs_that_jax_itself_keeps_in_the_folder_are_left_to_it(tmp_path):
    path, kept = tmp_path / "a-cache", cache.Programs(tmp_path)  # the name that JAX gives to a program with this key
    path.write_bytes(b"JAX's own")
    assert kept.get("a") is None
    kept.put("a", b"program")
    assert kept.get("a") == b"program"
    assert path.read_bytes() == b"JAX's own"


def test_what_cannot_be_kept_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(ANCHORWALK_CACHE=str(blocked / "programs"))[:2] == ("None", 0)


def trained(key=0, **options):
    posterior = aw.sample(jax.random.key(key), small_problem(), small_plan(), callbacks=[], **options)
    return np.stack([member.params["out"] for member in posterior])


def test_switches_that_xla_does_not_have_are_left_out(monkeypatch):
    assert programs._knows("xla_cpu_multi_thread_eigen")
    assert not programs._knows("xla_cpu_no_such_switch")
    before = programs.compilations()
    monkeypatch.setattr(programs, "_knows", lambda option: False)
    assert programs.Options(True, programs.QUICKLY).of_xla() == {"xla_backend_optimization_level": 1}
    assert programs.compilations() == before


def never_clear(monkeypatch):
    monkeypatch.setattr(jax, "clear_caches", lambda: pytest.fail("forgot programs of others"))


@pytest.fixture
def mappings(tmp_path, monkeypatch):
    """Sets how many of 100 memory mappings are used."""
    monkeypatch.setattr(programs, "MAPS", tmp_path / "maps")
    monkeypatch.setattr(programs, "MOST_MAPS", tmp_path / "most")
    monkeypatch.setattr(programs, "_others", 0)
    (tmp_path / "most").write_text("100\n")
    return lambda used: (tmp_path / "maps").write_text("a mapping\n" * used)


@pytest.mark.parametrize(("used", "kept"), [(50, True), (51, False)])
def test_programs_are_forgotten_at_half_of_the_mappings(mappings, monkeypatch, used, kept):
    mappings(used)
    never_clear(monkeypatch)
    programs._programs.clear()
    programs._programs["another run's"] = None
    trained()
    assert ("another run's" in programs._programs) == kept
    assert len(programs._programs) == 3 + kept


def compile_another():
    programs.compiled(lambda form, x: x, None, programs.Options(False, programs.ONCE), np.zeros(3))


def test_programs_are_not_forgotten_for_the_mappings_of_others(mappings):
    """Forgetting gives nothing back there: all calls would compile their programs anew."""
    programs._programs.clear()
    mappings(60)
    trained()
    before = programs.compilations()
    for used in (60, 80):  # half of the 40 that others leave
        mappings(used)
        trained()
        assert programs.compilations() == before
    mappings(81)
    compile_another()
    assert len(programs._programs) == 1
    mappings(10)
    trained()
    mappings(56)  # others have given most of theirs back: half of the 90 that they leave
    compile_another()
    assert len(programs._programs) == 1


def test_the_longest_unused_programs_are_forgotten(monkeypatch):
    monkeypatch.setattr(programs, "KEPT", 4)
    monkeypatch.setattr(programs, "_make_room", lambda: None)  # what other tests compiled counts there
    programs._programs.clear()
    first = trained(runner=aw.Local(lanes=1))
    kept = set(programs._programs)
    trained(runner=aw.Local(lanes=2))
    assert len(programs._programs) == 4
    assert len(kept & set(programs._programs)) == 1
    np.testing.assert_array_equal(trained(runner=aw.Local(lanes=1)), first)
    assert set(list(programs._programs)[1:]) == kept  # the newest


def test_a_run_is_the_same_after_programs_were_forgotten():
    before = trained()
    programs._programs.clear()
    np.testing.assert_array_equal(trained(), before)
    jax.clear_caches()
    np.testing.assert_array_equal(trained(), before)


def test_where_mappings_are_not_told_nothing_is_forgotten(tmp_path, monkeypatch):
    monkeypatch.setattr(programs, "MAPS", tmp_path / "none")
    never_clear(monkeypatch)
    programs._programs.clear()
    programs._programs["another run's"] = None
    assert len(trained()) > 1
    assert len(programs._programs) == 4


@pytest.mark.skipif(not programs.MAPS.exists(), reason="Linux alone tells a process's mappings")
def test_forgetting_gives_mappings_back():
    def count():
        return len(programs.MAPS.read_bytes().splitlines())

    trained()  # what JAX compiles for itself on the way is not ours
    programs._programs.clear()
    before = count()
    trained()
    with_programs = count()
    programs._programs.clear()
    assert with_programs - before > 2 * max(0, count() - before)
