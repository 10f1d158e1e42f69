"""What is beside a run, and new folders: under checksums, whole or not at all, repeated after a kill at any moment."""

import contextlib
import errno
import json
import os
import pickle
import shutil
import stat
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anchorwalk as aw
from anchorwalk import files
from anchorwalk.app import tables
from anchorwalk.errors import AnchorwalkError, DamagedWarning, InvalidInput, StoreDamaged, StoreFailed
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.run.store import DiskStore, beside, folders, maintenance, manifest
from anchorwalk.run.store.lock import LOCK, Lock
from anchorwalk.run.store.log import LOG
from helpers import made_up_run
from stored import apply, call, flip, relisted, rewritten, same

NAME = "estimator.json"
X = np.random.default_rng(0).normal(size=(30, 2))


@pytest.fixture(scope="module")
def regressor():
    return SAERegressor("ae", budget=4, chains=2, hidden=(3,), random_state=0).fit(X, X[:, 0])


@pytest.fixture(scope="module")
def classifier():
    return SAEClassifier("ae", budget=4, chains=2, hidden=(3,), random_state=0).fit(X, X[:, 0] > 0)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != LOCK}


# Checksums


def test_a_flipped_bit_is_seen(tmp_path, regressor):
    folder = tmp_path / "run"
    regressor.save(folder)
    content = (folder / NAME).read_bytes()
    for place in np.random.default_rng(0).integers(8 * len(content), size=60):
        changed = bytearray(content)
        changed[place // 8] ^= 1 << (place % 8)
        (folder / NAME).write_bytes(changed)
        with pytest.raises(StoreDamaged, match=r"estimator.json is not what was written: it"):
            SAERegressor.load(folder)
    (folder / NAME).write_bytes(content)
    flip(folder / NAME)
    assert maintenance.verify(folder) == {NAME: "its checksum does not fit its content"}
    assert call("verify", folder)[0] == 1
    code, out = call("prune", folder)
    assert code == 0
    assert "estimator.json: its checksum does not fit its content; left out, save again" in out
    assert (folder / "estimator.json.damaged").exists()
    assert maintenance.verify(folder) == {}
    with pytest.raises(InvalidInput, match=r"without estimator\.json"):
        SAERegressor.load(folder)
    (folder / NAME).write_bytes(content)  # whole, but nobody vouches for it
    with pytest.raises(StoreDamaged, match=r"run\.json does not name it"):
        SAERegressor.load(folder)


def test_a_file_beside_a_run_that_is_gone(tmp_path, regressor):
    folder = tmp_path / "run"
    regressor.save(folder)
    (folder / NAME).unlink()
    with pytest.raises(StoreDamaged, match=r"save\(\) did not finish, or the file was removed"):
        SAERegressor.load(folder)
    assert maintenance.verify(folder) == {NAME: "it is missing"}
    regressor.save(tmp_path / "other")
    for name in ("run.json", "run.backup.json"):
        (tmp_path / "other" / name).unlink()
    with pytest.raises(StoreDamaged, match=r"there is no run\.json beside it"):
        SAERegressor.load(tmp_path / "other")


def test_tables_are_under_the_checksums_too(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder)
    beside.write(folder, "table.json", b"{}")
    flip(folder / "table.json")
    with pytest.raises(StoreDamaged, match=r"table.json is not what was written: its checksum"):
        tables.load(folder)
    assert list(maintenance.verify(folder)) == ["table.json"]


def test_files_beside_a_run_go_on_with_it_and_not_into_copies(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder, members=2)
    beside.write(folder, "table.json", b"{}")
    made_up_run(folder, members=3)  # goes on
    assert beside.read(folder, "table.json") == b"{}"
    maintenance.prune(folder, states=True)
    assert beside.read(folder, "table.json") == b"{}"
    maintenance.thin(folder, tmp_path / "thin", 1)
    assert maintenance.verify(tmp_path / "thin") == {}
    with pytest.raises(InvalidInput, match="another process writes"):
        _written_while_locked(folder)


def _written_while_locked(folder):
    lock = Lock(folder / LOCK)
    lock.acquire()
    try:
        beside.write(folder, "table.json", b"[]")
    finally:
        lock.release()


@pytest.mark.parametrize("name", ["run.json", "../out.json", "members.json/x", "", None, "lock"])
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    folder = tmp_path / "run"
    made_up_run(folder)
    rewritten(folder, lambda content: content["beside"].append({"file": name, "bytes": 1, "sha256": ""}))
    with pytest.raises(StoreDamaged):
        maintenance.verify(folder)


# Crafted by one who can compute checksums


def changed_estimator(folder, change):
    about = json.loads((folder / NAME).read_text())
    change(about)
    (folder / NAME).write_text(json.dumps(about))
    relisted(folder, NAME)


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about["params"].update(store="/tmp/elsewhere"),
        lambda about: about["params"].update(network=None),
        lambda about: about["params"].pop("prior"),
        lambda about: about["params"].update(prior=[1]),
        lambda about: about["params"].update(hidden=["3"]),
        lambda about: about["params"].update(noise="loud"),
        lambda about: about["fitted"].update(features=3),
        lambda about: about["fitted"].update(seed="0"),
        lambda about: about["fitted"]["scaling"].update(mean=[0.0]),
        lambda about: about["fitted"]["scaling"].update(scale=[1.0, 0.0]),
        lambda about: about["fitted"]["scaling"].update(scale=[1.0, 1e999]),
        lambda about: about["fitted"]["target_scaling"].update(scale=-1.0),
        lambda about: about["fitted"].update(target_shape=[10**9, 10**9]),
        lambda about: about["fitted"].update(feature_names=["a"]),
        lambda about: about["fitted"].update(feature_names="ab"),
        lambda about: about["params"].update(hidden={}),
        lambda about: about["params"].update(quantiles={}),
        lambda about: about.update(fitted=[]),
        lambda about: about.pop("own_network"),
    ],
)
def test_crafted_estimators(tmp_path, regressor, change):
    regressor.save(tmp_path / "run")
    changed_estimator(tmp_path / "run", change)
    with pytest.raises(StoreDamaged, match="is not what was written"):
        SAERegressor.load(tmp_path / "run")


