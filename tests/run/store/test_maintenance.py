"""Runs without their networks: listed, verified, thinned, merged, pruned, from the command line too."""

import os

import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput, StoreDamaged
from anchorwalk.run.store import DiskStore, Progress, maintenance, manifest
from anchorwalk.run.store.lock import LOCK, Lock
from helpers import begin, leaves_equal, made_up_run
from stored import apply, call, flip


def agree(posterior, kept):
    assert [(m.info.chain, m.info.index) for m in posterior] == sorted(kept)
    return all(leaves_equal(m.params, kept[m.info.chain, m.info.index].params) for m in posterior)


def test_runs_are_listed(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    made_up_run(tmp_path / "a", members=3)
    made_up_run(tmp_path / "deep" / "b", blocks=((0, 1, 2, 3),), members=2)
    summary = maintenance.summarize(tmp_path / "a")
    assert (summary.members, summary.planned, summary.diverged, summary.damaged) == (6, 6, 0, 0)
    assert (summary.epochs, summary.epochs_planned) == (16, 16)  # two chains of 4 + 2 + 2
    assert summary.seconds_left == 0
    assert summary.bytes == sum(p.stat().st_size for p in (tmp_path / "a").glob("*.safetensors"))
    short = manifest.read(tmp_path / "a")
    calls = [["first", 1, 4, 1], ["then", 1, 2, 4]]
    longer = {**short.about, "plan": {**short.about["plan"], "members": 5, "calls": calls}}
    manifest.Manifest(short.header, longer, short.environments, short.members, short.states).write(tmp_path / "a")
    # Six members of a quarter of a second took 16 epochs; two chains of two members of two epochs are left.
    assert maintenance.summarize(tmp_path / "a").seconds_left == pytest.approx(6 * 0.25 / 16 * 8)
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "Normal, 3 parameters," in out
    assert "6/10" in out
    assert "deep/b" in out
    (tmp_path / "a" / "members-000001-000000.safetensors").unlink()
    assert "1 damaged files" in call("runs", tmp_path)[1]
    (tmp_path / "a" / "run.json").write_text("")
    (tmp_path / "a" / "run.backup.json").write_text("")
    assert "StoreDamaged; see anchorwalk verify" in call("runs", tmp_path)[1]
    (tmp_path / "none").mkdir()
    assert "No runs in" in call("runs", tmp_path / "none")[1]


def test_verify_names_what_is_damaged(tmp_path):
    made_up_run(tmp_path / "run")
    code, out = call("verify", tmp_path / "run")
    assert code == 0
    assert "6 members" in out
    assert "all whole" in out
    for name in ("members-000002-000000.safetensors", "state-000002-000000.safetensors"):
        flip(tmp_path / "run" / name)
    code, out = call("verify", tmp_path / "run")
    assert code == 1
    assert out.replace(" ", "").count("itschecksumdoesnotfititscontent") == 2
    code, out = call("verify", tmp_path)
    assert code == 2
    assert "expected the folder of a run, with run.json" in out


def test_lost_workers_are_listed(tmp_path):
    made_up_run(tmp_path / "run", members=3)
    store = DiskStore(tmp_path / "run")
    store.note({"event": "sent again", "chains": [0, 1], "call": 1, "losses": ["killed"]})
    store.note({"event": "given up", "chains": [0], "call": 2, "losses": ["killed", "out of memory"]})
    store.note({"event": "given up", "chains": [1], "call": 3, "losses": ["killed"]})
    with (tmp_path / "run" / "log.jsonl").open("a") as log:
        log.write('{"event": "sent ag')
    store.note({"event": "sent again", "chains": [0], "call": 2, "losses": []})  # on a line of its own
    assert len((tmp_path / "run" / "log.jsonl").read_text().splitlines()) == 5
    summary = maintenance.summarize(tmp_path / "run")
    assert (summary.losses, summary.given_up) == (4, (1,))  # chain 0 has done call 2 since
    out = call("runs", tmp_path)[1]
    assert "4 workers lost" in out
    assert "given up: chains 1" in out
    assert maintenance.verify(tmp_path / "run") == {}


@pytest.mark.parametrize(
    "line",
    [
        "[" * 10**5,
        '{"losses": [], "event": "given up", "chains": [Infinity], "call": 9}',
        '{"losses": [], "event": "given up", "chains": ["0", 10000000000], "call": 9}',
        '{"losses": 7}',
        "7",
        "\udcff",
    ],
)
def test_a_log_of_another_hand_does_not_break_the_listing(tmp_path, line):
    made_up_run(tmp_path / "run")
    (tmp_path / "run" / "log.jsonl").write_bytes(line.encode(errors="surrogateescape") + b"\n")
    DiskStore(tmp_path / "run").note({"event": "given up", "chains": [1], "call": 3, "losses": ["killed"]})
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "1 workers lost" in out
    assert "given up: chains 1;" in out


def test_a_log_is_no_way_out_of_the_folder(tmp_path):
    made_up_run(tmp_path / "run")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    for put in (os.symlink, os.link):
        put(precious, tmp_path / "run" / "log.jsonl")
        DiskStore(tmp_path / "run").note({"event": "sent again"})
        (tmp_path / "run" / "log.jsonl").unlink()
    assert precious.read_text() == "mine"


def test_thinning_copies_every_kth_member(tmp_path):
    kept = made_up_run(tmp_path / "run", blocks=((0, 1), (2,)), members=150)
    code, out = call("thin", tmp_path / "run", "--every", 2, "--out", tmp_path / "half")
    assert code == 0
    assert "225 members" in out
    half = {place: member for place, member in kept.items() if place[1] % 2 == 0}
    loaded = aw.load(tmp_path / "half", apply)
    assert agree(loaded, half)
    assert loaded.complete
    # First members alone (they have other losses), then 64 and the 10 that are left, of each chain.
    assert sorted(part.count for part in manifest.read(tmp_path / "half").members) == [1, 1, 1, 10, 10, 10, 64, 64, 64]
    assert maintenance.verify(tmp_path / "half") == {}
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    original = aw.load(tmp_path / "run", apply)
    np.testing.assert_array_equal(loaded.predict(x).mean, original.thin(2).predict(x).mean)
    assert call("thin", tmp_path / "run", "--every", 2, "--out", tmp_path / "half")[0] == 2  # it is there already
    with pytest.raises(InvalidInput, match="taken out of another run"):
        made_up_run(tmp_path / "half", blocks=((0, 1), (2,)), members=151)
    assert maintenance.summarize(tmp_path / "half").planned == 225
    assert maintenance.thin(tmp_path / "half", tmp_path / "eighth", 8) == 3 * 19
    assert agree(aw.load(tmp_path / "eighth", apply), {p: m for p, m in kept.items() if p[1] % 8 == 0})


def test_merging_refuses_what_does_not_belong_together(tmp_path):
    kept = made_up_run(tmp_path / "a", blocks=((0, 1),), members=3)
    more = made_up_run(tmp_path / "b", blocks=((2,), (3,)), members=3)
    made_up_run(tmp_path / "other", blocks=((4,),), header={"walk": "another"})
    made_up_run(tmp_path / "same", blocks=((4,), (1,)))
    made_up_run(tmp_path / "rounded", blocks=((4,),), dtype="bfloat16")
    made_up_run(tmp_path / "walk", blocks=((5,),), header={"walk": "a third"})
    code, out = call("merge", tmp_path / "a", tmp_path / "b", "--out", tmp_path / "all")
    assert code == 0
    assert "12 members" in out
    assert agree(aw.load(tmp_path / "all", apply), kept | more)
    for wrong, words in [
        (["other", "walk"], "walk was another, is a third"),
        (["a", "same"], "chain 1 in"),
        (["a", "rounded"], "differ in 'stored_as'"),
        (["a"], "got 1 run, expected two or more"),
    ]:
        with pytest.raises(InvalidInput, match=words):
            maintenance.merge([tmp_path / name for name in wrong], tmp_path / "wrong")
    flip(tmp_path / "b" / "members-000002-000003.safetensors")
    with pytest.raises(StoreDamaged, match=r"members-000002-000003.safetensors is damaged.*prune"):
        maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "wrong")
    assert not (tmp_path / "wrong").exists()


