import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import anchorwalk as aw
from anchorwalk.objective import Batch, anchored_loss, evaluate, in_order, validation_loss
from helpers import LinearGaussian, linear_apply, linear_init

MODEL = LinearGaussian(mean=0.5)
ANCHOR = {"w": jnp.array([0.3, -0.2, 1.0])}
PARAMS = {"w": jnp.array([1.0, 0.5, -1.0])}


def explicit_loss(x, y, params, weights=1.0):
    """-(log p(D | θ) + log p_anc(θ)), written out."""
    fit = weights * stats.norm.logpdf(y, x @ np.asarray(params["w"]), MODEL.noise)
    return -(fit.sum() + stats.norm.logpdf(params["w"], ANCHOR["w"], MODEL.scale).sum())


@pytest.mark.parametrize("batch_size", [24, 7, 1])
def test_full_loss_and_gradient_are_the_papers(batch_size):
    loss, norm = evaluate(MODEL.problem, ANCHOR, PARAMS, None, batch_size)
    assert loss * MODEL.rows == pytest.approx(explicit_loss(MODEL.x, MODEL.y, PARAMS), rel=1e-5)
    w = np.asarray(PARAMS["w"])
    gradient = MODEL.x.T @ (MODEL.x @ w - MODEL.y) / MODEL.noise**2 + MODEL.prior_precision @ (
        w - np.asarray(ANCHOR["w"])
    )
    assert norm * MODEL.rows == pytest.approx(np.linalg.norm(gradient), rel=1e-5)


def test_every_batch_is_unbiased_the_smaller_last_one_too():
    problem = aw.Problem(
        linear_init, linear_apply, aw.Normal(scale=MODEL.noise), aw.Prior(scale={"w": MODEL.scale}),
        data=(MODEL.x[:5], MODEL.y[:5]),
    )  # fmt: skip
    loss = jax.jit(lambda batch: anchored_loss(problem, ANCHOR, PARAMS, batch))
    whole = explicit_loss(MODEL.x[:5], MODEL.y[:5], PARAMS) / 5
    orders = list(itertools.permutations(range(5)))
    first = np.mean([loss(Batch(jnp.array(o[:3]), jnp.ones(3, bool))) for o in orders])
    last = np.mean([loss(Batch(jnp.array([*o[3:], o[0]]), jnp.array([True, True, False]))) for o in orders])
    assert first == pytest.approx(whole, rel=1e-5)
    assert last == pytest.approx(whole, rel=1e-5)


def test_a_weight_of_two_is_a_row_twice():
    weights = np.ones(24)
    weights[3] = 2
    prior, likelihood = aw.Prior(scale={"w": MODEL.scale}), aw.Normal(scale=MODEL.noise)
    once = aw.Problem(linear_init, linear_apply, likelihood, prior, data=(MODEL.x, MODEL.y), weights=weights)
    rows = [*range(24), 3]
    twice = aw.Problem(linear_init, linear_apply, likelihood, prior, data=(MODEL.x[rows], MODEL.y[rows]))
    one, two = (evaluate(p, ANCHOR, PARAMS, None, 10) for p in (once, twice))
    assert one.loss * 24 == pytest.approx(float(two.loss) * 25, rel=1e-5)
    assert one.gradient_norm * 24 == pytest.approx(float(two.gradient_norm) * 25, rel=1e-5)
    assert one.loss * 24 == pytest.approx(explicit_loss(MODEL.x, MODEL.y, PARAMS, weights), rel=1e-5)


def test_perturbed_targets_enter_the_loss():
    noise = np.random.default_rng(0).normal(size=24)
    loss, _ = evaluate(MODEL.problem, ANCHOR, PARAMS, jnp.asarray(noise, jnp.float32), 7)
    expected = explicit_loss(MODEL.x, MODEL.y + MODEL.noise * noise, PARAMS) / 24
    assert loss == pytest.approx(expected, rel=1e-5)


def test_validation_loss_takes_the_validation_rows_and_the_datas_anchor_term():
    problem = aw.Problem(
        linear_init, linear_apply, aw.Normal(scale=MODEL.noise), aw.Prior(scale={"w": MODEL.scale}),
        data=(MODEL.x[:16], MODEL.y[:16]), validation=(MODEL.x[16:], MODEL.y[16:]),
    )  # fmt: skip
    fit = stats.norm.logpdf(MODEL.y[16:], MODEL.x[16:] @ np.asarray(PARAMS["w"]), MODEL.noise).mean()
    pull = stats.norm.logpdf(PARAMS["w"], ANCHOR["w"], MODEL.scale).sum() / 16
    assert validation_loss(problem, ANCHOR, PARAMS, 3) == pytest.approx(-(fit + pull), rel=1e-5)


def test_batches_in_order_hold_every_row_once():
    batch = in_order(10, 4)
    assert batch.indices.shape == (3, 4)
    assert batch.indices[batch.present].tolist() == list(range(10))
    assert set(batch.indices[~batch.present].tolist()) == {9}
