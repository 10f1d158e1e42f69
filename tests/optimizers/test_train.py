import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.objective import anchored_loss, validation_loss
from anchorwalk.optimizers import shuffled, train
from anchorwalk.optimizers.train import PACKED, random_order
from anchorwalk.run.store import fingerprint
from helpers import small_problem


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Falling:
    """An optimiser of one's own, whose rate falls along a line."""

    rate: float

    def build(self, steps):
        return optax.sgd(optax.linear_schedule(self.rate, 0.0, steps))


@jax.tree_util.register_dataclass
@dataclasses.dataclass(frozen=True)
class Wrong(Falling):
    def build(self, steps):
        return self.rate


class Unregistered:
    def build(self, steps):
        return optax.sgd(0.1)


@pytest.mark.parametrize(("n", "size"), [(20, 7), (21, 7), (5, 5), (6, 1), (5000, 999)])
def test_an_epoch_visits_every_row_once(n, size):
    batches = shuffled(jax.random.key(0), small_problem(rows=n).data, size)
    found = [batches[step] for step in range(batches.steps)]
    visited = np.concatenate([batch.indices[batch.present] for batch in found])
    assert sorted(visited.tolist()) == list(range(n))
    assert visited.tolist() != list(range(n))


def test_every_order_is_as_likely():
    data = small_problem(rows=3).data
    orders = jax.vmap(lambda k: shuffled(k, data, 2).order)(jax.random.split(jax.random.key(0), 6000))
    _, counts = np.unique(np.asarray(orders), axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.all(np.abs(counts - 1000) < 5.33 * np.sqrt(6000 * 1 / 6 * 5 / 6))


@pytest.mark.parametrize(("n", "room"), [(20, 32), (3000, 4096), (4097, 5000), (4000, 5000)])
def test_an_order_does_not_depend_on_rows_that_fill_up(n, room):
    alone = random_order(jax.random.key(0), n, n)
    among = jax.jit(lambda n: random_order(jax.random.key(0), n, room))(n)
    if (n > PACKED) == (room > PACKED):
        np.testing.assert_array_equal(among[:n], alone)
    assert sorted(among[:n].tolist()) == list(range(n))
    assert sorted(among.tolist()) == list(range(room))


def twin(key, problem, training, anchor, params):
    """Training written as a plain loop."""
    optimizer = training.optimizer.build(training.steps(problem.n))
    state = optimizer.init(params)
    losses, found, best = [], params, np.inf
    value_and_grad = jax.jit(jax.value_and_grad(lambda p, b: anchored_loss(problem, anchor, p, b)))
    for epoch in range(training.epochs):
        batches = shuffled(jax.random.fold_in(key, epoch), problem.data, training.batch_size)
        total = 0.0
        for step in range(batches.steps):
            batch = batches[step]
            loss, gradient = value_and_grad(params, batch)
            updates, state = optimizer.update(gradient, state, params)
            params = optax.apply_updates(params, updates)
            total += float(loss) * int(batch.present.sum())
        losses.append(total / problem.n)
        if training.keep == "best":
            loss = float(validation_loss(problem, anchor, params, training.batch_size))
            found, best = (params, loss) if loss < best else (found, best)
    return (found if training.keep == "best" else params), losses


@pytest.mark.parametrize(
    "optimizer",
    [
        aw.Adam(0.02, end_rate=1e-3),
        aw.SGD(0.005, momentum=0.9, nesterov=True),
        aw.Lion(0.01, end_rate=1e-4),
        optax.rmsprop(0.01),
        Falling(0.01),
    ],
)
def test_training_is_the_plain_loop(optimizer):
    problem = small_problem()
    training = aw.Training(optimizer, epochs=3, batch_size=7)
    params, anchor = problem.init(jax.random.key(1)), problem.prior.draw(jax.random.key(2), problem.params_like)
    found, losses, _ = jax.jit(train)(jax.random.key(3), problem, training, anchor, params)
    expected, expected_losses = twin(jax.random.key(3), problem, training, anchor, params)
    np.testing.assert_allclose(losses[: training.epochs], expected_losses, rtol=1e-4)
    assert np.isnan(losses[training.epochs :]).all()
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def varying_problem():
    """A line whose noise grows with x, from outputs (mean, scale) that share no parameter."""
    rng = np.random.default_rng(5)
    x = rng.uniform(size=60).astype(np.float32)
    y = 2 * x + (0.05 + x) * rng.normal(size=60).astype(np.float32)

    def apply(params, x):
        return jnp.stack([params["mean"] * x, params["noise"][0] + params["noise"][1] * x], axis=-1)

    start = {"mean": jnp.float32(0), "noise": jnp.asarray([0.0, 0.0])}
    return aw.Problem(lambda key: start, apply, aw.HeteroscedasticNormal(), aw.Prior(10.0), (x, y))


def test_the_mean_is_learned_first_for_a_share_of_the_epochs():
    """Full batches and a rate so low that a step is the gradient: with an even noise that of least squares."""
    problem = varying_problem()
    noise, x, y = jnp.asarray([-3.0, 3.0]), problem.data.x, problem.data.y
    start, anchor = {"mean": jnp.float32(0), "noise": noise}, {"mean": jnp.float32(0), "noise": noise}
    scale = jax.nn.softplus(noise[0] + noise[1] * x)
    rate = 1e-3

    def moved(mean_first, epochs):
        training = aw.Training(aw.SGD(rate, end_rate=rate), epochs, batch_size=60, mean_first=mean_first)
        return train(jax.random.key(0), problem, training, anchor, start).params

    even, plain = (float((x * y / variance).mean()) for variance in (jnp.mean(scale**2), scale**2))
    assert plain > 1.1 * even
    assert float(moved(1.0, 1)["mean"]) == pytest.approx(rate * even, rel=1e-4)
    assert float(moved(0.0, 1)["mean"]) == pytest.approx(rate * plain, rel=1e-4)
    assert float(moved(None, 1)["mean"]) == pytest.approx(float(moved(0.0, 1)["mean"]), rel=1e-6)
    half = float(moved(0.5, 2)["mean"])  # one epoch of each; the second begins where the first has ended
    assert half == pytest.approx(rate * (even + plain), rel=0.03)
    for share in (1.0, None):
        np.testing.assert_allclose(moved(share, 1)["noise"], moved(0.0, 1)["noise"], rtol=1e-6)


def test_only_noise_that_varies_can_wait_for_the_mean():
    problem = small_problem()
    plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.1), 1, 7, mean_first=0.5)))
    with pytest.raises(InvalidInput, match=r"mean_first=0.5 with .*HeteroscedasticNormal\(\).*mean_first=None"):
        aw.sample(jax.random.key(0), problem, plan, callbacks=[])


