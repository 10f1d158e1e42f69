"""Runs whose checksums fit and whose content makes no sense: refused or shown in words, one by one."""

import hashlib
import json
import math
import os

import jax
import numpy as np
import pytest
from safetensors.numpy import load_file, save

import anchorwalk as aw
from anchorwalk.app.report import run as report
from anchorwalk.app.report import write
from anchorwalk.errors import DamagedWarning, InvalidInput, StoreDamaged
from anchorwalk.run.store import DiskStore, maintenance
from helpers import about_of, begin, made_up_run
from stored import apply, call, rewritten

X = np.zeros((2, 3), np.float32)


def reshaped(folder, change):
    """Change the tensors of all files of members, with checksums that fit."""
    entries = {}
    for path in folder.glob("members-*"):
        tensors = {name: np.array(one) for name, one in load_file(path).items()}
        change(tensors)
        content = save(tensors)
        path.write_bytes(content)
        entries[path.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(folder, lambda content: [one.update(entries[one["file"]]) for one in content["members"]])


def longer(content):
    content["about"]["plan"].update(members=5, calls=[["first", 1, 4, 1], ["then", 1, 2, 4]])


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -math.inf, -1.0, 1e308])
def test_absurd_seconds_are_damage(tmp_path, seconds):
    folder = tmp_path / "run"
    made_up_run(folder)
    rewritten(folder, longer)  # so that some are left, and are estimated
    reshaped(folder, lambda tensors: tensors["seconds"].fill(seconds))
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "0/10" in out
    assert "3 damaged files" in out
    with pytest.warns(DamagedWarning, match="its members took no time that can be"):
        assert len(aw.load(folder, apply)) == 0


def test_a_run_without_members(tmp_path):
    store = DiskStore(tmp_path / "run")
    begin(store, {"w": jax.ShapeDtypeStruct((3,), np.float32)}, about_of((0, 1), 3))
    store.end()
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "0/6" in out
    assert call("verify", tmp_path / "run")[0] == 0
    loaded = aw.load(tmp_path / "run", apply)
    assert (len(loaded), loaded.complete, list(loaded)) == (0, False, [])
    for function in (loaded.predict, loaded.diagnose):
        with pytest.raises(InvalidInput):
            function(X)
    with pytest.raises(InvalidInput, match="a posterior without members"):
        write(loaded, tmp_path / "report")
    assert call("thin", tmp_path / "run", "--every", 2, "--out", tmp_path / "thin")[0] == 0
    assert len(aw.load(tmp_path / "thin", apply)) == 0


def test_a_run_whose_members_all_diverged(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    reshaped(folder, lambda tensors: tensors["status"].fill(1))
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "6/6" in out
    loaded = aw.load(folder, apply)
    assert (len(loaded), loaded.diverged) == (0, 6)
    for function in (loaded.predict, loaded.diagnose):
        with pytest.raises(InvalidInput):
            function(X)


@pytest.mark.parametrize("place", [("header", "walk"), ("header", "first"), ("about", "method")])
def test_endless_dashes_are_read_soon(tmp_path, place):
    folder = tmp_path / "run"
    made_up_run(folder)
    dashes = "-" * 500_000
    walk = {"name": "SAE", "title": dashes, "settings": {"walk": {"name": dashes, "settings": {"step_size": dashes}}}}
    rewritten(folder, lambda content: content[place[0]].update({place[1]: walk if place[1] == "method" else dashes}))
    assert call("runs", tmp_path)[0] == 0
    assert report.read(aw.load(folder, apply)).longest == 3


ODD = [None, 7, -1, 0.5, "x", [], [7], {}, {"name": 7}, "plan"]


@pytest.mark.parametrize(
    "name", ["plan", "method", "prior", "likelihood", "inputs", "rows", "leaves", "tree", "stored_as"]
)
def test_wrong_types_in_what_a_run_says_of_itself(tmp_path, name):
    folder = tmp_path / "run"
    made_up_run(folder)
    made_up_run(tmp_path / "whole")
    original = [(folder / name).read_bytes() for name in ("run.json", "run.backup.json")]
    refused = 0
    for odd in ODD:
        for path, content in zip(("run.json", "run.backup.json"), original, strict=True):
            (folder / path).write_bytes(content)
        rewritten(folder, lambda content, odd=odd: content["about"].update({name: odd}))
        code, out = call("runs", tmp_path)
        assert code == 0
        assert "whole" in out  # one bad run does not break the listing
        assert "6/6" in out
        try:
            report.read(aw.load(folder, apply))
            maintenance.verify(folder)
        except (StoreDamaged, InvalidInput):
            refused += 1
    assert refused or name in ("method", "prior", "stored_as")


def test_calls_that_make_no_sense_are_refused_where_a_run_goes_on(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    for calls in ([["first", 1]], [["first", {}, 1, 1]], None, "calls"):
        rewritten(folder, lambda content, calls=calls: content["about"]["plan"].update(calls=calls))
        store = DiskStore(folder)
        store.open(None, store.manifest)
        with pytest.raises(StoreDamaged, match="lacks or garbles"):
            store.progress()


def test_traces_of_other_axes(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    reshaped(folder, lambda tensors: tensors.update(trace=tensors["trace"][:, :, :1, None]))
    loaded = aw.load(folder, apply)
    assert len(loaded) == 6
    assert (report.read(loaded).first, report.read(loaded).then) == (0, 0)  # no losses of epochs
    reshaped(folder, lambda tensors: tensors.update(trace=tensors["trace"][:, :, 0, 0]))
    with pytest.warns(DamagedWarning, match="it lacks the members' traces"):
        assert len(aw.load(folder, apply)) == 0


@pytest.mark.parametrize("axes", [0, 1, 2])
def test_states_of_too_few_axes_or_chains_are_damage(tmp_path, axes):
    folder = tmp_path / "run"
    made_up_run(folder)
    path = next(folder.glob("state-*"))
    tensors = {name: np.zeros((1,) * axes, one.dtype) for name, one in load_file(path).items()}
    content = save(tensors)
    path.write_bytes(content)
    entry = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    rewritten(folder, lambda manifest: manifest["states"][0].update(entry))
    store = DiskStore(folder)
    begin(store, {"w": jax.ShapeDtypeStruct((3,), np.float32)}, about_of((0, 1), 3))
    with pytest.raises(StoreDamaged, match=r"chain states in .* are damaged"):
        store.state(1)
    store.end()


def test_one_bad_folder_does_not_break_the_listing(tmp_path):
    made_up_run(tmp_path / "whole")
    for name, make in {
        "pipe": lambda path: os.mkfifo(path),
        "loop": lambda path: path.symlink_to(path.name),
        "device": lambda path: path.symlink_to("/dev/zero"),
        "folder": lambda path: path.mkdir(),
        "list": lambda path: path.write_text("[]"),
        "deep": lambda path: path.write_text("[" * 10**5),
        "other": lambda path: path.write_text(json.dumps({"format": {}})),
    }.items():
        (tmp_path / name).mkdir()
        make(tmp_path / name / "run.json")
    code, out = call("runs", tmp_path)
    assert code == 0
    assert out.count("StoreDamaged; see anchorwalk verify") + out.count("InvalidInput; see anchorwalk verify") == 7
    assert "6/6" in out
