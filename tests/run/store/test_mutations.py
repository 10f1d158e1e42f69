"""No mutation of a folder is answered wrongly or with a raw exception: manifests, shards, estimators and tables.

Half of the mutations are damage: whatever is then predicted is what was predicted before. The other half are made by
one who knows the format and computes all checksums again: any answer will do, but no exception that is not ours.
"""

import contextlib
import hashlib
import json
import os
import random
import shutil
import warnings

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anchorwalk as aw
from anchorwalk.app import tables
from anchorwalk.app.cli.app import app
from anchorwalk.app.report import run as report
from anchorwalk.errors import AnchorwalkError, DamagedWarning, InvalidInput
from anchorwalk.run.store import DiskStore, Like, maintenance, manifest
from helpers import leaves_equal

COUNT = int(os.environ.get("ANCHORWALK_MUTATIONS", "10000"))
ODDITIES = [None, True, -1, 0, 1, 2, 7, 2**31, 2**63, 10**30, 0.5, -1e308, "", "..", "/", "-" * 100_000, "nan"]
ODDITIES += [[], {}, [0], [[]], {"a": 0}, [None], {"name": "SAE"}, {"array": [1], "dtype": "float32"}, "SAEClassifier"]
NUMBERS = [float("nan"), float("inf"), -float("inf"), -1.0, 0.0, 1e300, 1e-300]
MANIFESTS = ("run.json", "run.backup.json")


def damaged(content, rng):
    """Bytes with a small change: a bit, a byte, a cut, a repetition, a swap, noise."""
    content, kind = bytearray(content), rng.randrange(7)
    place, other = (rng.randrange(len(content)) for _ in range(2))
    low, high = sorted((place, other))
    if kind == 0:
        content[place] ^= 1 << rng.randrange(8)
    elif kind == 1:
        content[place] = rng.randrange(256)
    elif kind == 2:
        del content[place:]
    elif kind == 3:
        del content[low : min(high, low + 20)]
    elif kind == 4:
        content[place:place] = content[low : min(high, low + 50)]
    elif kind == 5:
        content[place], content[other] = content[other], content[place]
    else:
        content[place : place + 8] = rng.randbytes(8)
    return bytes(content)


def other_json(content, rng):
    """JSON with one of its values changed to something else, or left out."""
    value = json.loads(content)
    places = []

    def walk(node):
        items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
        for key, inside in items:
            places.append((node, key))
            walk(inside)

    walk(value)
    node, key = rng.choice(places)
    if rng.random() < 0.15:
        del node[key]
    elif rng.random() < 0.2:
        node[key] = rng.choice(places)[0]  # something of its own from elsewhere; copied, as it may hold this place
        node[key] = json.loads(json.dumps(node[key])) if not _holds(node[key], node) else None
    else:
        node[key] = rng.choice(ODDITIES)
    return json.dumps(value).encode()


def _holds(value, node):
    if value is node:
        return True
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(_holds(one, node) for one in inside)


