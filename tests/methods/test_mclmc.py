"""MCLMC on a linear model, within the bias of its step size; and its cost."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from helpers import LinearGaussian, assert_moments, small_problem, stacked_params

KEY, CHAINS, MEMBERS = jax.random.key(0), 40, 60
MODEL = LinearGaussian(mean=0.3)


@pytest.mark.parametrize("scaled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_draws_have_the_posteriors_moments_up_to_the_step_sizes_bias(scaled):
    method = aw.MCLMC(MODEL.training(1e-3), warmup=60, thin=25, energy_variance=5e-7, scaled=scaled)
    runner, store = aw.Local(threads=1, lanes=CHAINS), aw.MemoryStore()
    plan = aw.Plan(method, CHAINS, MEMBERS)
    posterior = aw.sample(KEY, MODEL.problem, plan, runner=runner, store=store, callbacks=[])
    draws = stacked_params(posterior)["w"].reshape(CHAINS, MEMBERS, 3).astype(float)
    # Steps are in prior standard deviations, or in those that warm-up has seen of them. A unit velocity in three
    # dimensions moves each as far as a Hamiltonian one does in 1 / sqrt(3) of the time. Leapfrog steps of h have the
    # variance 1 / (p (1 - h² p / 4)) in a direction of precision p; McLachlan's are closer.
    steps = np.array([info.value("step_size") for info in posterior.infos])
    assert 0.01 < steps.min() <= steps.max() < 2
    units = [MODEL.scale * np.sqrt(store.state(chain).scales.astype(float)) for chain in range(CHAINS)]
    precisions = [np.linalg.eigvalsh(unit[:, None] * MODEL.precision * unit)[-1] for unit in units]
    share = (steps.reshape(CHAINS, MEMBERS)[:, 0] ** 2 * precisions).mean() / 3 / 4
    assert share < 0.05
    slack = share / (1 - share) * np.abs(MODEL.posterior_covariance).max()
    assert_moments(draws[:, 10:], MODEL.posterior_mean, MODEL.posterior_covariance, slack)
    variance = np.mean([info.value("energy_variance") for info in posterior.infos])
    assert variance < 10 * 3 * method.energy_variance


def test_steps_are_in_prior_standard_deviations_and_those_that_run_away_are_taken_back():
    method, problem, keys = aw.MCLMC(None, thin=3), small_problem(scale=0.2), aw.Keys(KEY, KEY)
    state = method.start(keys, problem, jnp.uint32(0))
    step = jax.jit(method.step, static_argnums=3)
    for size in (0.5, 0.001, 1e30):  # the second call begins away from the start
        state = state._replace(step_size=jnp.float32(size))
        after, draws = step(keys, problem, state, aw.Call("draw"), jnp.int32(1))
        pairs = zip(jax.tree.leaves(after.params), jax.tree.leaves(state.params), strict=True)
        moved = np.sqrt(sum(np.sum(np.square(one - other)) for one, other in pairs))
        if size < 1:  # the velocity has unit length, so that no way is longer than time; and not every one turns back
            assert 0.2 * 3 * 0.2 * size < moved < 1.001 * 3 * 0.2 * size
        else:
            assert moved == 0
        assert float(draws.info["divergent"][0]) == (size > 1)
        state = after


def test_a_step_costs_two_gradients():
    calls = list(aw.MCLMC(None, warmup=9, thin=4).calls(None, 2))
    assert [call.passes for call in calls] == [1 + 2 * (27 + 3), 9, 9]
    assert next(aw.MCLMC(None, warmup=9, scaled=False).calls(None, 1)).passes == 1 + 2 * 27


def test_wrong_settings_are_refused():
    with pytest.raises(InvalidInput, match=r"MCLMC\(energy_variance=\)"):
        aw.MCLMC(None, energy_variance=0.0)
    with pytest.raises(InvalidInput, match=r"MCLMC\(warmup=\)"):
        aw.MCLMC(None, warmup=1)
    one = aw.Problem(lambda key: np.zeros((), np.float32), lambda w, x: x * w, aw.Normal(scale=1.0), aw.Prior(),
                     (np.ones(3), np.ones(3)))  # fmt: skip
    with pytest.raises(InvalidInput, match="one parameter"):
        aw.MCLMC(None).prepare(KEY, one)
    assert aw.MCLMC(None).prepare(KEY, small_problem()).n == 20
