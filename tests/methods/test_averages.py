"""Averages and what is fitted to places of a training: SWA, SWAG, SWALP, snapshots, fast geometric ensembles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods import gaussian
from anchorwalk.methods.fge import Triangle
from anchorwalk.methods.half import round_at_random, train_half
from anchorwalk.optimizers import train
from helpers import LinearGaussian, assert_moments, small_problem, stacked_params

KEY = jax.random.key(0)
MODEL = LinearGaussian(mean=0.3)
SHORT = aw.Training(aw.Adam(0.02), epochs=1, batch_size=7)
FIRST = aw.Training(aw.Adam(0.02), epochs=3, batch_size=7)


def places_of(method, problem):
    """The states after each call that collects, from the steps themselves."""
    calls = [call for call in method.calls(problem, 1) if not call.draws]
    state, found = method.start(aw.Keys(KEY, KEY), problem, jnp.uint32(0)), []
    steps = {}
    for number, call in enumerate(calls):
        step = steps.setdefault(call.kind, jax.jit(method.step, static_argnums=3))
        key = jax.random.fold_in(KEY, number)
        state, _ = step(aw.Keys(key, key), problem, state, call, jnp.int32(number))
        found.append(state)
    return found[1:]


def vectors(params):
    return np.stack([np.asarray(tree.ravel(one), float) for one in params])


@pytest.mark.parametrize("kind", [aw.SWA, aw.SWALP])
def test_the_mean_is_that_of_the_places(kind):
    states = places_of(kind(FIRST, SHORT, points=5), small_problem())
    places = vectors([state.params for state in states])
    assert np.ptp(places, axis=0).max() > 0.01
    assert (places == narrowed(places)).all() == (kind is aw.SWALP)
    for count, state in enumerate(states, start=1):
        # Five additions in float32 of numbers below one.
        np.testing.assert_allclose(tree.ravel(state.mean), places[:count].mean(0), atol=5e-7)


def test_swag_has_the_places_moments():
    method = aw.SWAG(FIRST, SHORT, points=6, rank=3)
    states = places_of(method, small_problem())
    places, state = vectors([state.params for state in states]), states[-1]
    np.testing.assert_allclose(tree.ravel(state.mean), places.mean(0), atol=5e-7)
    np.testing.assert_allclose(state.squares / 6, places.var(0), rtol=1e-3, atol=1e-9)
    means = np.cumsum(places, axis=0) / np.arange(1, 7)[:, None]
    # The last three places less the mean when they came; the sixth stands in the last column, by its number.
    np.testing.assert_allclose(state.deviations, (places - means)[3:].T, atol=1e-6)
    expected = np.diag(places.var(0)) / 2 + (places - means)[3:].T @ (places - means)[3:] / (2 * 2)
    draws = np.asarray(jax.vmap(lambda key: tree.ravel(method.draw(key, state)))(jax.random.split(KEY, 20_000)))
    draws, at = draws[:, None, ::9].astype(float), np.arange(0, 33, 9)
    assert_moments(draws, np.asarray(tree.ravel(state.mean), float)[at], expected[np.ix_(at, at)])


def test_a_normal_has_its_covariance():
    factors = np.array([[0.5, 0.0], [1.0, -1.0], [0.0, 2.0]])
    scale, mean = np.array([1.0, 0.2, 0.5]), np.array([1.0, 2.0, 3.0])
    keys, like = jax.random.split(KEY, 20_000), {"a": jnp.asarray(mean[:1]), "b": jnp.asarray(mean[1:])}
    drawn = jax.vmap(lambda key: gaussian.draw(key, like, jnp.asarray(scale), jnp.asarray(factors)))(keys)
    draws = np.concatenate([drawn["a"], drawn["b"]], axis=1)[:, None].astype(float)
    assert_moments(draws, mean, np.diag(scale**2) + factors @ factors.T)


@pytest.mark.parametrize(
    "method",
    [
        aw.SWA(MODEL.training(), MODEL.training(1e-2), points=3),
        aw.SWAG(MODEL.training(), MODEL.training(1e-2), points=3, rank=2),
        aw.Snapshot(MODEL.training()),
        aw.FGE(MODEL.training(), MODEL.training(1e-2)),
    ],
    ids=lambda method: type(method).__name__,
)
def test_where_trainings_converge_all_are_at_the_posteriors_mean(method):
    members = 1 if getattr(method, "one_member", False) else 3
    posterior = aw.sample(KEY, MODEL.problem, aw.Plan(method, 2, members), callbacks=[])
    # SGD stops where float32 does: at gradients of 1e-6 or so. SWAG's normal is as narrow as its places are apart.
    np.testing.assert_allclose(stacked_params(posterior)["w"], [MODEL.posterior_mean] * 2 * members, atol=5e-5)


@pytest.mark.parametrize("method", [aw.Snapshot, aw.FGE], ids=lambda kind: kind.__name__)
def test_members_are_where_the_rates_of_their_cycles_lead(method):
    """Descent of a quadratic: each step shrinks the error by I - rate H, with rates that fall, or rise and fall."""
    curvature, steps = MODEL.precision / MODEL.rows, np.arange(6)
    rate = float(0.5 / np.linalg.eigvalsh(curvature)[-1])
    if method is aw.Snapshot:
        made = aw.Snapshot(aw.Training(aw.SGD(rate, end_rate=0.0), epochs=6, batch_size=MODEL.rows))
        rates = rate * (1 + np.cos(np.pi * steps / 6)) / 2
    else:
        made = aw.FGE(None, aw.Training(aw.SGD(rate), epochs=6, batch_size=MODEL.rows), low=0.1)
        rates = rate * (0.1 + 0.9 * np.array([1, 2, 3, 2, 1, 0]) / 3)
    posterior = aw.sample(KEY, MODEL.problem, aw.Plan(made, 1, 3), callbacks=[])
    first, *later = stacked_params(posterior)["w"].astype(float) - MODEL.posterior_mean
    shrunk = np.linalg.multi_dot([np.eye(3) - one * curvature for one in rates])
    assert np.abs(later[0] - first).max() > 0.05
    for error in later:
        first = shrunk @ first
        np.testing.assert_allclose(error, first, atol=1e-5)


def test_rounding_at_random_keeps_the_mean():
    values = jnp.asarray([1.0, 1.001, -0.3337, 1e-3, 3.14159])
    keys = jax.random.split(KEY, 20_000)
    rounded = np.asarray(jax.vmap(lambda key: round_at_random(key, values))(keys), float)
    assert (rounded == np.asarray(jnp.asarray(rounded).astype(jnp.bfloat16), float)).all()
    assert (rounded[:, 0] == 1).all()  # what bfloat16 has stays
    assert all(len(set(column)) == 2 for column in rounded[:, 1:].T)
    error = np.abs(rounded.mean(0) - np.asarray(values, float))
    assert (error <= 6 * rounded.std(0) / np.sqrt(len(keys)) + 1e-9).all()
    assert not np.isfinite(round_at_random(KEY, jnp.asarray([jnp.inf, jnp.nan]))).any()


def low_precision_optimum(anchor):
    """The optimum with inputs in bfloat16, and how far roundings of outputs and gradients can move it."""
    x = np.asarray(jnp.asarray(MODEL.x).astype(jnp.bfloat16), float)
    precision = x.T @ x / MODEL.noise**2 + MODEL.prior_precision
    found = np.linalg.solve(precision, x.T @ MODEL.y / MODEL.noise**2 + MODEL.prior_precision @ anchor)
    # Each output, residual, and product of the gradient is off by 2^-8 of its size at most.
    sizes = 2.0**-8 * (np.abs(x @ found) + np.abs(MODEL.y - x @ found)) / MODEL.noise**2
    return found, np.abs(np.linalg.solve(precision, x.T)) @ (2 * sizes)


def test_means_in_low_precision_are_nearer_than_their_places():
    """Places are off by bfloat16's roundings, at random; over chains and places the mean is not."""
    rate = float(0.3 * MODEL.rows / np.linalg.eigvalsh(MODEL.precision)[-1])
    then = aw.Training(aw.SGD(rate), epochs=20, batch_size=MODEL.rows)
    method = aw.SWALP(MODEL.training(), then, points=16)
    runner = aw.Local(threads=1, lanes=50)
    posterior = aw.sample(KEY, MODEL.problem, aw.Plan(method, chains=50), runner=runner, callbacks=[])
    means = stacked_params(posterior)["w"].astype(float)
    exact, moved = low_precision_optimum(np.full(3, MODEL.mean))
    noise = means.std(0, ddof=1) / np.sqrt(len(means))
    assert (np.abs(means.mean(0) - exact) < moved + 6 * noise).all()
    # A place is one of bfloat16's numbers, two of which are 2^-8 of their size apart.
    assert (noise * np.sqrt(len(means)) < 2.0**-8 * np.abs(exact)).all()
    assert (means != np.asarray(jnp.asarray(means).astype(jnp.bfloat16), float)).any()


