"""Posteriors in ArviZ's own kinds of data, read by ArviZ."""

import dataclasses
import json
import sys
import warnings
from importlib.metadata import version

import jax
import numpy as np
import pytest
from scipy import special, stats

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from chains import chains_of

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # ArviZ before 1.0 announces its successor, some versions with what they import
    arviz = pytest.importorskip("arviz")
import xarray  # comes with it

pytestmark = pytest.mark.slow

NEWER = int(version("arviz").split(".")[0]) >= 1
RNG = np.random.default_rng(8)
ROWS = np.arange(12)
VALUES = RNG.normal(size=(3, 20, 12)).astype(np.float32)
Y = RNG.normal(size=12)


def names(data):
    found = data.groups if NEWER else data.groups()
    return {name.strip("/") for name in found} - {""}


@pytest.fixture(scope="module")
def data():
    loss = 1 + RNG.random((3, 20))
    return aw.to_arviz(chains_of(VALUES, loss=loss), ROWS, Y)


def test_the_kind_of_data_is_the_installed_versions_own(data):
    assert isinstance(data, xarray.DataTree if NEWER else arviz.InferenceData)
    expected = {"posterior", "posterior_predictive", "log_likelihood", "sample_stats", "observed_data"}
    assert names(data) == expected
    assert names(aw.to_arviz(chains_of(VALUES), ROWS)) == {"posterior", "predictions", "sample_stats"}


def test_values_are_those_of_the_members(data):
    np.testing.assert_array_equal(data["posterior_predictive"]["mean"], VALUES)
    np.testing.assert_allclose(data["posterior_predictive"]["std"], 0.5)
    np.testing.assert_allclose(data["log_likelihood"]["y"], stats.norm.logpdf(Y, VALUES, 0.5), rtol=1e-4)
    np.testing.assert_allclose(data["posterior"]["norm"][..., 0], np.linalg.norm(VALUES, axis=-1), rtol=1e-6)
    np.testing.assert_allclose(data["posterior"]["average"][..., 0], VALUES.mean(axis=-1), atol=1e-6)
    np.testing.assert_array_equal(data["observed_data"]["y"], Y)
    statistics = data["sample_stats"]
    assert not statistics["diverging"].values.any()
    np.testing.assert_array_equal(statistics["index"], np.tile(np.arange(20), (3, 1)))
    np.testing.assert_allclose(statistics["loss_start"], statistics["loss_end"] + 1)
    np.testing.assert_allclose(statistics["gradient_norm_end"], 2 * statistics["loss_end"])
    np.testing.assert_array_equal(statistics["acceptance_rate"], 0.75)
    assert data["posterior"]["norm"].dims == ("chain", "draw", "leaf")
    assert list(data["posterior"]["leaf"].values) == ["outputs"]
    assert data["log_likelihood"]["y"].dims == data["posterior_predictive"]["y"].dims == ("chain", "draw", "row")


def test_draws_have_the_noise_of_the_likelihood_and_follow_the_key(data):
    draws = data["posterior_predictive"]["y"].values
    residuals = (draws - VALUES) / 0.5
    # 720 standard normals: four standard errors of their mean and standard deviation.
    assert abs(residuals.mean()) < 4 / np.sqrt(720)
    assert abs(residuals.std() - 1) < 4 / np.sqrt(2 * 720)
    assert np.unique(residuals.round(4)).size > 650  # no two members share their noise
    posterior = chains_of(VALUES)
    again = aw.to_arviz(posterior, ROWS, Y)["posterior_predictive"]["y"].values
    np.testing.assert_array_equal(draws, again)
    other = aw.to_arviz(posterior, ROWS, Y, key=jax.random.key(1))["posterior_predictive"]["y"].values
    assert (other != draws).mean() > 0.99


