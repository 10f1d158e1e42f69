"""Every method's posterior goes through stores, kill and resume, diagnostics, ArviZ and the report."""

import warnings

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app import report
from anchorwalk.serial import from_json
from helpers import leaves_equal, small_problem, stacked_params

T = aw.Training(aw.SGD(0.01), epochs=2, batch_size=7)
SAE = aw.SAE(T, T, aw.GuidedWalk(0.3))
RELATED = [
    aw.SGLD(T, 1e-5, thin=2, batch_size=7, warmup=1),
    aw.SGHMC(None, 1e-5, thin=1, batch_size=7),
    aw.CyclicalSGHMC(1e-5, cycle=4, draws=2, explore=0.5, batch_size=7),
    aw.Snapshot(T),
    aw.FGE(T, T),
    aw.SWA(T, T, points=2),
    aw.SWAG(T, T, points=3, rank=2),
    aw.SWALP(T, T, points=2),
    aw.Laplace(T),
    aw.IVON(0.01, epochs=2, batch_size=7),
    aw.MCLMC(T, warmup=4, thin=1),
    aw.SPRO(T, T, vertices=3),
    aw.SimplexSAE(SAE, vertices=3, draws=2),
    aw.LowPrecisionSAE(T, T, aw.GuidedWalk(0.3), points=2),
]
OTHERS = [
    SAE,
    aw.AE(T),
    aw.DeepEnsemble(T),
    aw.MAP(T),
]
SLOW = [
    aw.HMC(windows=(10,), thin=1, leapfrogs=2, block=10, draws=10, descent=2),
    aw.Tempering(rungs=2, windows=(8,), thin=2, leapfrogs=2, draws=6),
]


def named(method):
    return type(method).__name__


class Killed(Exception):
    pass


@pytest.mark.parametrize(
    "method", [*RELATED, *OTHERS, *(pytest.param(one, marks=pytest.mark.slow) for one in SLOW)], ids=named
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_posterior_goes_through_everything(method, tmp_path):
    problem = small_problem()
    members = 1 if getattr(method, "one_member", False) else 6
    plan, key = aw.Plan(method, chains=2, members=members), jax.random.key(0)
    calls = list(method.calls(problem, members))

    def kill(round_info):
        if round_info.number == len(calls) // 2:
            raise Killed

    if len(calls) > 1:
        with pytest.raises(Killed):
            aw.sample(key, problem, plan, store=tmp_path / "run", callbacks=[kill])
    posterior = aw.sample(key, problem, plan, store=tmp_path / "run", callbacks=[])
    whole = aw.sample(key, problem, plan, callbacks=[])
    assert leaves_equal(stacked_params(posterior), stacked_params(whole))
    assert len(posterior) == plan.total
    loaded = aw.load(tmp_path / "run", problem.apply)
    x, y = np.asarray(problem.data.x), np.asarray(problem.data.y)
    np.testing.assert_array_equal(loaded.predict(x).mean, whole.predict(x).mean)
    assert str(loaded.diagnose(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = aw.to_arviz(loaded, x, y)
    assert data["log_likelihood"]["y"].shape == (2, members, 20)
    page = report.write(loaded, tmp_path / "report", report.ReportData(x, y)).page.read_text()
    assert method.title in page
    assert repr(from_json(method.to_json())) == repr(method)


# A few steps of warm-up far from a mode, or variances of a few places, make rounding's differences between lanes grow.
MODE = aw.Training(aw.Adam(0.02), epochs=60, batch_size=7)
STEADY = aw.MCLMC(MODE, warmup=3, thin=1, scaled=False)


@pytest.mark.slow
@pytest.mark.parametrize("method", [*(one for one in RELATED if not isinstance(one, aw.MCLMC)), STEADY], ids=named)
def test_the_contract(method):
    aw.testing.check_method(method, small_problem())