def other_shard(content, rng):
    """A file of tensors with another header, other numbers, or other bytes."""
    length = int.from_bytes(content[:8], "little")
    header, tensors = content[8 : 8 + length], bytearray(content[8 + length :])
    kind = rng.randrange(3)
    if kind == 0:
        header = other_json(header, rng)
    elif kind == 1:
        entry = rng.choice(list(json.loads(header).values()))
        start, end = entry["data_offsets"]
        form = {"F32": "<f4", "F64": "<f8"}.get(entry["dtype"])
        if form is None:
            tensors[start:end] = rng.randbytes(end - start)
        else:
            with np.errstate(over="ignore"):
                each = np.array(rng.choice(NUMBERS), form).tobytes()
            tensors[start:end] = each * ((end - start) // len(each))
    else:
        return damaged(content, rng)
    return len(header).to_bytes(8, "little") + header + bytes(tensors)


def forged(contents, rng):
    """All files with a change in one, and with the checksums that fit."""
    changed = dict(contents)
    name = rng.choice([*(name for name in sorted(contents) if name != "run.backup.json"), "run.json", "run.json"])
    if name == "run.json":
        about = json.loads(other_json(contents[name], rng))
    else:
        changed[name] = (other_json if name.endswith(".json") else other_shard)(contents[name], rng)
        about = json.loads(contents["run.json"])
        digest = hashlib.sha256(changed[name]).hexdigest()
        for entry in [*about["members"], *about["states"], *about["beside"]]:
            if entry["file"] == name:
                entry.update(bytes=len(changed[name]), sha256=digest)
    about.pop("sha256", None)
    about["sha256"] = manifest._digest(about)
    return changed | dict.fromkeys(MANIFESTS, json.dumps(about).encode())


class Folder:
    """A fitted table in a folder, what it predicts, and everything that can be done with it."""

    def __init__(self, tmp_path, task):
        rng = np.random.default_rng(0)
        self.table = pd.DataFrame({"a": rng.normal(size=20), "b": rng.choice(["x", "y"], 20)})
        self.table["money"] = [f"{one:.2f} €" for one in rng.uniform(1, 99, 20)]
        self.table["day"] = [f"{1 + number}.03.2024" for number in rng.permutation(20)]
        self.table["y"] = self.table["a"] if task == "regression" else np.where(self.table["a"] > 0, "yes", "no")
        settings = tables.FitSettings(target="y", budget=8, chains=2, hidden=(3,), task=task)
        self.folder, self.out, self.path = tmp_path / "run", tmp_path / "out", tmp_path
        model = tables.fit(self.table, settings, self.folder)
        self.kind = type(model.estimator)
        self.network = model.estimator._network().apply
        self.rows = model.estimator._inputs(model.estimator._features(model._columns(self.table)))
        self.expected = model.predict(self.table)[0]
        self.members = {(one.info.chain, one.info.index): one for one in model.estimator.posterior_}
        self.contents = {path.name: path.read_bytes() for path in self.folder.iterdir() if path.name != "lock"}
        manifest = model.estimator.posterior_._store.manifest
        self.header, self.about = manifest.header, manifest.about
        self.like = model.estimator.posterior_._store._like
        self.environment = manifest.environments[-1]

    def put(self, contents):
        for name, content in contents.items():
            if contents[name] != self.contents.get(name) or (self.folder / name).read_bytes() != content:
                (self.folder / name).write_bytes(content)

    def restore(self):
        for path in self.folder.iterdir():
            if path.name not in self.contents:
                path.unlink()
        for name, content in self.contents.items():
            (self.folder / name).write_bytes(content)
        for path in (self.out, self.path / "saved"):
            shutil.rmtree(path, ignore_errors=True)

    def predicted(self):
        return tables.load(self.folder).predict(self.table)[0]

    def read(self):
        loaded = aw.load(self.folder, self.network)
        members = {(one.info.chain, one.info.index): one for one in loaded}
        loaded.diagnose(self.rows)
        report.read(loaded)
        return members

    def resume(self):
        store = DiskStore(self.folder)
        try:
            store.begin(self.header, Like(*self.like), self.about, self.environment)
            for chain in store.progress():
                store.state(chain)
        finally:
            store.end()

    def listed(self):
        """Every command that looks; whether `verify` has found something."""
        codes = {}
        for command, path in (("runs", self.path), ("verify", self.folder), ("prune", self.folder)):
            outcome = CliRunner().invoke(app, [command, str(path)])
            if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
                raise outcome.exception
            codes[command] = outcome.exit_code
        assert codes["runs"] == 0
        return codes["verify"] != 0

    def copied(self):
        maintenance.thin(self.folder, self.out, 2)
        with contextlib.suppress(InvalidInput):  # each chain is there twice; all else is looked at before
            maintenance.merge([self.folder, self.folder], self.path / "merged")

    def estimated(self):
        self.kind.load(self.folder).save(self.path / "saved")

    def actions(self):
        return [self.predicted, self.read, self.listed, self.copied, self.estimated, self.resume]


def check(folder, contents, trusted):
    """Do everything with a mutated folder; how often that was refused or warned of."""
    refused = 0
    folder.restore()
    folder.put(contents)
    for action in folder.actions():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                found = action()
            except (AnchorwalkError, OSError):
                refused += 1
                continue
        told = any(issubclass(one.category, DamagedWarning) for one in caught)
        refused += told or found is True
        if action == folder.predicted and not trusted and not told:
            pd.testing.assert_frame_equal(found, folder.expected, check_exact=True)
        if action == folder.read and not trusted:
            assert told or found.keys() == folder.members.keys()
            assert all(leaves_equal(one.params, folder.members[place].params) for place, one in found.items())
    return refused


def check_mutations(folder, count, seed):
    seen = {True: 0, False: 0}
    for number in range(count):
        rng, trusted = random.Random(f"{seed} {number}"), bool(number % 2)
        if trusted:
            contents = forged(folder.contents, rng)
        else:
            name = rng.choice(sorted(folder.contents))
            contents = folder.contents | {name: damaged(folder.contents[name], rng)}
        try:
            seen[trusted] += check(folder, contents, trusted) > 0
        except Exception as error:
            changed = [name for name in contents if contents[name] != folder.contents[name]]
            raise AssertionError(f"mutation {number} of seed {seed}, in {changed}: {error!r}") from error
    # Damage is seen wherever it changes a byte; of the forged ones many are whole in their way.
    assert seen[False] > 0.9 * count / 2
    assert 0.2 * count / 2 < seen[True] < count / 2


@pytest.fixture(scope="module", params=["regression", "classification"])
def folder(request, tmp_path_factory):
    return Folder(tmp_path_factory.mktemp("table"), request.param)


def test_mutations(folder):
    check_mutations(folder, 30, seed=1)


@pytest.mark.slow
def test_ten_thousand_mutations(folder):
    check_mutations(folder, COUNT // 2, seed=2)
