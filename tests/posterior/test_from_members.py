"""Posteriors of draws that come from elsewhere."""

import warnings
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app import report
from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.metrics import convergence

RNG = np.random.default_rng(3)
X = np.linspace(-1, 1, 9).astype(np.float32)
NORMAL = aw.Normal(scale=0.5)


def line(params, x):
    return params["w"] * x + params["b"]


def draws(n, seed=0):
    """Parameters of lines, as another library may give them: arrays of JAX and of NumPy."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(n, 2)).astype(np.float32)
    return [{"w": jnp.asarray(w), "b": np.asarray(b)} for w, b in values]


def posterior_of(members, apply=line, likelihood=NORMAL):
    return aw.Posterior.from_members(apply=apply, likelihood=likelihood, members=members)


def places(posterior):
    return [(info.chain, info.index) for info in posterior.infos]


def outputs(members):
    return np.stack([float(one["w"]) * X + float(one["b"]) for one in members])


@pytest.mark.parametrize("kind", [list, tuple])
def test_a_list_of_draws_is_one_chain(kind):
    given = draws(5)
    posterior = posterior_of(kind(given))
    assert places(posterior) == [(0, index) for index in range(5)]
    assert (len(posterior), posterior.diverged, posterior.failed, posterior.complete) == (5, 0, (), True)
    for member, one in zip(posterior, given, strict=True):
        assert type(member.params) is dict
        assert (member.params["w"], member.params["b"]) == (one["w"], one["b"])
    assert repr(posterior) == "Posterior(5 members in 1 chains)"
    found = posterior.predict(X)
    np.testing.assert_allclose(found.mean, outputs(given).mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.variance, 0.25 + outputs(given).var(axis=0), rtol=1e-5)


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_of_draws_are_chains(kind):
    given = [kind(draws(4, seed)) for seed in range(3)]
    posterior = posterior_of(kind(given))
    assert places(posterior) == [(chain, index) for chain in range(3) for index in range(4)]
    for chain, index in places(posterior):
        member = posterior[chain, index]
        assert (member.info.chain, member.info.index) == (chain, index)
        assert member.params["w"] == given[chain][index]["w"]
    with pytest.raises(IndexError, match="no member 4 in chain 0"):
        posterior[0, 4]
    assert places(posterior.select([1]).thin(2)) == [(1, 0), (1, 2)]


def test_chains_may_be_of_unequal_lengths():
    lengths = (3, 1, 5)
    posterior = posterior_of([draws(n, seed) for seed, n in enumerate(lengths)])
    assert places(posterior) == [(chain, index) for chain, n in enumerate(lengths) for index in range(n)]
    expected = np.concatenate([outputs(draws(n, seed)) for seed, n in enumerate(lengths)]).mean(axis=0)
    np.testing.assert_allclose(posterior.predict(X).mean, expected, rtol=1e-5, atol=1e-6)
    found = posterior.diagnose(X)
    assert (found.chains, found.members, found.unused) == (2, 6, 1 + 2)


def test_draws_that_are_not_finite_are_left_out():
    given = draws(6)
    given[2] = {"w": jnp.asarray(jnp.nan), "b": given[2]["b"]}
    given[4] = {"w": given[4]["w"], "b": np.asarray(np.inf, np.float32)}
    posterior = posterior_of(given)
    assert (len(posterior), posterior.diverged) == (4, 2)
    assert [info.index for info in posterior.infos if not info.good] == [2, 4]
    assert np.isnan(posterior[0, 2].params["w"])  # there to be looked at
    kept = [one for index, one in enumerate(given) if index not in (2, 4)]
    np.testing.assert_allclose(posterior.predict(X).mean, outputs(kept).mean(axis=0), rtol=1e-5, atol=1e-6)
    none = posterior_of([given[2], given[4]])
    assert len(none) == 0
    with pytest.raises(InvalidInput, match="predict: got a posterior without members"):
        none.predict(X)


class Pair(NamedTuple):
    w: Any
    b: Any


@pytest.mark.parametrize("tree", [Pair, list, tuple])
def test_parameters_may_be_lists_themselves(tree):
    """A list of layers of different shapes is no chain, and neither is a named tuple."""
    layers = [(np.ones((2, 3), np.float32) * i, np.ones(3, np.float32)) for i in range(4)]
    given = [Pair(*one) if tree is Pair else tree(one) for one in layers]

    def apply(params, x):
        return (x @ params[0] + params[1]).sum(axis=-1)

    x = RNG.normal(size=(5, 2)).astype(np.float32)
    for members, chains in (([*given], 1), ([given[:2], given[2:]], 2)):
        posterior = posterior_of(members, apply)
        assert (len(posterior), len({chain for chain, _ in places(posterior)})) == (4, chains)
        assert type(posterior[0, 0].params) is tree
        np.testing.assert_allclose(posterior.predict(x).mean, 3 * (1 + 1.5 * x.sum(axis=1)), rtol=1e-5)
    alike = [Pair(*pair) for pair in RNG.normal(size=(4, 2)).astype(np.float32)]
    assert places(posterior_of(alike, lambda params, x: params[0] * x + params[1])) == [(0, i) for i in range(4)]


def test_draws_that_look_like_chains_are_passed_as_chains():
    pairs = [tuple(pair) for pair in RNG.normal(size=(4, 2)).astype(np.float32)]
    posterior = posterior_of([[pair] for pair in pairs], lambda params, x: params[0] * x + params[1])
    assert places(posterior) == [(chain, 0) for chain in range(4)]
    expected = np.stack([w * X + b for w, b in pairs]).mean(axis=0)
    np.testing.assert_allclose(posterior.predict(X).mean, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float16, jnp.bfloat16, np.float32, np.float64])
def test_dtypes_are_kept(dtype):
    posterior = posterior_of([{"w": np.asarray(w, dtype), "b": np.asarray(0, dtype)} for w in (1, 3)])
    assert posterior[0, 1].params["w"].dtype == dtype
    np.testing.assert_allclose(posterior.predict(X).mean, 2 * X, rtol=2e-2)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], r"from_members\(members=\): got \[\], expected a list of parameters.*at least one draw"),
        ({"w": np.ones(3)}, r"got \{'w'.*expected a list of parameters"),
        (None, r"got None, expected a list"),
        ([{"w": 1.0}, {"w": 1.0, "b": 2.0}], r"draws of PyTreeDef.*and PyTreeDef.*expected one tree"),
        ([{"w": np.ones(3)}, {"w": np.ones(4)}], r"float64\(3,\).*float64\(4,\).*the same shapes and dtypes"),
        ([{"w": np.ones(3)}, {"w": np.ones(3, np.float32)}], r"float64\(3,\).*float32\(3,\)"),
        ([[{"w": np.ones(3)}], [{"v": np.ones(3)}]], r"expected one tree"),
        ([[{"w": np.ones(3)}], [{"w": np.ones(3)}, {"w": np.ones(4)}]], r"expected one tree"),
        ([[{"w": np.ones(3)}], []], r"expected one tree"),
        ([{}], r"got draws without arrays, expected parameters"),
        ([None], r"got draws without arrays"),
        ([{"w": "text"}], r"got values of type <U4, expected real numbers"),
    ],
)
def test_bad_members_are_refused(members, message):
    with pytest.raises(InvalidInput, match=message):
        posterior_of(members)


def test_other_bad_arguments_are_refused():
    with pytest.raises(InvalidInput, match=r"from_members\(likelihood=\): got the class Normal.*with brackets"):
        posterior_of(draws(2), likelihood=aw.Normal)
    with pytest.raises(InvalidInput, match=r"from_members\(likelihood=\): got 'normal', expected a Likelihood"):
        posterior_of(draws(2), likelihood="normal")
    with pytest.raises(InvalidInput, match=r"from_members\(apply=\): got None"):
        posterior_of(draws(2), apply=None)
    with pytest.raises(InvalidInput, match=r"predict\(x=\)"):
        posterior_of(draws(2)).predict({"not": X, "this": X})


def test_chains_from_elsewhere_are_diagnosed():
    values = RNG.normal(size=(3, 40, 2)).astype(np.float32)
    posterior = posterior_of([[{"w": w, "b": b} for w, b in chain] for chain in values])
    found = posterior.diagnose(X)
    assert (found.chains, found.members, found.diverged) == (3, 120, 0)
    predicted = values[..., :1] * X + values[..., 1:]
    np.testing.assert_allclose(found.quantities["mean"].r_hat, convergence.r_hat(predicted), rtol=1e-4)
    assert np.isnan([found.loss_first, found.loss_later]).all()
    assert "nan" not in str(found)


def test_nothing_is_said_of_a_run_that_is_not_known():
    posterior = posterior_of(draws(3))
    assert (dict(posterior.settings), dict(posterior.about)) == ({}, {})
    assert np.isnan(posterior[0, 0].info.value("loss_end"))
    assert posterior[0, 0].trace.shape == (0,)
    assert posterior.likelihood == NORMAL


def test_arviz_takes_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what ArviZ imports
        pytest.importorskip("arviz")
    posterior = posterior_of([draws(6, seed) for seed in range(2)])
    data = aw.to_arviz(posterior, X, np.zeros(9))
    expected = np.stack([outputs(draws(6, seed)) for seed in range(2)])
    np.testing.assert_allclose(data["posterior_predictive"]["mean"], expected, rtol=1e-5, atol=1e-6)
    assert set(data["sample_stats"].data_vars) == {"seconds", "index", "diverging"}
    assert list(data["posterior"]["leaf"].values) == ["b", "w"]


def test_a_report_shows_what_is_known(tmp_path):
    pytest.importorskip("matplotlib")
    posterior = posterior_of([draws(12, seed) for seed in range(2)])
    paths = report.write(posterior, tmp_path, report.ReportData(X, X))
    assert {path.stem for path in paths.figures} == {"calibration", "predictions", "parts"}
    page = paths.page.read_text()
    assert "<h1>Posterior</h1>" in page
    assert "24 (2 chains of 12 members)" in page
    assert "Negative log-likelihood" in page
    for unknown in ("Epochs", "Training time", "<h2>Training</h2>", "Walk", "Prior", "None", ">nan<"):
        assert unknown not in page, unknown
    with pytest.raises(InvalidInput, match="report: got a posterior without members"):
        report.write(posterior_of([jax.tree.map(lambda leaf: leaf * np.nan, draws(1)[0])]), tmp_path)