def test_keep_best_returns_the_best_epoch_on_validation_rows():
    base = small_problem()
    # Validation rows that contradict the data: the better the fit, the worse they do.
    problem = small_problem(validation=(base.data.x, -base.data.y))
    training = aw.Training(aw.Adam(0.05), epochs=9, batch_size=5, keep="best")
    params, anchor = problem.init(jax.random.key(1)), problem.prior.draw(jax.random.key(2), problem.params_like)
    found, _, _ = train(jax.random.key(3), problem, training, anchor, params)
    expected, _ = twin(jax.random.key(3), problem, training, anchor, params)
    last, _, _ = train(jax.random.key(3), problem, aw.Training(training.optimizer, 9, 5), anchor, params)
    best, final = (validation_loss(problem, anchor, p, 5) for p in (found, last))
    assert best < final  # else this test would say nothing
    assert best == pytest.approx(float(validation_loss(problem, anchor, expected, 5)), rel=1e-3)


def test_cosine_runs_from_rate_to_end_rate():
    build = aw.SGD(0.4, end_rate=0.1).build(10)
    state = build.init(jnp.zeros(()))
    rates = []
    for _ in range(11):
        update, state = build.update(jnp.ones(()), state)
        rates.append(-float(update))
    assert rates[0] == pytest.approx(0.4)
    assert rates[5] == pytest.approx(0.25)
    assert rates[10] == pytest.approx(0.1)
    constant = aw.SGD(0.4).build(10)
    assert float(constant.update(jnp.ones(()), constant.init(jnp.zeros(())))[0]) == pytest.approx(-0.4)


