"""Runs on disk: the format, what damage does, who may write, and what cannot be trusted."""

import json
import os
import subprocess
import sys
import warnings
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open

import anchorwalk as aw
import helpers
from anchorwalk import tree
from anchorwalk.errors import DamagedWarning, InvalidInput, OtherNetworkWarning, StoreDamaged
from anchorwalk.run.machine import of_machine
from anchorwalk.run.store import DiskStore, Progress, disk, manifest, serialise, writer
from helpers import (
    begin,
    leaves_equal,
    made_up_round,
    made_up_run,
    small_apply,
    small_init,
    small_plan,
    small_problem,
    stacked_params,
)
from stored import apply, rewritten, same

KEY = jax.random.key(7)
LIKE = {"w": jax.ShapeDtypeStruct((3,), np.float32)}


def plan_of(chains=3, members=4):
    return small_plan(chains, members, walk=aw.GuidedWalk(step_size=0.3))


def run(store, plan=None, **options):
    plan = plan_of() if plan is None else plan
    arguments = {"runner": aw.Local(threads=1, lanes=2), "callbacks": []} | options
    return aw.sample(KEY, small_problem(), plan, store=store, **arguments)


# Loading


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    return folder, run(folder)


def test_a_run_is_loaded_without_its_data(trained):
    folder, posterior = trained
    loaded = aw.load(folder, small_apply)
    assert repr(loaded) == repr(posterior) == "Posterior(12 members in 3 chains)"
    assert leaves_equal(stacked_params(loaded), stacked_params(posterior))
    assert [m.info for m in loaded] == [m.info for m in posterior]
    x = small_problem().data.x
    for one, other in [(loaded, posterior), (loaded.thin(2), posterior.thin(2))]:
        np.testing.assert_array_equal(one.predict(x).mean, other.predict(x).mean)
        np.testing.assert_array_equal(one.predict(x).quantile(0.9), other.predict(x).quantile(0.9))
    assert leaves_equal(loaded[2, 3].params, posterior[2, 3].params)


def test_parameters_made_of_plain_numbers_load_without_a_warning(tmp_path):
    """`jnp.full((), 1.0)` has a weak type, which no file keeps; the network is the same all the same."""
    x = np.linspace(-1, 1, 8, dtype=np.float32)

    def init(key):
        return {"a": jnp.full((), 1.0), "b": jax.random.normal(key, ())}

    def line(params, x):
        return jnp.broadcast_to(params["a"], x.shape) + params["b"] * x

    problem = aw.Problem(init, line, aw.Normal(scale=0.5), aw.Prior(scale=1.0), data=(x, x))
    training = aw.Training(aw.SGD(0.1), epochs=2, batch_size=8)
    aw.sample(KEY, problem, aw.Plan(aw.SAE(training, training), 1, 2), store=tmp_path / "run", callbacks=[])
    assert len(aw.load(tmp_path / "run", line)) == 2