def test_later_members_in_low_precision_follow_their_anchors():
    rate = float(0.3 * MODEL.rows / np.linalg.eigvalsh(MODEL.precision)[-1])
    then = aw.Training(aw.SGD(rate), epochs=20, batch_size=MODEL.rows)
    method = aw.LowPrecisionSAE(MODEL.training(), then, aw.GuidedWalk(0.1), points=8)
    plan, store = aw.Plan(method, chains=20, members=4), aw.MemoryStore()
    posterior = aw.sample(KEY, MODEL.problem, plan, runner=aw.Local(1, 20), store=store, callbacks=[])
    anchors = [MODEL.mean + MODEL.scale * np.asarray(store.state(chain).walk.position) for chain in range(20)]
    assert np.ptp(anchors, axis=0).min() > 1
    errors, bounds = [], []
    for chain, anchor in enumerate(anchors):
        exact, moved = low_precision_optimum(anchor)
        errors.append(posterior[chain, 3].params["w"] - exact)
        bounds.append(moved + 2.0**-8 * np.abs(exact))  # and one rounding, which the mean of eight is well within
    assert (np.abs(errors) < np.asarray(bounds)).all()
    assert aw.Plan(method, 1, 3).epochs == method.first.epochs + 2 * 8 * 20


def test_a_triangle_rises_and_falls():
    steps = 10
    optimizer = Triangle(aw.SGD(2.0), low=0.1).build(steps)
    state, moves = optimizer.init(jnp.zeros(())), []
    for _ in range(steps):
        update, state = optimizer.update(jnp.ones(()), state)
        moves.append(-float(update))
    np.testing.assert_allclose(
        moves, 2 * (0.1 + 0.9 * np.array([0.2, 0.4, 0.6, 0.8, 1, 0.8, 0.6, 0.4, 0.2, 0])), rtol=1e-5
    )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: aw.SWA(None, None), r"SWA\(then=\)"),
        (lambda: aw.SWA(None, SHORT, points=1), r"SWA\(points=\)"),
        (lambda: aw.SWAG(None, SHORT, points=3, rank=4), r"SWAG\(rank=\)"),
        (lambda: aw.Plan(aw.SWA(None, SHORT), members=2), "one member a chain"),
        (lambda: aw.Plan.from_budget(1000, aw.SWAG(None, SHORT)), "members"),
        (lambda: aw.Snapshot(1), r"Snapshot\(cycle=\)"),
        (lambda: aw.FGE(None, SHORT, low=2), r"FGE\(low=\)"),
        (lambda: aw.LowPrecisionSAE(SHORT, SHORT, keep_optimizer=True), "keep_optimizer"),
    ],
)
def test_wrong_settings_are_refused(make, words):
    with pytest.raises(InvalidInput, match=words):
        make()


