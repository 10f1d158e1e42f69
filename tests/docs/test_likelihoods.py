"""The page on likelihoods runs as it stands, and its Student-t is scipy's."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest
from scipy import stats

import anchorwalk as aw
from anchorwalk.errors import InvalidInput

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "likelihoods.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.fixture(scope="module")
def student():
    scope = {}
    exec(BLOCKS[0], scope)
    return scope["StudentT"]


def test_the_blocks_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scope = {}
    for block in BLOCKS[:-1]:
        exec(block, scope)
    own = scope["StudentT"]
    np.testing.assert_array_equal(scope["again"].predict(scope["x"]).mean, scope["posterior"].predict(scope["x"]).mean)
    assert (scope["low"] < scope["high"]).all()
    straight = np.sin(2 * np.asarray(scope["x"][:, 0]))
    wild = np.abs(scope["y"] - straight) > 1
    assert wild.sum() == 4
    assert np.abs(scope["posterior"].predict(scope["x"]).mean - straight)[wild].max() < 1  # the fit is not pulled along
    with pytest.raises(InvalidInput, match=r"load\(likelihood=\): got \{.*5\.0.*\}, expected the run's own, \{.*4\.0"):
        aw.load("runs/robust", scope["apply"], likelihood=own(df=5.0, scale=0.1))
    with pytest.raises(
        InvalidInput, match=r"load\(likelihood=\): got None, expected the run's own likelihood, StudentT"
    ):
        aw.load("runs/robust", scope["apply"])
    exec(BLOCKS[-1], scope)
    assert len(scope["posterior"]) == 2
    assert scope["clipped"].to_json()["settings"]["optimizer"] == {"name": "Clipped"}
    assert scope["posterior"].settings["training"].startswith("Clipped(rate=0.01, norm=1.0) ")


@pytest.mark.parametrize("df", [2.5, 4.0, 30.0])
def test_the_student_t_is_scipys(student, df):
    rng = np.random.default_rng(0)
    outputs, y = rng.normal(size=(2, 6, 4)).astype(np.float32)
    likelihood, truth = student(df=df, scale=0.7), stats.t(df, outputs, 0.7)
    np.testing.assert_allclose(likelihood.log_prob(outputs, y), truth.logpdf(y).sum(axis=1), rtol=2e-5)
    np.testing.assert_allclose(likelihood.mean(outputs), truth.mean(), rtol=1e-6)
    np.testing.assert_allclose(likelihood.variance(outputs), truth.var(), rtol=1e-6)
    values = np.linspace(-9.0, 9.0, 13)
    with jax.enable_x64(True):
        found = likelihood.cdf(outputs.astype(float), np.broadcast_to(values, (6, 4, 13)))
    np.testing.assert_allclose(found, np.stack([truth.cdf(v) for v in values], axis=-1), rtol=1e-9)


@pytest.mark.parametrize("df", [2.5, 4.0, 30.0])
def test_the_student_t_keeps_the_contract(student, df):
    rng = np.random.default_rng(1)
    aw.testing.check_likelihood(student(df=df, scale=0.7), *rng.normal(size=(2, 5)).astype(np.float32))