def test_arviz_reads_it(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # short chains; deprecations between ArviZ and what it stands on
        summary = arviz.summary(data)
        r_hat = arviz.rhat(data)
        predictive = data["posterior_predictive"]
        wide = (predictive.to_dataset() if NEWER else predictive).astype(np.float64)  # as ours, up to rounding
        predicted = arviz.rhat(wide)
    assert list(summary.index) == ["norm[outputs]", "average[outputs]"]
    assert np.isfinite(r_hat["norm"].values).all()
    found = chains_of(VALUES).diagnose(ROWS)
    np.testing.assert_allclose(predicted["mean"].values, found.quantities["mean"].r_hat, rtol=1e-6)


def test_arviz_leaves_rows_out():
    """Members that differ little: what a row is worth falls by the variance of its log-likelihood, to first order."""
    values = 0.05 * VALUES
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = arviz.loo(aw.to_arviz(chains_of(values), ROWS, Y))
    members = stats.norm.logpdf(Y, values, 0.5)
    inside = (special.logsumexp(members, axis=(0, 1)) - np.log(60)).sum()
    less = members.var(axis=(0, 1)).sum()
    assert 0.05 < less < 0.5
    assert abs(float(found.elpd if NEWER else found.elpd_loo) - (inside - less)) < 0.3 * less


def test_it_can_be_written_and_read(data, tmp_path):
    pytest.importorskip("h5netcdf")
    path = tmp_path / "run.nc"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data.to_netcdf(path, engine="h5netcdf")
        back = arviz.from_netcdf(path, engine="h5netcdf")
    np.testing.assert_array_equal(back["posterior_predictive"]["mean"], VALUES)
    assert back.attrs["inference_library"] == "anchorwalk"


def test_attributes_say_where_it_comes_from(data):
    assert data.attrs["inference_library"] == data["posterior"].attrs["inference_library"] == "anchorwalk"
    assert data.attrs["inference_library_version"] == aw.__version__
    assert data.attrs["walk"] == "made up"
    assert json.loads(data.attrs["plan"]) == {"chains": "3", "members": "20"}
    assert data.attrs["likelihood"] == "Normal(scale=0.5)"
    assert (data.attrs["diverged"], data.attrs["unused"], data.attrs["complete"]) == (0, 0, 1)
    settings = {"method": "AE", "training": "Adam(...)", "prior": "0123"}
    other = aw.to_arviz(dataclasses.replace(chains_of(VALUES), settings=settings), ROWS)
    plan = {"method": "AE", "training": "Adam(...)", "chains": "3", "members": "20"}
    assert json.loads(other.attrs["plan"]) == plan
    assert json.loads(other.attrs["settings"]) == settings


def test_diverged_members_are_skipped_and_counted():
    status = np.zeros((3, 20))
    status[1, 4] = 1
    broken = VALUES.copy()
    broken[1, 4] = np.nan
    data = aw.to_arviz(chains_of(broken, status=status), ROWS, Y)
    expected = np.stack([VALUES[0, :19], np.delete(VALUES[1], 4, axis=0), VALUES[2, :19]])
    np.testing.assert_array_equal(data["posterior_predictive"]["mean"], expected)
    np.testing.assert_allclose(data["posterior"]["average"][..., 0], expected.mean(axis=-1), atol=1e-6)
    assert list(data["sample_stats"]["index"].values[1]) == [i for i in range(20) if i != 4]
    assert (data.attrs["diverged"], data.attrs["unused"]) == (1, 2)


def test_classes_counts_and_several_outputs():
    logits = RNG.normal(size=(2, 3, 12, 4)).astype(np.float32)
    classes = aw.to_arviz(chains_of(logits, aw.Categorical()), ROWS, RNG.integers(0, 4, 12))
    predictive = classes["posterior_predictive"]
    np.testing.assert_allclose(predictive["probability"], special.softmax(logits, axis=-1), rtol=1e-5)
    assert predictive["probability"].dims == ("chain", "draw", "row", "class")
    assert predictive["y"].dims == ("chain", "draw", "row")
    assert set(np.unique(predictive["y"])) <= {0, 1, 2, 3}
    binary = aw.to_arviz(chains_of(logits[..., 0], aw.Bernoulli()), ROWS)["predictions"]
    np.testing.assert_allclose(binary["probability"], special.expit(logits[..., 0]), rtol=1e-5)
    several = aw.to_arviz(chains_of(logits, aw.Normal(scale=1.0)), ROWS, np.zeros((12, 4)))
    assert several["posterior_predictive"]["mean"].dims == ("chain", "draw", "row", "output_0")
    assert several["observed_data"]["y"].dims == ("row", "output_0")
    expected = stats.norm.logpdf(logits).sum(axis=-1)
    np.testing.assert_allclose(several["log_likelihood"]["y"], expected, rtol=1e-4)
    counts = aw.to_arviz(chains_of(logits[..., 0], aw.Poisson()), ROWS)["predictions"]
    np.testing.assert_allclose(counts["std"], np.exp(logits[..., 0] / 2), rtol=1e-5)


def test_chains_keep_their_numbers():
    data = aw.to_arviz(chains_of(VALUES).select([0, 2]), ROWS)
    assert list(data["posterior"]["chain"].values) == [0, 2]


def test_bad_input_is_refused():
    posterior = chains_of(VALUES)
    with pytest.raises(InvalidInput, match=r"to_arviz\(y=\)"):
        aw.to_arviz(posterior, ROWS, Y[:5])
    with pytest.raises(InvalidInput, match="not finite"):
        aw.to_arviz(posterior, ROWS, np.full(12, np.nan))
    with pytest.raises(InvalidInput, match="a Posterior"):
        aw.to_arviz(posterior.predict(ROWS), ROWS)
    with pytest.raises(InvalidInput, match=r"to_arviz\(key=\)"):
        aw.to_arviz(posterior, ROWS, key=3)
    with pytest.raises(InvalidInput, match="without members"):
        aw.to_arviz(posterior.select([7]), ROWS)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "xarray", None)
    with pytest.raises(ImportError, match=r"pip install 'anchorwalk\[arviz\]'"):
        aw.to_arviz(chains_of(VALUES), ROWS)