def test_an_optimiser_around_soap_does_its_work_between_stretches():
    """With nothing changed, the wrapped training is the plain one: factors are learnt and bases renewed alike."""
    problem = small_problem()
    plain = aw.Training(aw.SOAP(0.01, refresh=2), epochs=4, batch_size=7)
    start = tree.typed(problem.init(KEY))
    anchor = problem.prior.anchor(jax.tree.map(jnp.zeros_like, start))
    found = train(KEY, problem, plain.using(Triangle(plain.optimizer, low=1.0)), anchor, start)
    expected = train(KEY, problem, plain, anchor, start)
    np.testing.assert_allclose(tree.ravel(found.params), tree.ravel(expected.params), rtol=2e-5, atol=2e-6)
    assert np.abs(tree.ravel(found.params) - tree.ravel(start)).max() > 0.01


def test_low_precision_goes_with_soap():
    training = aw.Training(aw.SOAP(0.01, refresh=2), epochs=6, batch_size=7)
    problem = small_problem()
    start = tree.typed(problem.init(KEY))
    anchor = problem.prior.anchor(jax.tree.map(jnp.zeros_like, start))
    low = train_half(KEY, problem, training, anchor, start)
    exact = train(KEY, problem, training, anchor, start)
    # The order of rows is another one, so that they agree as two trainings do: far less than they move.
    moved = np.linalg.norm(tree.ravel(exact.params) - tree.ravel(start))
    assert np.linalg.norm(tree.ravel(low.params) - tree.ravel(exact.params)) < 0.5 * moved
    assert float(low.losses[5]) == pytest.approx(float(exact.losses[5]), rel=0.2)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(low.params))


def test_a_later_member_is_the_mean_of_its_ends():
    """One end is a number of bfloat16; of the mean of two, which begin alike, the other one follows."""
    then, found = aw.Training(aw.SGD(0.01), epochs=1, batch_size=7), []
    for points in (1, 2):
        method = aw.LowPrecisionSAE(FIRST, then, aw.GuidedWalk(0.1), points=points)
        posterior = aw.sample(KEY, small_problem(), aw.Plan(method, 1, 2), callbacks=[])
        found.append([np.asarray(tree.ravel(member.params)) for member in posterior])
    (first, one), (same, mean) = found
    np.testing.assert_array_equal(first, same)
    assert (first != narrowed(first)).any()
    np.testing.assert_array_equal(one, narrowed(one))
    assert (mean != narrowed(mean)).any()
    other = 2 * mean - one
    assert np.abs(other - one).max() > 1e-3
    np.testing.assert_allclose(other, narrowed(other), rtol=1e-6, atol=1e-8)  # two operations in float32


def narrowed(values):
    return np.asarray(jnp.asarray(values).astype(jnp.bfloat16).astype(jnp.float32))
