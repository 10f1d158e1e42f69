"""The contract of methods on every method of the package, that it can fail, and the one that a how-to shows."""

import re
import warnings
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from helpers import LinearGaussian, small_problem

ROOT = Path(__file__).parent.parent.parent
TRAINING = aw.Training(aw.SGD(0.01), epochs=2, batch_size=7)
KEPT = aw.Training(aw.SOAP(0.01, end_rate=1e-4, largest=2), epochs=2, batch_size=7)
METHODS = [
    aw.SAE(TRAINING, TRAINING, aw.GuidedWalk(0.3)),
    aw.SAE(TRAINING, TRAINING, aw.Autoregressive(0.3), perturb_targets=True, shared_order=True),
    aw.SAE(KEPT, KEPT, keep_optimizer=True, shift_start=True),
    aw.AE(TRAINING),
    aw.DeepEnsemble(TRAINING),
    aw.MAP(TRAINING),
    aw.HMC(windows=(10, 20), thin=1, leapfrogs=3, block=10, draws=10, descent=2),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_every_method_keeps_the_contract(method):
    aw.testing.check_method(method, small_problem(), members=20 if isinstance(method, aw.HMC) else 3)


@tree.node(static=("fault",))
@dataclass(frozen=True)
class Faulty:
    """Draws from the prior, with a fault."""

    fault: str
    shift: float = 0.0

    def prepare(self, key, problem):
        return problem

    def calls(self, problem, members):
        count = 1 if self.fault == "few" else members
        for i in range(count):
            kind = "draw" if self.fault != "prefix" else f"draw {members}"
            yield aw.Call(kind, 1, float(i) if self.fault != "costs" else -1.0)

    def start(self, keys, problem, attempt):
        return {"position": tree.normal_like(keys.own, problem.params_like), "scale": jnp.ones(())}

    def step(self, keys, problem, state, call, number):
        key = keys.shared if self.fault == "equal chains" else keys.own
        position = tree.normal_like(key, problem.params_like)
        if self.fault == "state grows":
            state = {**state, "more": jnp.zeros(3)}
        if self.fault == "not finite":
            position = jax.tree.map(lambda leaf: jnp.where(number == 1, jnp.nan, leaf), position)
        if self.fault != "equal chains":
            position = jax.tree.map(lambda a, b: a + 0.1 * b + self.shift, position, state["position"])
        lanes = 1 if self.fault != "no leading axis" else None
        draws = position if lanes is None else jax.tree.map(lambda leaf: leaf[None], position)
        good = jnp.ones(() if lanes is None else 1, bool)
        return state, aw.Draws(draws, jnp.zeros((1, 0)), good, {})


def test_a_plain_method_of_ones_own_keeps_it():
    aw.testing.check_method(Faulty("none"), small_problem())


@pytest.mark.parametrize(
    ("fault", "error", "words"),
    [
        ("few", AssertionError, "as many draws"),
        ("prefix", AssertionError, "first calls of more members"),
        ("costs", AssertionError, "cannot be"),
        ("equal chains", AssertionError, "chains must differ"),
        ("not finite", AssertionError, "all draws must be finite"),
        ("state grows", InvalidInput, "other arrays than method.start"),
        ("no leading axis", InvalidInput, "leading axis of draws"),
    ],
)
@pytest.mark.filterwarnings("ignore::anchorwalk.errors.DivergedWarning")
def test_the_contract_can_fail(fault, error, words):
    with pytest.raises(error, match=words):
        aw.testing.check_method(Faulty(fault), small_problem())


def test_what_is_no_method_is_refused():
    with pytest.raises(InvalidInput, match=r"Plan\(method=\)"):
        aw.testing.check_method(object(), small_problem())


def shown():
    """The method that a how-to shows."""
    text = (ROOT / "docs" / "howto" / "own_method.md").read_text()
    (block,) = [code for code in re.findall(r"```python\n(.*?)```", text, re.S) if "class SGLD" in code]
    scope = {"__name__": "shown"}
    exec(block, scope)
    return scope["SGLD"], block


def test_the_method_of_the_how_to_is_short_and_keeps_the_contract():
    sgld, block = shown()
    first = block.index("@tree.node")
    assert len(block[first:].strip().splitlines()) < 60
    aw.testing.check_method(sgld(1e-4, warmup=2, thin=1, batch_size=8), small_problem())


def test_the_method_of_the_how_to_samples_the_posterior():
    """At a small step size its bias is small: with full batches it is Langevin dynamics with an error of order h."""
    sgld, _ = shown()
    model = LinearGaussian()
    # Unadjusted Langevin on a Gaussian of precision P has the covariance inv(P (1 - h P / 2)): with h = 0.002 and the
    # greatest eigenvalue of 22 a variance is 2% too large at most.
    step = 0.002
    method = sgld(step, warmup=500, thin=20, batch_size=model.rows)
    posterior = aw.sample(jax.random.key(0), model.problem, aw.Plan(method, chains=20, members=200), callbacks=[])
    draws = np.stack([member.params["w"] for member in posterior]).reshape(20, 200, 3)
    root = np.linalg.cholesky(model.posterior_covariance)
    white = np.linalg.solve(root, (draws - model.posterior_mean).reshape(-1, 3).T).T.reshape(20, 200, 3)
    # Standard errors over chains, which are independent: five of them for three means and three variances.
    means, squares = white.mean(axis=1), (white**2).mean(axis=1)
    assert (np.abs(means.mean(0)) < 5 * means.std(0, ddof=1) / np.sqrt(20)).all()
    slack = 0.5 * step * np.linalg.eigvalsh(model.precision)[-1] * 1.1
    assert (np.abs(squares.mean(0) - 1) < 5 * squares.std(0, ddof=1) / np.sqrt(20) + slack).all()
    assert posterior.diagnose(model.x.astype(np.float32)).effective > 100


def test_a_method_from_outside_works_with_everything_else(tmp_path):
    from anchorwalk.app import report

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("arviz")
    sgld, _ = shown()
    problem, plan = small_problem(), aw.Plan(sgld(1e-4, warmup=5, thin=1, batch_size=10), chains=2, members=12)
    posterior = aw.sample(jax.random.key(0), problem, plan, store=tmp_path / "run", callbacks=[])
    x, y = np.asarray(problem.data.x), np.asarray(problem.data.y)
    loaded = aw.load(tmp_path / "run", problem.apply)
    np.testing.assert_array_equal(loaded.predict(x).mean, posterior.predict(x).mean)
    assert posterior.diagnose(x).judged
    assert loaded.about["method"]["title"] == "Stochastic gradient Langevin dynamics"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = aw.to_arviz(loaded, x, y)
    assert data["log_likelihood"]["y"].shape == (2, 12, 20)
    page = report.write(loaded, tmp_path / "report", report.ReportData(x, y)).page.read_text()
    assert "Stochastic gradient Langevin dynamics" in page
    assert aw.describe(problem, plan).epochs == 2 * (5 + 12)
    longer = aw.sample(jax.random.key(0), problem, aw.Plan(plan.method, 2, 14), store=tmp_path / "run", callbacks=[])
    assert len(longer) == 28
    grown = aw.Plan.from_budget(100, plan.method, chains=2)
    assert grown.members == 45