def test_another_process_reads_the_same_bits(trained):
    folder, posterior = trained
    code = (
        "import sys, numpy as np, anchorwalk as aw\n"
        "posterior = aw.load(sys.argv[1], lambda p, x: np.tanh(1))\n"
        "print(float(sum(np.float64(leaf).sum() for m in posterior for leaf in m.params['hidden'].values())))"
    )
    out = subprocess.run([sys.executable, "-W", "ignore", "-c", code, str(folder)], capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    expected = float(sum(np.float64(leaf).sum() for m in posterior for leaf in m.params["hidden"].values()))
    assert float(out.stdout) == expected


def test_a_wrong_network_is_noticed(trained):
    folder, _ = trained
    with pytest.raises(InvalidInput, match=r"load\(apply=\): got a network that fails on the run's parameters and inp"):
        aw.load(folder, lambda params, x: x @ params["missing"])
    with pytest.warns(OtherNetworkWarning, match="not the one that the run was made with"):
        aw.load(folder, lambda params, x: 2 * small_apply(params, x))
    with pytest.raises(InvalidInput, match=r"load\(init=\): got parameters .*expected those of the run"):
        aw.load(folder, small_apply, init=lambda key: {"w": jnp.zeros(3)})
    with pytest.raises(InvalidInput, match=r"load\(likelihood=\): got Normal\(scale=9.0\), expected the run's own"):
        aw.load(folder, small_apply, likelihood=aw.Normal(scale=9.0))
    assert len(aw.load(folder, small_apply, init=small_init, likelihood=aw.Normal(scale=0.3))) == 12


def test_what_is_no_run_is_refused(tmp_path):
    with pytest.raises(InvalidInput, match=r"without run.json, expected the folder of a run"):
        aw.load(tmp_path, apply)
    with pytest.raises(InvalidInput, match="expected the folder of a run"):
        aw.load(tmp_path / "nowhere", apply)
    made_up_run(tmp_path / "run")
    with pytest.raises(InvalidInput, match=r"load\(apply=\): got None, expected the network's function"):
        aw.load(tmp_path / "run", None)


class Layer(NamedTuple):
    kernel: object
    bias: object


def test_trees_that_json_cannot_carry_want_init(tmp_path):
    like = Layer(jax.ShapeDtypeStruct((2, 3), np.float32), jax.ShapeDtypeStruct((3,), np.float32))
    kept = made_up_run(tmp_path / "run", like)
    with pytest.raises(InvalidInput, match=r"load\(init=\): got None, expected init=, the network's own"):
        aw.load(tmp_path / "run", lambda p, x: x)
    loaded = aw.load(tmp_path / "run", lambda p, x: x, init=lambda key: Layer(jnp.zeros((2, 3)), jnp.zeros(3)))
    assert same(loaded, kept)
    assert isinstance(loaded[0, 0].params, Layer)


def test_a_likelihood_of_ones_own_is_asked_for(tmp_path):
    @tree.node()
    @dataclass(frozen=True)
    class Mine(aw.Normal):
        pass

    rng = np.random.default_rng(0)
    data = (rng.normal(size=(20, 2)), rng.normal(size=20))
    problem = aw.Problem(small_init, small_apply, Mine(scale=0.3), aw.Prior(scale=0.5), data=data)
    aw.sample(KEY, problem, small_plan(chains=1, members=1), store=tmp_path / "run", callbacks=[])
    with pytest.raises(InvalidInput, match=r"load\(likelihood=\): got None, expected the run's own likelihood, Mine"):
        aw.load(tmp_path / "run", small_apply)
    assert len(aw.load(tmp_path / "run", small_apply, likelihood=Mine(scale=0.3))) == 1
    message = r"load\(likelihood=\): got \{.*0\.9.*\}, expected the run's own, \{.*0\.3.*\}\. Pass the one that"
    with pytest.raises(InvalidInput, match=message):
        aw.load(tmp_path / "run", small_apply, likelihood=Mine(scale=0.9))
    rewritten(tmp_path / "run", lambda content: content["about"]["likelihood"].pop("own"))
    assert len(aw.load(tmp_path / "run", small_apply, likelihood=Mine(scale=0.9))) == 1  # nothing to compare it with


def by_name(likelihood):
    return {"name": type(likelihood).__name__, "settings": None}


def test_an_own_likelihood_is_stored_by_its_own_json_or_its_name():
    @tree.node()
    @dataclass(frozen=True)
    class Weighted(aw.Normal):
        weights: object

    class Normal(aw.Normal):  # another class of a name that the package has
        pass

    class Plain:
        pass

    weighted = Weighted(0.3, np.array([0.5, 2.0]))
    encoded = json.loads(json.dumps(serialise.likelihood_to_json(weighted)))
    assert encoded == by_name(weighted) | {"own": weighted.to_json()}
    assert encoded["own"]["settings"]["weights"] == {"array": [0.5, 2.0], "dtype": "float64"}
    assert serialise.likelihood_from_json(encoded) is None
    assert serialise.likelihood_from_json(serialise.likelihood_to_json(Normal(0.3))) is None
    assert serialise.likelihood_to_json(Plain()) == by_name(Plain())
    assert serialise.likelihood_to_json(aw.Normal(0.3)) == {"name": "Normal", "settings": {"scale": 0.3}}


def test_leaves_whose_paths_read_alike_are_kept_apart(tmp_path):
    like = {"a/b": jax.ShapeDtypeStruct((2,), np.float32), "a": {"b": jax.ShapeDtypeStruct((2,), np.float32)}}
    like["a/b#2"] = jax.ShapeDtypeStruct((), np.float32)
    kept = made_up_run(tmp_path / "run", like)
    assert same(aw.load(tmp_path / "run", lambda p, x: x), kept)


# The format


def test_the_format_is_readable_with_safetensors_and_json_alone(tmp_path):
    kept = made_up_run(tmp_path / "run", blocks=((0, 1), (2,)), members=70)
    content = json.loads((tmp_path / "run" / "run.json").read_text())
    assert content["format"] == 3
    (leaf,) = content["about"]["leaves"]
    found = {}
    for entry in content["members"]:
        with safe_open(tmp_path / "run" / entry["file"], framework="numpy") as file:
            values = file.get_tensor(leaf["name"])
            assert values.shape == (entry["count"], len(entry["chains"]), *leaf["shape"])
        for row in range(entry["count"]):
            for lane, chain in enumerate(entry["chains"]):
                found[chain, entry["first"] + row * entry["step"]] = values[row, lane]
    assert sorted(found) == sorted(kept)
    assert all(np.array_equal(found[place], kept[place].params["w"]) for place in kept)
    # 70 rounds of two blocks: the first one alone, 64 as one file, and the five that came after.
    assert [entry["count"] for entry in content["members"]].count(64) == 2
    assert len(content["members"]) == 2 * (1 + 1 + 5)
    assert content["about"]["tree"] == {"dict": {"w": 0}}
    assert {"version of jax", "threads", "device"} <= set(content["environments"][0])


def test_rounds_become_one_file_by_size_too(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "LARGE", 4000)
    like = {"w": jax.ShapeDtypeStruct((100,), np.float32)}
    kept = made_up_run(tmp_path / "run", like, members=12)
    stored = manifest.read(tmp_path / "run")
    # A file takes a header of under 1,000 bytes and two members of 400: three or four of them reach 4,000.
    assert max(part.count for part in stored.members) in (3, 4)
    assert same(aw.load(tmp_path / "run", apply), kept)


def test_bfloat16_takes_half_the_room_and_resumes_exactly(tmp_path):
    short, whole = plan_of(chains=2, members=2), plan_of(chains=2, members=4)
    run(DiskStore(tmp_path / "half", "bfloat16"), short)
    half = run(tmp_path / "half", whole)  # the stored dtype counts
    exact = run(None, whole)
    for a, b in zip(half, exact, strict=True):
        for one, other in zip(jax.tree.leaves(a.params), jax.tree.leaves(b.params), strict=True):
            assert one.dtype == np.float32
            np.testing.assert_array_equal(one, np.asarray(jnp.asarray(other).astype(jnp.bfloat16), np.float32))
    loaded = aw.load(tmp_path / "half", small_apply)
    assert leaves_equal(stacked_params(loaded), stacked_params(half))
    large = {"w": jax.ShapeDtypeStruct((10_000,), np.float32)}
    for name, options in (("full", {}), ("bf16", {"dtype": "bfloat16"})):
        made_up_run(tmp_path / name, large, **options)
    sizes = [sum(p.stat().st_size for p in (tmp_path / n).glob("members*")) for n in ("full", "bf16")]
    assert 0.49 < sizes[1] / sizes[0] < 0.52
    with pytest.raises(InvalidInput, match="for a run that keeps members as they are"):
        made_up_run(tmp_path / "full", large, members=4, dtype="bfloat16")
    with pytest.raises(InvalidInput, match=r"DiskStore\(dtype=\): got 'int8'"):
        DiskStore(tmp_path / "other", "int8")


# Going on


def test_chains_of_one_plan_run_in_different_places_and_are_merged(tmp_path):
    from anchorwalk.run.store import maintenance

    whole = run(None)
    run(tmp_path / "a", chains=[0, 2])
    run(tmp_path / "b", chains=[1])
    assert maintenance.merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both") == 12
    loaded = aw.load(tmp_path / "both", small_apply)
    assert leaves_equal(stacked_params(loaded), stacked_params(whole))
    assert loaded.complete
    rounds = []
    longer = plan_of(chains=3, members=5)
    extended = run(tmp_path / "both", longer, callbacks=[rounds.append])
    assert sum(len(info.members) for info in rounds) == 3
    assert leaves_equal(stacked_params(extended), stacked_params(run(None, longer)))
    with pytest.raises(InvalidInput, match=r"chains: got \[0, 3\] for a plan of 3 chains"):
        run(None, chains=[3, 0])


def test_another_environment_is_named_and_resumed_in_only_if_asked(tmp_path, monkeypatch):
    made_up_run(tmp_path / "run", members=2)
    other = of_machine(1) | {"threads": 64, "version of jax": "9.9"}
    monkeypatch.setattr(helpers, "of_machine", lambda threads: other)
    with pytest.raises(InvalidInput, match=r"version of jax was '.*', is '9.9'; threads was \d+, is 64.*other_machine"):
        made_up_run(tmp_path / "run", members=3)
    made_up_run(tmp_path / "run", members=3, other_machine=True)
    stretches = manifest.read(tmp_path / "run").environments
    assert [stretch["after_members"] for stretch in stretches] == [0, 4]
    assert stretches[1]["threads"] == 64


def test_a_second_writer_is_refused_by_name_and_a_reader_is_not(tmp_path):
    folder = tmp_path / "run"
    kept = made_up_run(folder)
    holder = DiskStore(folder)
    about = manifest.read(folder).about
    begin(holder, LIKE, about)
    try:
        with pytest.raises(InvalidInput, match=rf'another process writes: {{"process": {os.getpid()}, "host": '):
            made_up_run(folder, members=4)
        assert same(aw.load(folder, apply), kept)
    finally:
        holder.end()
    made_up_run(folder, members=4)


def test_a_reader_goes_on_where_a_writer_made_one_file_of_many(tmp_path, monkeypatch):
    monkeypatch.setattr(writer, "MERGED", 4)
    folder = tmp_path / "run"
    made_up_run(folder, members=4)
    reader = aw.load(folder, apply, verify=False)
    kept = made_up_run(folder, members=9)  # begins anew with the same members, and merges them
    assert same(reader, {place: member for place, member in kept.items() if place[1] < 4})


# Damage


def damaged_run(tmp_path, name="run"):
    folder = tmp_path / name
    kept = made_up_run(folder, blocks=((0,), (1,)), members=3)
    return folder, kept, folder / "members-000001-000000.safetensors"


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("damage", ["cut", "flip", "missing", "empty", "longer", "header"])
def test_a_damaged_file_is_named_and_the_rest_loads(tmp_path, damage, verify):
    folder, kept, path = damaged_run(tmp_path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    start = 8 + length + json.loads(content[8 : 8 + length])["params/w"]["data_offsets"][0]
    changed = {
        "cut": content[:-5],
        "flip": content[:start] + bytes([content[start] ^ 4]) + content[start + 1 :],
        "empty": b"",
        "longer": content + b"more",
        "header": b"\xff" * 16 + content[16:],
    }
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(changed[damage])
    intact = {place: member for place, member in kept.items() if place != (0, 1)}
    if damage == "flip" and not verify:  # seen when the member is read
        loaded = aw.load(folder, apply, verify=False)
        assert loaded[0, 2].info.index == 2
        with pytest.raises(StoreDamaged, match=rf"{path} is damaged: its checksum does not fit"):
            loaded[0, 1]
        return
    with pytest.warns(DamagedWarning, match=rf"1 members of {folder} are left out.*{path.name}"):
        loaded = aw.load(folder, apply, verify=verify)
    assert same(loaded, intact)
    assert not loaded.complete
    if damage != "flip":
        with pytest.raises(StoreDamaged, match=rf"{path} of the run is damaged.*anchorwalk prune"):
            made_up_run(folder, blocks=((0,), (1,)), members=4)


def test_a_damaged_manifest_is_read_from_its_copy(tmp_path):
    folder, kept, _ = damaged_run(tmp_path)
    path = folder / "run.json"
    content = path.read_text()
    for broken in (content[:-100], content.replace('"scale": 0.5', '"scale": 0.6'), "[]", "", "{" * 10_000):
        path.write_text(broken)
        with pytest.warns(DamagedWarning, match=r"run.json is damaged.*run.backup.json is whole"):
            assert same(aw.load(folder, apply), kept)
    (folder / "run.backup.json").write_text("{}")
    with pytest.raises(StoreDamaged, match=r"run.json is damaged: .*run.backup.json is damaged: .*from a copy"):
        aw.load(folder, apply)
    path.unlink()
    (folder / "run.backup.json").write_text(content)
    with pytest.warns(DamagedWarning, match=r"run.json is missing. Its copy run.backup.json is whole"):
        assert same(aw.load(folder, apply), kept)


@pytest.mark.parametrize(("number", "words"), [(99, "Use a newer"), (1, "Use the version of"), ("x", "wrote")])
def test_other_versions_are_refused(tmp_path, number, words):
    folder, kept, path = damaged_run(tmp_path)
    rewritten(folder, lambda content: content.update(format=number))
    for action in (lambda: aw.load(folder, apply), lambda: made_up_run(folder)):
        with pytest.raises(InvalidInput, match=rf"a run of format {number} in .*expected format 3. .*{words}"):
            action()
    assert path.exists()
    # With a manifest from the future and a copy that is whole, the copy counts: the future writes both.
    content = json.loads((folder / "run.json").read_text())
    good = json.loads((folder / "run.json").read_text())
    good["format"] = 3
    del good["sha256"]
    good["sha256"] = manifest._digest(good)
    (folder / "run.backup.json").write_text(json.dumps(good))
    (folder / "run.json").write_text(json.dumps(content | {"sha256": "other rules"}))
    with pytest.warns(DamagedWarning, match=f"format {number}"):
        assert same(aw.load(folder, apply), kept)


def test_damaged_states_are_named_and_members_still_load(tmp_path):
    folder, kept, _ = damaged_run(tmp_path)
    path = folder / "state-000002-000000.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b"\x00")
    store = DiskStore(folder)
    begin(store, LIKE, manifest.read(folder).about)
    with pytest.raises(StoreDamaged, match=rf"chain states in {path} are damaged"):
        store.state(0)
    assert leaves_equal(store.state(1).params, kept[1, 2].params)
    store.end()
    assert same(aw.load(folder, apply), kept)


# What cannot be trusted


@pytest.mark.parametrize(
    "name",
    [
        "../secret.safetensors",
        "/etc/passwd",
        "members-000001-000000.safetensors/../../secret",
        "members-000001-000000.safetensors\n",
        "lock",
        "run.json",
        "state-000001-000000.safetensors",
        7,
    ],
)
def test_names_that_lead_elsewhere_are_refused(tmp_path, name):
    folder, _, _ = damaged_run(tmp_path)
    (tmp_path / "secret.safetensors").write_bytes((folder / "members-000001-000000.safetensors").read_bytes())
    rewritten(folder, lambda content: content["members"][2].update(file=name))
    with pytest.raises(StoreDamaged, match="cannot be read"):
        aw.load(folder, apply)


@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_not_opened(tmp_path, what):
    folder, kept, path = damaged_run(tmp_path)
    outside = tmp_path / "outside"
    outside.write_bytes(path.read_bytes())
    path.unlink()
    {"link": lambda: path.symlink_to(outside), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[what]()
    with pytest.warns(DamagedWarning, match="no plain file"):
        loaded = aw.load(folder, apply)
    assert same(loaded, {place: member for place, member in kept.items() if place != (0, 1)})


def test_a_linked_manifest_is_not_read(tmp_path):
    folder, _, _ = damaged_run(tmp_path)
    for name in ("run.json", "run.backup.json"):
        (folder / name).rename(tmp_path / name)
        (folder / name).symlink_to(tmp_path / name)
    with pytest.raises(StoreDamaged, match="no plain file"):
        aw.load(folder, apply)


def test_nothing_outside_is_written_through_a_link(tmp_path):
    folder, _, _ = damaged_run(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for name in ("run.json.tmp", "run.backup.json.tmp", "members-000003-000000.safetensors.tmp"):
        (folder / name).symlink_to(victim)
    (folder / "lock").unlink()
    made_up_run(folder, blocks=((0,), (1,)), members=5)
    assert victim.read_text() == "mine"
    (folder / "lock").unlink()
    (folder / "lock").symlink_to(victim)
    with pytest.raises(InvalidInput, match="expected a folder to write to"):
        made_up_run(folder, blocks=((0,), (1,)), members=6)
    assert victim.read_text() == "mine"


ABSURD = {
    "a shape": lambda c: c["about"]["leaves"][0].update(shape=[2**62]),
    "a negative shape": lambda c: c["about"]["leaves"][0].update(shape=[-3]),
    "a dtype": lambda c: c["about"]["leaves"][0].update(dtype="object"),
    "a count": lambda c: c["members"][0].update(count=2**40),
    "many members": lambda c: c["members"][0].update(count=10**9, bytes=10**12),
    "a chain": lambda c: c["members"][0].update(chains=[2**40]),
    "a size": lambda c: c["members"][0].update(bytes=-1),
    "no tree": lambda c: c["about"].update(tree={"dict": {"w": 5}}),
    "a deep tree": lambda c: c["about"].update(tree=nested(200)),
    "a tree of code": lambda c: c["about"].update(tree={"__import__": ["os"]}),
    "a likelihood": lambda c: c["about"].update(likelihood={"name": "system", "settings": {"command": "ls"}}),
    "no plan": lambda c: c["about"].pop("plan"),
    "entries": lambda c: c.update(members={"a": 1}),
    "a member twice": lambda c: c["members"].insert(0, c["members"][0] | {"file": "members-000009-000000.safetensors"}),
    "a field": lambda c: c["members"][0].update(extra=1),
}


def nested(depth):
    form = 0
    for _ in range(depth):
        form = {"list": [form]}
    return form


@pytest.mark.parametrize("what", ABSURD)
def test_absurd_manifests_are_refused_or_left_out(tmp_path, what):
    folder, kept, _ = damaged_run(tmp_path)
    rewritten(folder, ABSURD[what])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DamagedWarning)
            loaded = aw.load(folder, apply)
    except (StoreDamaged, InvalidInput):
        return
    there = {(info.chain, info.index) for info in loaded.infos}
    assert same(loaded, {place: member for place, member in kept.items() if place in there})


def test_a_shard_that_claims_too_much_is_left_out(tmp_path):
    folder, _, path = damaged_run(tmp_path)
    content = path.read_bytes()
    length = int.from_bytes(content[:8], "little")
    for field, value in (("shape", [2**40, 2**40]), ("data_offsets", [0, 2**50]), ("dtype", "F4")):
        header = json.loads(content[8 : 8 + length])
        header["params/w"][field] = value
        encoded = json.dumps(header).encode()
        path.write_bytes(len(encoded).to_bytes(8, "little") + encoded + content[8 + length :])
        size = path.stat().st_size
        rewritten(folder, lambda c, s=size: [e.update(bytes=s) for e in c["members"] if e["file"] == path.name])
        with pytest.warns(DamagedWarning, match=path.name):
            loaded = aw.load(folder, apply, verify=False)
        assert len(loaded) == 5


def test_loading_runs_no_code(tmp_path):
    """Nothing in the store's readers can: no pickle, no eval, no import by name."""
    sources = Path(disk.__file__).parent.glob("*.py")
    for source in [*sources, Path(aw.__file__).parent / "posterior" / "load.py"]:
        text = source.read_text()
        for word in ("pickle", "eval(", "exec(", "__import__", "import_module", "allow_pickle"):
            assert word not in text.replace("jax.eval_shape(", ""), (source, word)


def test_odd_mappings_are_trees_that_json_cannot_carry(tmp_path):
    like = OrderedDict(b=jax.ShapeDtypeStruct((2,), np.float32), a=jax.ShapeDtypeStruct((3,), np.float32))
    kept = made_up_run(tmp_path / "run", like)
    loaded = aw.load(tmp_path / "run", lambda p, x: x, init=lambda key: OrderedDict(b=jnp.zeros(2), a=jnp.zeros(3)))
    assert same(loaded, kept)
    assert list(loaded[0, 0].params) == ["b", "a"]


def test_rounds_of_other_blocks_keep_their_states(tmp_path):
    folder = tmp_path / "run"
    made_up_run(folder, blocks=((0, 1, 2),), members=2)
    store = DiskStore(folder)
    begin(store, LIKE, manifest.read(folder).about)
    for block in ((0, 1), (2,)):
        store.commit(made_up_round(LIKE, block, 2))
        files = {part.file for part in store.manifest.states}
        assert ("state-000001-000000.safetensors" in files) == (block == (0, 1))  # chain 2 still needs it
    assert store.progress() == {chain: Progress(calls=3, members=3, attempt=0) for chain in range(3)}
    store.end()


def test_a_longer_first_trace_does_not_keep_later_members_apart(tmp_path, monkeypatch):
    """A sequential ensemble's first training is a call of the same kind as later ones, and has more losses."""
    monkeypatch.setattr(writer, "MERGED", 3)
    like = {"w": jax.ShapeDtypeStruct((3,), np.float32)}
    store = DiskStore(tmp_path)
    begin(store, like)
    for index in range(8):
        store.commit(made_up_round(like, (0,), index)._replace(kind="train"))
    store.end()
    assert [part.count for part in manifest.read(tmp_path).members] == [1, 3, 3, 1]
