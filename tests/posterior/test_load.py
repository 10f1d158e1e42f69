"""What `load` shows of a stored run is what `sample` gave; the files themselves are for tests/run/store."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.serial import Settings
from helpers import leaves_equal, linear_apply, linear_init, small_apply, small_plan, small_problem

X = np.random.default_rng(0).normal(size=(8, 3))
PROBLEM = aw.Problem(linear_init, linear_apply, aw.Normal(scale=0.5), aw.Prior(scale=1.0), data=(X, X.sum(axis=1)))


@tree.node(static=("draws",))
@dataclass(frozen=True)
class FromThePrior(Settings):
    """Draws from the prior, several in a call, after a warm-up that makes none."""

    draws: int = 2

    def prepare(self, key, problem):
        return problem

    def calls(self, problem, members):
        yield aw.Call("warm-up", draws=0, passes=3.0)
        for _ in range(-(-members // self.draws)):
            yield aw.Call("draws", draws=self.draws, passes=0.5)

    def start(self, keys, problem, attempt):
        return jnp.zeros(())

    def step(self, keys, problem, state, call, number):
        each = jax.random.split(keys.own, call.draws)
        params = jax.vmap(lambda key: problem.prior.draw(key, problem.params_like))(each)
        info = {"log_density": jnp.arange(float(call.draws))}
        return state + 1, aw.Draws(params, jnp.zeros((call.draws, 0)), jnp.ones(call.draws, bool), info)


@pytest.mark.parametrize("members", [1, 3, 4])
def test_draws_beyond_the_plan_are_not_shown(members, tmp_path):
    """The last call of a chain may make more draws than the plan has members; a larger plan will use them."""
    plan = aw.Plan(FromThePrior(), chains=2, members=members)
    posterior = aw.sample(jax.random.key(0), PROBLEM, plan, store=tmp_path / "run", callbacks=[])
    loaded = aw.load(tmp_path / "run", linear_apply)
    assert loaded.infos == posterior.infos
    assert len(loaded) == 2 * members
    assert loaded.complete
    for one, other in zip(loaded, posterior, strict=True):
        assert leaves_equal(one.params, other.params)
    larger = aw.Plan(FromThePrior(), chains=2, members=4)
    extended = aw.sample(jax.random.key(0), PROBLEM, larger, store=tmp_path / "run", callbacks=[])
    at_once = aw.sample(jax.random.key(0), PROBLEM, larger, callbacks=[])
    for one, other in zip(extended, at_once, strict=True):
        assert leaves_equal(one.params, other.params)


def test_a_loaded_run_says_what_the_run_said(tmp_path):
    posterior = aw.sample(jax.random.key(0), small_problem(), small_plan(), store=tmp_path / "run", callbacks=[])
    loaded = aw.load(tmp_path / "run", small_apply)
    assert dict(loaded.settings) == dict(posterior.settings)
    assert dict(loaded.about) == dict(posterior.about)
    assert loaded.about["method"]["name"] == loaded.settings["method"] == "SAE"
    assert loaded.about["method"]["title"] == aw.SAE.title
    assert (loaded.failed, loaded.complete) == ((), True)
    for member, other in zip(loaded, posterior, strict=True):
        assert member.info == other.info
        np.testing.assert_array_equal(member.trace, other.trace)
