"""Evidence of convergence, and a reference made from chains."""

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.benchmark.references import make
from anchorwalk.benchmark.references.make import examine
from anchorwalk.errors import InvalidInput
from helpers import LinearGaussian

PLAN = aw.Plan(aw.HMC(windows=(20, 40, 100), thin=1, leapfrogs=8, block=20, draws=100, descent=5), 4, 600)


@pytest.fixture(scope="module")
def model():
    return LinearGaussian(mean=0.3)


@pytest.fixture(scope="module")
def chains(model, tmp_path_factory):
    return make.run(0, model.problem, PLAN, tmp_path_factory.mktemp("reference") / "run", [])


def test_evidence_is_good_for_this_and_bad_for_a_chain_that_is_elsewhere(model, chains):
    x = model.x.astype(np.float32)
    good = examine(model.problem, chains.vectors, x, chains.starts)
    moved = chains.vectors.copy()
    moved[0] += 3.0
    bad = examine(model.problem, moved, x)
    assert good.summary["mean"]["r_hat_90"] < 1.1
    assert bad.summary["mean"]["r_hat_median"] > 1.3
    assert bad.floor["w1"] > 5 * good.floor["w1"]  # halves are split by chain
    assert good.values.shape == (24, 1000)
    # The predictive median is the predictive mean here.
    centre = x @ model.posterior_mean
    spread = np.sqrt(np.einsum("ij,jk,ik->i", x, model.posterior_covariance, x) + model.noise**2)
    assert np.max(np.abs(good.values[:, 500] - centre) / spread) < 0.3


def test_seeds_are_pooled_and_resumed(model, chains, tmp_path):
    x = model.x.astype(np.float32)
    plan = aw.Plan(PLAN.method, 4, 200)
    evidence, about = make.make(model.problem, x, plan, [0, 1], tmp_path / "run")
    assert evidence.summary["chains"] == 8
    assert len(about["acceptance"]) == len(about["step_size"]) == 8
    assert len(about["log_density_by_tenths"]) == 10
    stored = aw.load(tmp_path / "run-seed0", model.problem.apply)
    np.testing.assert_array_equal(make.vectors_of(stored, plan), chains.vectors[:, :200])
    rounds = []
    make.make(model.problem, x, plan, [0], tmp_path / "run", lambda seed: [rounds.append])
    assert rounds == []  # nothing was left to do
    with pytest.raises(InvalidInput, match="even number"):
        make.make(model.problem, x, aw.Plan(PLAN.method, 3, 100), [0], tmp_path / "odd")
    assert jax.tree.leaves(stored[0, 0].params)[0].shape == (3,)