@pytest.mark.parametrize(
    "classes",
    [
        {"dtype": "<U999999999", "values": ["a", "b"]},
        {"dtype": "V8", "values": ["a", "b"]},
        {"dtype": "|b1", "values": [True, False]},
        {"dtype": "<i8", "values": [0.5, 1.5]},
        {"dtype": "<U1", "values": ["aa", "bb"]},
        {"dtype": "O", "values": ["a", 1]},
        {"dtype": "|b1", "values": [False]},
        {"dtype": None, "values": None},
    ],
)
def test_crafted_classes(tmp_path, classifier, classes):
    classifier.save(tmp_path / "run")
    changed_estimator(tmp_path / "run", lambda about: about["fitted"].update(classes=classes))
    with pytest.raises(StoreDamaged, match="is not what was written"):
        SAEClassifier.load(tmp_path / "run")


def test_crafted_names_of_columns(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "b": np.where(X[:, 1] > 0, "x", "y")})
    model = SAERegressor("ae", budget=4, chains=2, hidden=(3,), random_state=0).fit(table, X[:, 0])
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(SAERegressor.load(tmp_path / "run").predict(table), model.predict(table))
    changed_estimator(tmp_path / "run", lambda about: about["fitted"].update(feature_names=["a", ".."]))
    with pytest.raises(StoreDamaged, match=r"is not what was written .*names of features"):
        SAERegressor.load(tmp_path / "run")


@pytest.mark.parametrize("weights", [{"a": 0}, {}, 0.5, True, "heavy", [["a", [1]]], [["a"]], [[["a"], 1.0]]])
def test_crafted_weights_of_classes(tmp_path, classifier, weights):
    classifier.save(tmp_path / "run")
    changed_estimator(tmp_path / "run", lambda about: about["params"].update(class_weight=weights))
    with pytest.raises(StoreDamaged, match="is not what was written"):
        SAEClassifier.load(tmp_path / "run")


