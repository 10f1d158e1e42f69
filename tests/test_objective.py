import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import anchorwalk as aw
from anchorwalk.objective import Batch, anchored_loss, evaluate, in_order, validation_loss
from anchorwalk.optimizers import shuffled
from helpers import LinearGaussian, linear_apply, linear_init, small_problem

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


@pytest.mark.parametrize(("n", "size"), [(10, 4), (8, 4), (5, 5), (6, 1), (173, 86), (24, 7)])
def test_batches_in_order_hold_every_row_once_and_are_even(n, size):
    batches = in_order(small_problem(rows=n).data, size)
    assert batches.steps == -(-n // size)
    found = [batches[step] for step in range(batches.steps)]
    assert np.concatenate([batch.indices[batch.present] for batch in found]).tolist() == list(range(n))
    rows = [int(batch.present.sum()) for batch in found]
    assert max(rows) - min(rows) <= 1
    assert max(rows) <= size
    assert all(batch.indices.shape == (size,) and int(batch.indices.max()) < n for batch in found)


def test_the_mean_of_the_batches_losses_is_the_loss_over_all_orders():
    # Unbiased: over random orders each batch's loss has the full loss as its mean, whatever its number of rows.
    problem = MODEL.problem
    full = evaluate(problem, ANCHOR, PARAMS, None, 24).loss

    def of_order(key):
        batches = shuffled(key, problem.data, 7)  # 6 rows each, where 7, 7, 7 and 3 would be uneven
        return jnp.stack([anchored_loss(problem, ANCHOR, PARAMS, batches[step]) for step in range(batches.steps)])

    losses = np.asarray(jax.vmap(of_order)(jax.random.split(jax.random.key(0), 4000)), np.float64)
    error = losses.std(axis=0) / np.sqrt(len(losses))
    assert np.all(np.abs(losses.mean(axis=0) - full) < 5 * error)


def test_rows_that_fill_up_change_no_loss_and_no_gradient():
    problem = MODEL.problem
    filled = problem.filled(40)
    assert filled.n == problem.n == 24
    for size in (24, 7):
        a, b = (evaluate(one, ANCHOR, PARAMS, None, size) for one in (problem, filled))
        np.testing.assert_allclose(a, b, rtol=1e-6)
