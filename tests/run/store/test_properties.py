"""Any tree comes back as it was; no mutation of a run is answered wrongly."""

import json
import random
import shutil
import warnings

import jax
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anchorwalk as aw
from anchorwalk.errors import AnchorwalkError
from anchorwalk.run.store import manifest, serialise
from helpers import leaves_equal, made_up_run

DTYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
arrays = st.builds(
    lambda shape, dtype: jax.ShapeDtypeStruct(tuple(shape), dtype),
    st.lists(st.integers(0, 4), max_size=3),
    st.sampled_from(DTYPES),
)
trees = st.recursive(
    arrays,
    lambda inside: st.one_of(
        st.lists(inside, min_size=1, max_size=3),
        st.lists(inside, min_size=1, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=8), inside, min_size=1, max_size=3),
        st.tuples(inside, st.none()),
    ),
    max_leaves=6,
)


def identity(params, x):
    return x


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(like=trees, stored_as=st.sampled_from([None, "bfloat16"]))
def test_any_tree_comes_back(like, stored_as, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run") / "run"
    kept = made_up_run(folder, like, dtype=stored_as)
    loaded = aw.load(folder, identity)
    assert len(loaded) == len(kept)
    for member in loaded:
        original = kept[member.info.chain, member.info.index].params
        assert jax.tree.structure(member.params) == jax.tree.structure(original)
        for one, other in zip(jax.tree.leaves(member.params), jax.tree.leaves(original), strict=True):
            expected = other if stored_as is None else other.astype(ml_dtypes.bfloat16).astype(other.dtype)
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one, expected)
    shutil.rmtree(folder)


@given(like=trees)
@settings(max_examples=100, deadline=None)
def test_structures_survive_json(like):
    leaves, definition = jax.tree.flatten(like)
    form = json.loads(json.dumps(serialise.tree_to_json(like)))
    assert jax.tree.structure(serialise.tree_from_json(form, leaves)) == definition
    assert len({leaf["name"] for leaf in serialise.leaves_to_json(like)}) == len(leaves)


def mutated(content, rng):
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


ODDITIES = [None, True, -1, 0, 1, 2, 2**31, 2**63, 10**30, 0.5, "", "..", "/", "x" * 1000, [], {}, [0], [[]], {"a": 0}]


def mutated_json(value, rng):
    """A manifest with one of its values changed to something else, with a checksum that fits."""
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
    else:
        node[key] = rng.choice(ODDITIES)
    value.pop("sha256", None)
    value["sha256"] = manifest._digest(value)
    return json.dumps(value).encode()


def check_mutations(tmp_path, count, seed):
    original = tmp_path / "original"
    kept = made_up_run(
        original, {"w": jax.ShapeDtypeStruct((3,), np.float32), "b": [jax.ShapeDtypeStruct((), np.float32)]}
    )
    contents = {path.name: path.read_bytes() for path in original.iterdir() if path.name != "lock"}
    names, rng, refused = sorted(contents), random.Random(seed), 0
    folder = tmp_path / "mutated"
    shutil.copytree(original, folder)
    for _ in range(count):
        name = rng.choice(names)
        if name.startswith("run") and rng.random() < 0.7:  # by one who knows the format, in both copies
            content = mutated_json(json.loads(contents[name]), rng)
            changed = {"run.json": content, "run.backup.json": content}
            trusted = False
        else:
            changed = {name: mutated(contents[name], rng)}
            trusted = True
        for changed_name, content in changed.items():
            (folder / changed_name).write_bytes(content)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                loaded = aw.load(folder, identity, verify=rng.random() < 0.7)
                members = list(loaded)
        except AnchorwalkError:
            refused += 1
        else:
            for member in members:
                expected = kept[member.info.chain, member.info.index]
                equal = leaves_equal(member.params, expected.params)
                assert equal or not trusted, (name, changed)  # numbers are right, whatever was changed by chance
                if not trusted:  # a forger may rename what is there; the numbers stay those of the run
                    assert jax.tree.reduce(lambda n, leaf: n + leaf.size, member.params, 0) <= 4
        for changed_name in changed:
            (folder / changed_name).write_bytes(contents[changed_name])
    return refused


def test_a_thousand_mutations(tmp_path):
    assert check_mutations(tmp_path, 1_000, seed=1) > 100


@pytest.mark.slow
def test_ten_thousand_mutations(tmp_path):
    assert check_mutations(tmp_path, 10_000, seed=2) > 1_000