def test_adam_is_optax_adam():
    ours = aw.Adam(0.01, b1=0.8, b2=0.99, eps=1e-4).build(5)
    theirs = optax.adam(0.01, b1=0.8, b2=0.99, eps=1e-4)
    one, two = ours.init(jnp.ones(2)), theirs.init(jnp.ones(2))
    for gradient in (jnp.array([1.0, -2.0]), jnp.array([0.5, 0.1])):
        (a, one), (b, two) = ours.update(gradient, one), theirs.update(gradient, two)
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_lion_moves_every_parameter_by_the_rate():
    """Two steps by hand: the sign of b1 m + (1 - b1) g, with m the running mean; what weighs nothing decays nothing."""
    lion = aw.Lion(0.5, end_rate=0.1, b1=0.8, b2=0.9).build(2)
    params, state = jnp.array([1.0, -2.0, 3.0]), lion.init(jnp.zeros(3))
    one, state = lion.update(jnp.array([3.0, -1e-6, 0.0]), state, params)
    np.testing.assert_allclose(one, [-0.5, 0.5, 0.0])
    # m = 0.1 * (3, -1e-6, 0); 0.8 m + 0.2 g = (0.24 - 0.22, < 0, > 0); half of the cosine: (0.5 + 0.1) / 2
    two, state = lion.update(jnp.array([-1.1, -1.0, 2.0]), state, params)
    np.testing.assert_allclose(two, [-0.3, 0.3, -0.3], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aw.Adam(0.0), r"Adam\(rate=\): got 0.0"),
        (lambda: aw.Adam(1e-3, end_rate=-1.0), r"Adam\(end_rate=\).*at least zero"),
        (lambda: aw.Adam(1e-3, b1=1.0), r"Adam\(b1=\).*\[0, 1\)"),
        (lambda: aw.Adam(1e-3, eps=0), r"Adam\(eps=\)"),
        (lambda: aw.Lion(-1.0), r"Lion\(rate=\): got -1.0"),
        (lambda: aw.Lion(1e-3, b2=1.0), r"Lion\(b2=\).*\[0, 1\)"),
        (lambda: aw.SGD("fast"), r"SGD\(rate=\): got 'fast'"),
        (lambda: aw.SGD(0.1, momentum=1.5), r"SGD\(momentum=\)"),
        (lambda: aw.Training("adam", 1, 1), r"Training\(optimizer=\): got 'adam'.*Adam\(rate\)"),
        (lambda: aw.Training(aw.SGD(0.1), epochs=0, batch_size=1), r"Training\(epochs=\): got 0"),
        (lambda: aw.Training(aw.SGD(0.1), epochs=1.5, batch_size=1), r"Training\(epochs=\): got 1.5"),
        (lambda: aw.Training(aw.SGD(0.1), epochs=100.0, batch_size=1), r"Pass 100, without the point"),
        (lambda: aw.Training(aw.Adam, 1, 1), r"with brackets"),
        (lambda: aw.Training(optax.adam, 1, 1), r"expected an Optimizer\. Pass .*optax\.adam\(rate\).*build\(steps\)"),
        (
            lambda: aw.Training(Unregistered(), 1, 1),
            r"got a Unregistered that is no pytree, expected an optimiser whose",
        ),
        (lambda: aw.Training(Wrong(0.1), 1, 1).build(1), r"build\(steps\): got 0.1, expected an optax.GradientTransf"),
        (lambda: aw.Adam.from_json({"name": "SGD", "settings": {}}), r"Adam.from_json: got 'SGD', expected the name"),
        (lambda: aw.Adam.from_json({"name": "Adam", "settings": {"pace": 1}}), r"Adam.from_json: got TypeError.*pace"),
        (lambda: aw.Training.from_json({"epochs": 1}), r"Training.from_json: got KeyError.*name"),
        (
            lambda: aw.Training.from_json({"name": "Training", "settings": {"epochs": 1}}),
            r"Training.from_json: got TypeError.*optimizer",
        ),
        (lambda: aw.Training(aw.SGD(0.1), epochs=1, batch_size=0), r"Training\(batch_size=\): got 0"),
        (lambda: aw.Training(aw.SGD(0.1), 1, 1, mean_first=1.5), r"Training\(mean_first=\): got 1.5.*\[0, 1\]"),
        (
            lambda: aw.Training(aw.SGD(0.1), 1, 1, keep="all"),
            r"Training\(keep=\): got 'all', expected one of 'last', 'best'",
        ),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    "optimizer",
    [aw.Adam(1e-3, b1=0.8), aw.SGD(0.1, end_rate=0.0, momentum=0.9, nesterov=True), aw.Lion(1e-4)],
    ids=repr,
)
def test_trainings_are_made_again_from_their_json(optimizer):
    training = aw.Training(optimizer, epochs=2, batch_size=8, keep="best", evaluate=False, mean_first=0.5)
    encoded = json.loads(json.dumps(training.to_json()))
    assert aw.Training.from_json(encoded) == training
    assert encoded["name"] == "Training"
    assert type(optimizer).from_json(encoded["settings"]["optimizer"]) == optimizer


def test_the_code_of_other_optimizers_is_not_in_their_json():
    for optimizer, name in ((optax.adam(1e-3), "optax"), (Falling(0.1), "Falling")):
        encoded = aw.Training(optimizer, 2, 8).to_json()
        assert encoded["settings"]["optimizer"] == {"name": name}
        with pytest.raises(InvalidInput, match=rf"Training.from_json: got '{name}', expected a class of this package"):
            aw.Training.from_json(encoded)


def test_the_fingerprint_of_an_own_optimizer_is_of_what_it_computes():
    def text(rate, rows):
        return fingerprint.of_training(aw.Training(Falling(rate), 3, 8), {"w": jnp.zeros(3)}, rows)

    assert text(0.1, 24).startswith("Falling(rate=0.1) ")
    assert text(0.1, 24) == text(0.1, 24)
    assert len({text(0.1, 24), text(0.2, 24), text(0.1, 48)}) == 3  # with more steps its rate falls more slowly
    assert (
        fingerprint.of_training(aw.Training(aw.SGD(0.1), 3, 8), {}, 24)
        == f"{aw.SGD(0.1)}, epochs=3, batch_size=8, keep='last'"
    )
    first = aw.Training(aw.SGD(0.1), 3, 8, mean_first=0.5)
    assert fingerprint.of_training(first, {}, 24).endswith("keep='last', mean_first=0.5")


def test_trainings_can_be_compared():
    assert aw.Training(aw.Adam(1e-3), 2, 8) == aw.Training(aw.Adam(0.001), 2, 8)
    assert hash(aw.Training(aw.Adam(1e-3), 2, 8)) == hash(aw.Training(aw.Adam(0.001), 2, 8))
    assert aw.Training(aw.Adam(1e-3), 2, 8) != aw.Training(aw.Adam(1e-2), 2, 8)