def test_a_folder_that_is_another_runs_now_is_left_alone(tmp_path, regressor):
    folder = tmp_path / "run"
    regressor.save(folder)
    model = SAERegressor.load(folder)
    shutil.rmtree(folder)
    SAERegressor("ae", budget=4, chains=2, hidden=(3,), random_state=1).fit(X, X[:, 0]).save(folder)
    before = contents(folder)
    for out in (folder, tmp_path / "copy"):
        with pytest.raises(InvalidInput, match="with a run of other arguments: key was"):
            model.save(out)
    assert contents(folder) == before
    assert not (tmp_path / "copy").exists()
    for path in folder.iterdir():
        path.unlink()
    with pytest.raises(StoreDamaged, match=r"has no run\.json any more"):
        model.save(folder)


def test_what_load_would_refuse_is_not_saved(tmp_path):
    model = SAERegressor("ae", budget=4, chains=2, hidden=(3,), random_state=0, quantiles=0.5).fit(X, X[:, 0])
    model.save(tmp_path / "run")
    np.testing.assert_array_equal(SAERegressor.load(tmp_path / "run").predict(X), model.predict(X))
    for changed, message in (
        ({"quantiles": [[0.5, 0.6]]}, "parameters that have no JSON form"),
        ({"noise": "loud"}, "parameters that have no JSON form .*noise: got 'loud'"),
        ({"hidden": (3, 3)}, "parameters were changed after its fit"),
        ({"hidden": (4,)}, "parameters were changed after its fit"),
        ({"noise": 0.5}, "parameters were changed after its fit"),
    ):
        former = model.get_params()
        with pytest.raises(InvalidInput, match=message):
            model.set_params(**changed).save(tmp_path / "other")
        model.set_params(**former)
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"class_weight": {False: [1.0]}}, r"class_weight: got \[1.0\], expected a finite number"),
        ({"class_weight": {False: 10**400}}, "parameters that have no JSON form"),
        ({"class_weight": "heavy"}, "class_weight: got 'heavy'"),
        ({"class_weight": 0.5}, "not the list that it should be"),
        ({"hidden": 3}, "parameters that have no JSON form"),
    ],
)
def test_what_load_would_refuse_of_a_classifier_is_not_saved(tmp_path, classifier, changed, message):
    former = classifier.get_params()
    with pytest.raises(InvalidInput, match=message):
        classifier.set_params(**changed).save(tmp_path / "run")
    classifier.set_params(**former)
    assert not (tmp_path / "run").exists()


def test_an_estimator_without_its_chains_is_not_saved(tmp_path, regressor):
    regressor.save(tmp_path / "run")
    model = pickle.loads(pickle.dumps(SAERegressor.load(tmp_path / "run")))  # noqa: S301  # our own bytes
    with pytest.raises(InvalidInput, match="save: got an estimator unpickled without its chains"):
        model.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_parameters_of_numpy_are_saved_and_others_refused(tmp_path):
    model = SAERegressor("ae", budget=np.int64(4), chains=np.int64(2), hidden=(3,), random_state=0).fit(X, X[:, 0])
    model.save(tmp_path / "run")
    assert SAERegressor.load(tmp_path / "run").budget == 4
    model.set_params(verbose=float("nan"))
    with pytest.raises(InvalidInput, match="parameters that have no JSON form"):
        model.save(tmp_path / "other")
    assert not (tmp_path / "other").exists()


# Pipes, devices, links, holes


def soon(function, *arguments):
    """What a function gives or raises; fails where it hangs."""
    found = []

    def run():
        try:
            found.append(function(*arguments))
        except AnchorwalkError as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    assert found, "it hangs"
    return found[0]


def pipe(path, _):
    os.mkfifo(path)


