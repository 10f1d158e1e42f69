"""Any tree comes back as it was."""

import json
import shutil

import jax
import ml_dtypes
import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anchorwalk as aw
from anchorwalk.run.store import serialise
from helpers import made_up_run

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
