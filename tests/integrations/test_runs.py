"""Each framework's model is trained, predicts as its framework says, is stored, loaded and gone on with."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from helpers import leaves_equal, small_plan
from integrations import models

pytestmark = pytest.mark.slow

EPS = np.finfo(np.float32).eps


@pytest.fixture(params=models.CASES)
def name(request):
    pytest.importorskip(models.LIBRARIES[request.param], exc_type=ImportError)
    return request.param


def test_every_key_gives_the_framework_s_own_initialisation(name):
    case = models.CASES[name]()
    first, second = (case.network.init(jax.random.key(seed)) for seed in (0, 1))
    assert leaves_equal(first, case.own_params(jax.random.key(0)))
    assert leaves_equal(second, case.own_params(jax.random.key(1)))
    assert jax.tree.structure(first) == jax.tree.structure(case.own_params(jax.random.key(0)))
    for (path, one), (_, other) in zip(tree.named_leaves(first), tree.named_leaves(second), strict=True):
        if one.ndim == 2:
            assert not np.any(one == other), path


def test_parameters_are_dictionaries_with_text_as_keys(name):
    params = models.CASES[name]().network.init(jax.random.key(0))

    def only_dicts(value):
        if type(value) is dict:
            assert all(type(key) is str for key in value)
            return sum(only_dicts(one) for one in value.values())
        assert isinstance(value, jax.Array)
        return 1

    assert only_dicts(params) == 4  # two layers, each of a kernel and a bias
    rule = aw.by_path({"*bias": 2.0, "*/b": 2.0, "*": 0.1})
    scale = aw.Prior(scale=rule).resolve(params).scale
    assert sorted(float(leaf) for leaf in jax.tree.leaves(scale)) == pytest.approx([0.1, 0.1, 2.0, 2.0])


def test_a_run_is_stored_loaded_and_gone_on_with(name, tmp_path):
    """First members by one network, the next ones by another that was made anew, as another process would."""
    key, folder = jax.random.key(3), tmp_path / "run"
    case, again = models.CASES[name](), models.CASES[name]()
    assert again.network.apply is not case.network.apply
    begun = aw.sample(key, models.problem(case), small_plan(2, 1), store=folder, callbacks=[])
    posterior = aw.sample(key, models.problem(again), small_plan(2, 2), store=folder, callbacks=[])
    assert (len(begun), len(posterior)) == (2, 4)
    for chain in (0, 1):
        assert leaves_equal(posterior[chain, 0].params, begun[chain, 0].params)
        assert not leaves_equal(posterior[chain, 1].params, posterior[chain, 0].params)

    x = models.inputs()
    outputs = np.stack([case.own_forward(member.params, x) for member in posterior])
    # Two layers of sums of up to nine products each, whose sizes are below 16 here, in any order.
    assert np.abs(outputs).max() < 16
    tolerance = 2 * 9 * EPS * 16
    prediction = aw.load(folder, apply=case.network.apply).predict(x)
    if isinstance(case.likelihood, aw.Categorical):
        expected = np.asarray(jax.nn.softmax(outputs)).mean(0)  # a softmax does not enlarge errors
        np.testing.assert_allclose(prediction.probabilities, expected, rtol=0, atol=tolerance)
    else:
        np.testing.assert_allclose(prediction.mean, outputs[..., 0].mean(0), rtol=0, atol=tolerance)


def test_another_process_makes_the_same_network():
    """With another seed of Python's hashes, so that no order of a set decides."""
    there = [name for name, library in models.LIBRARIES.items() if _is_there(library)]
    if not there:
        pytest.skip("none of the frameworks is installed")
    code = f"from integrations import models\nfor name in {there}: print(models.network_fingerprint(name))"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent), "PYTHONHASHSEED": "7"}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert result.stdout.split() == [models.network_fingerprint(name) for name in there]
    assert len(set(result.stdout.split())) == len(there)


def _is_there(library):
    try:
        __import__(library)
    except ImportError:
        return False
    return True


def test_initialisations_are_the_same_side_by_side(name):
    """Runners map over keys: what a chain starts from must not depend on its neighbours."""
    init = models.CASES[name]().network.init
    keys = jax.random.split(jax.random.key(0), 3)
    together = jax.jit(jax.vmap(init))(keys)
    for lane in range(3):
        assert leaves_equal(tree.lane(together, lane), jax.jit(init)(keys[lane]))