def device(path, _):
    path.symlink_to("/dev/zero")


def link(path, content):
    path.with_name("elsewhere").write_bytes(content)
    path.symlink_to(path.with_name("elsewhere"))


def holes(path, content):
    path.write_bytes(content[:1])
    os.truncate(path, 2**40)


FILES = ["run.json", NAME, "table.json", LOG, "members-000001-000000.safetensors", "state-000002-000000.safetensors"]


@pytest.mark.filterwarnings("ignore::anchorwalk.errors.DamagedWarning")
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("put", [pipe, device, link, holes])
def test_what_is_no_plain_file_is_named_soon(tmp_path, put, name):
    folder = tmp_path / "run"
    made_up_run(folder)
    for other in (NAME, "table.json"):
        beside.write(folder, other, b"{}")
    DiskStore(folder).note({"event": "sent again", "losses": ["killed"]})
    before = (folder / name).read_bytes()
    (folder / name).unlink()
    put(folder / name, before)
    tracemalloc.start()
    assert list(soon(maintenance.verify, folder)) == [name]
    code, out = soon(call, "runs", tmp_path)
    assert code == 0
    assert ("1 damaged files" in out) == (name != "run.json")  # its copy is whole
    assert soon(DiskStore(folder).note, {"event": "sent again", "losses": []}) is None
    assert isinstance(soon(SAERegressor.load, folder), StoreDamaged)  # {} is none, whatever else
    assert isinstance(soon(tables.load, folder), StoreDamaged)
    assert isinstance(soon(aw.load, folder, apply), aw.Posterior)
    assert any(name in line for line in soon(maintenance.prune, folder))
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    assert soon(maintenance.verify, folder) == {}
    assert not name.startswith("run") or stat.S_ISREG((folder / name).lstat().st_mode)


def test_a_file_of_holes_that_claims_members_by_the_billion(tmp_path):
    folder, count = tmp_path / "run", 2**30
    made_up_run(folder)
    kept = {"w": 4 * 3, "trace": 0, "chain": 8, "index": 8, "status": 4, "seconds": 8}
    header, place = {}, 0
    for name, size in kept.items():
        shape = [count, 1] + ([3] if name == "w" else [0] if name == "trace" else [])
        dtype = {4: "I32", 8: "I64"}.get(size, "F32")
        header["params/w" if name == "w" else name] = {
            "dtype": "F64" if name == "seconds" else dtype,
            "shape": shape,
            "data_offsets": [place, place + size * count],
        }
        place += size * count
    encoded = json.dumps(header).encode()
    path = folder / "members-000003-000000.safetensors"
    path.write_bytes(len(encoded).to_bytes(8, "little") + encoded)
    os.truncate(path, 8 + len(encoded) + place)
    entry = {"file": path.name, "bytes": path.stat().st_size, "sha256": "", "chains": [0], "first": 3}
    rewritten(folder, lambda content: content["members"].append({**entry, "count": count, "step": 1, "call": ""}))
    tracemalloc.start()
    with pytest.warns(DamagedWarning, match="members are not those that the manifest says"):
        assert len(soon(lambda: aw.load(folder, apply, verify=False))) == 6
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"[" * 300 + b"]" * 300, "too deep"),
        (b"[" * 10**6, "too deep"),
        (b'{"a": NaN}', "the number NaN"),
        (b'{"a": 1e999}', "the number 1e999"),
        (b'{"a": 1' + b"0" * 400 + b"}", "the number 1000"),
        (b'{"a": -1' + b"0" * 10**4 + b"}", "the number -1000"),
    ],
)
def test_json_is_bounded(content, reason):
    with pytest.raises(ValueError, match=reason):
        files.from_json(content)


def test_texts_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "LONGEST", 1000)
    (tmp_path / "a").write_bytes(b" " * 1000)
    assert files.read(tmp_path / "a") == b" " * 1000
    (tmp_path / "a").write_bytes(b" " * 1001)
    with pytest.raises(files.Damaged, match="longer than 1000 bytes"):
        files.read(tmp_path / "a")


