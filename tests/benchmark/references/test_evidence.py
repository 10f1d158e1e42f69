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
    good = examine(model.problem, {"prior": chains.vectors}, x)
    moved = chains.vectors.copy()
    moved[0] += 3.0
    bad = examine(model.problem, {"prior": moved}, x)
    assert good.summary["mean"]["r_hat_90"] < 1.1
    assert bad.summary["mean"]["r_hat_median"] > 1.3
    assert bad.floor["w1"] > 5 * good.floor["w1"]  # halves are split by chain
    assert good.values.shape == (24, 1000)
    # The predictive median is the predictive mean here.
    centre = x @ model.posterior_mean
    spread = np.sqrt(np.einsum("ij,jk,ik->i", x, model.posterior_covariance, x) + model.noise**2)
    assert np.max(np.abs(good.values[:, 500] - centre) / spread) < 0.3


def test_chains_of_different_starts_are_pooled_and_compared(model, chains):
    x = model.x.astype(np.float32)
    parts = {"prior": chains.vectors[:2], "trained": chains.vectors[2:]}
    both, whole = examine(model.problem, parts, x), examine(model.problem, {"prior": chains.vectors}, x)
    np.testing.assert_allclose(both.values, whole.values, rtol=1e-6)
    assert both.summary["mean"] == whole.summary["mean"]
    assert "between_starts" not in whole.summary
    (between,) = both.summary["between_starts"]
    each = [examine(model.problem, {"only": draws}, x).values for draws in parts.values()]
    assert between["w1"] == pytest.approx(np.abs(each[0] - each[1]).mean(), rel=1e-6)
    parts["trained"] = parts["trained"] + 1.0
    assert examine(model.problem, parts, x).summary["between_starts"][0]["w1"] > 5 * between["w1"]


def test_seeds_are_pooled_and_resumed(model, chains, tmp_path):
    x = model.x.astype(np.float32)
    plan = aw.Plan(PLAN.method, 4, 200)
    evidence, about = make.make(model.problem, x, {"prior": plan}, [0, 1], tmp_path / "run")
    assert evidence.summary["chains"] == 8
    said = about["chains"]["prior"]
    assert set(said) == {"log_density_by_tenths", "acceptance", "divergent", "step_size"}
    assert len(said["log_density_by_tenths"]) == 10
    least, median, greatest = said["acceptance"]
    assert 0 < least <= median <= greatest <= 1
    stored = aw.load(tmp_path / "run-prior-seed0", model.problem.apply)
    np.testing.assert_array_equal(make.vectors_of(stored, plan), chains.vectors[:, :200])
    rounds = []
    make.make(model.problem, x, {"prior": plan}, [0], tmp_path / "run", lambda name: [rounds.append])
    assert rounds == []  # nothing was left to do
    with pytest.raises(InvalidInput, match="even number"):
        make.make(model.problem, x, {"prior": aw.Plan(PLAN.method, 3, 100)}, [0], tmp_path / "odd")
    assert jax.tree.leaves(stored[0, 0].params)[0].shape == (3,)