def test_pruning_keeps_what_is_whole_and_the_run_goes_on(tmp_path):
    folder = tmp_path / "run"
    kept = made_up_run(folder, members=3)
    assert call("prune", folder) == (0, "Nothing to do.")
    flip(folder / "members-000001-000000.safetensors")
    (folder / "members-000009-000000.safetensors.tmp").write_bytes(b"cut short")
    code, out = call("prune", folder)
    assert code == 0
    assert "members-000001-000000.safetensors: its checksum does not fit its content; 2 members left out" in out
    assert "members-000009-000000.safetensors.tmp: a leftover, removed" in out
    assert (folder / "members-000001-000000.safetensors.damaged").exists()
    rest = {place: member for place, member in kept.items() if place[1] != 1}
    assert agree(aw.load(folder, apply), rest)
    store = DiskStore(folder)
    begin(store, {"w": kept[0, 0].params["w"]}, manifest.read(folder).about)
    assert store.progress() == {0: Progress(3, 3, 0), 1: Progress(3, 3, 0)}
    assert leaves_equal(store.state(1).params, kept[1, 2].params)
    store.end()
    code, out = call("prune", folder, "--states")
    assert "chain states removed" in out
    assert not list(folder.glob("state-*"))
    summary = maintenance.summarize(folder)
    assert (summary.epochs, summary.epochs_planned, summary.seconds_left) == (16, 16, 0)  # members tell how far it is
    assert agree(aw.load(folder, apply), rest)
    held = Lock(folder / LOCK)
    held.acquire()
    with pytest.raises(InvalidInput, match="another process writes"):
        maintenance.prune(folder)
    held.release()
    assert call("prune", tmp_path)[0] == 2
    assert not (tmp_path / "lock").exists()