# Kills at every moment


class Killed(BaseException):
    """The process is gone: nothing that comes after runs."""


class Machine:
    """`os` for those who write, which stops at the n-th call that changes something, and all calls after."""

    CHANGING = ("open", "write", "fsync", "replace", "rename")

    def __init__(self, kill_at, monkeypatch):
        self.calls, self.kill_at = 0, kill_at
        for module in (files, folders):
            monkeypatch.setattr(module, "os", self)
        monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None if self.dead else self.real_rmtree(*_, **__))
        for name in ("unlink", "rename"):
            monkeypatch.setattr(Path, name, self._unless_dead(getattr(Path, name)))

    real_rmtree = staticmethod(shutil.rmtree)

    @property
    def dead(self):
        return self.calls >= self.kill_at

    def _unless_dead(self, real):
        def call(*arguments, **options):
            if self.dead:
                raise Killed
            return real(*arguments, **options)

        return call

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.CHANGING:
            return real

        def call(*arguments, **options):
            if name == "open" and not arguments[1] & os.O_CREAT:
                return real(*arguments, **options)
            self.calls += 1
            if self.dead:
                if name == "write":  # a part may be there
                    real(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                raise Killed
            return real(*arguments, **options)

        return call


def thinned(tmp_path, _):
    maintenance.thin(tmp_path / "a", tmp_path / "out", 2)


def merged(tmp_path, _):
    maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "out")


def saved(tmp_path, model):
    model.save(tmp_path / "out")


ACTIONS = {"thin": thinned, "merge": merged, "save": saved, "save from disk": saved}


@pytest.mark.parametrize("action", ACTIONS)
def test_a_new_folder_is_whole_or_not_there_and_can_be_made_again(tmp_path, regressor, action):
    made_up_run(tmp_path / "a", blocks=((0, 1),), members=3)
    made_up_run(tmp_path / "b", blocks=((2,),), members=3)
    regressor.save(tmp_path / "saved")
    model = SAERegressor.load(tmp_path / "saved") if action == "save from disk" else regressor
    out, unfinished = tmp_path / "out", tmp_path / "out.unfinished"
    ACTIONS[action](tmp_path, model)
    expected = contents(out)
    shutil.rmtree(out)
    kill_at, seen = 0, 0
    while True:
        kill_at += 1
        with pytest.MonkeyPatch.context() as patch:
            machine = Machine(kill_at, patch)
            with contextlib.suppress(Killed):
                ACTIONS[action](tmp_path, model)
        if not machine.dead:
            break
        assert not out.exists() or contents(out) == expected
        if unfinished.exists():
            seen += 1
            with pytest.raises(StoreDamaged, match="unfinished: the command that makes it is still at work"):
                aw.load(unfinished, apply)
            with pytest.raises(StoreDamaged, match="Repeat the save, thin or merge"):
                SAERegressor.load(unfinished)
            with pytest.raises(StoreDamaged, match="unfinished"):
                maintenance.verify(unfinished)
        if not out.exists():
            ACTIONS[action](tmp_path, model)  # over what the kill has left
        assert contents(out) == expected
        assert not unfinished.exists()
        assert maintenance.verify(out) == {}
        shutil.rmtree(out)
    assert kill_at > 15
    assert seen > kill_at / 2
    if action.startswith("save"):
        np.testing.assert_array_equal(SAERegressor.load(out).predict(X), regressor.predict(X))


@pytest.mark.parametrize("first", [True, False])
def test_a_file_beside_a_run_is_replaced_whole(tmp_path, first):
    kill_at = 0
    while True:
        kill_at += 1
        folder = tmp_path / f"run{kill_at}"
        kept = made_up_run(folder, members=1)
        if not first:
            beside.write(folder, NAME, b"old")
        with pytest.MonkeyPatch.context() as patch:
            machine = Machine(kill_at, patch)
            with contextlib.suppress(Killed):
                beside.write(folder, NAME, b"new")
        if not machine.dead:
            break
        if first and not (folder / NAME).exists():
            with pytest.raises((StoreDamaged, files.Missing)):
                beside.read(folder, NAME)
        else:
            assert beside.read(folder, NAME) in ([b"new"] if first else [b"old", b"new"])
            assert maintenance.verify(folder) == {} or list(maintenance.verify(folder)) == ["run.json"]
        beside.write(folder, NAME, b"new")
        assert beside.read(folder, NAME) == b"new"
        assert [one.file for one in manifest.read(folder).beside] == [NAME]
        assert maintenance.verify(folder) == {}
        assert same(aw.load(folder, apply), kept)
    assert kill_at > 10


def test_pruning_can_be_killed(tmp_path):
    kill_at = 0
    while True:
        kill_at += 1
        folder = tmp_path / f"run{kill_at}"
        kept = made_up_run(folder)
        beside.write(folder, NAME, b"{}")
        flip(folder / "members-000001-000000.safetensors")
        flip(folder / NAME)
        with pytest.MonkeyPatch.context() as patch:
            machine = Machine(kill_at, patch)
            with contextlib.suppress(Killed):
                maintenance.prune(folder)
        maintenance.prune(folder)
        assert maintenance.verify(folder) == {}
        assert same(aw.load(folder, apply), {place: one for place, one in kept.items() if place[1] != 1})
        assert len(list(folder.glob("*.damaged"))) == 2
        if not machine.dead:
            break
    assert kill_at > 5


def test_what_another_killed_command_left_is_removed(tmp_path):
    made_up_run(tmp_path / "a")
    part = tmp_path / "out.unfinished"
    part.mkdir()
    for name in ("members-000009-000000.safetensors", "state-000009-000000.safetensors.tmp", NAME, "run.backup.json"):
        (part / name).write_bytes(b"left")
    maintenance.thin(tmp_path / "a", tmp_path / "out", 1)
    maintenance.thin(tmp_path / "a", tmp_path / "again", 1)
    assert contents(tmp_path / "out") == contents(tmp_path / "again")


def test_unfinished_folders_are_listed(tmp_path):
    made_up_run(tmp_path / "whole")
    made_up_run(tmp_path / "half.unfinished")
    (tmp_path / "half.unfinished" / "run.json").unlink()
    (tmp_path / "half.unfinished" / "run.backup.json").unlink()
    code, out = call("runs", tmp_path)
    assert code == 0
    assert "half.unfinished" in out
    assert "unfinished; repeat the command that makes it" in out
    assert "6/6" in out


def test_what_stands_in_the_way_of_a_new_folder_is_not_touched(tmp_path, monkeypatch):
    made_up_run(tmp_path / "a")
    part = tmp_path / "out.unfinished"
    part.mkdir()
    (part / "precious.txt").write_text("mine")
    with pytest.raises(InvalidInput, match=r"other files in it, such as 'precious\.txt'"):
        maintenance.thin(tmp_path / "a", tmp_path / "out", 1)
    assert (part / "precious.txt").read_text() == "mine"
    shutil.rmtree(part)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "table.json").write_text("mine")
    part.symlink_to(elsewhere)
    with pytest.raises(InvalidInput, match="which is no folder"):
        maintenance.thin(tmp_path / "a", tmp_path / "out", 1)
    assert (elsewhere / "table.json").read_text() == "mine"
    part.unlink()
    with folders.new(tmp_path / "out"), pytest.raises(InvalidInput, match="another process writes"):
        maintenance.thin(tmp_path / "a", tmp_path / "out", 1)
    shutil.rmtree(tmp_path / "out")

    def refused(*_):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    monkeypatch.setattr(folders.os, "rename", refused)
    with pytest.raises(StoreFailed, match=r"could not rename .*out\.unfinished to .*Invalid cross-device link"):
        maintenance.thin(tmp_path / "a", tmp_path / "out", 1)
    assert not part.exists()
    assert not (tmp_path / "out").exists()
