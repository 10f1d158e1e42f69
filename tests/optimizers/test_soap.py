"""SOAP beside its algorithm written out, and how trees become matrices."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.optimizers import soap, train
from helpers import small_problem

RATE = 0.1


def quadratic(seed=0, shape=(4, 3)):
    """A badly conditioned loss of a matrix, as a function of it, and a place to start from."""
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(n, n)))[0] for n in shape)
    stiff = np.logspace(0, 3, shape[0])[:, None] * np.logspace(0, 3, shape[1])[None]
    goal = rng.normal(size=shape)
    return lambda w: 0.5 * jnp.sum(stiff * jnp.square(left.T @ (w - goal) @ right)), jnp.zeros(shape)


def by_hand(gradients, b1, b2, eps, refresh, rate):
    """The algorithm in NumPy, matrix by matrix: the moves that it makes on a sequence of gradients."""
    m, n = gradients[0].shape
    mean, square = np.zeros((m, n)), np.zeros((m, n))
    left, right, q, p = np.zeros((m, m)), np.zeros((n, n)), np.eye(m), np.eye(n)
    moves, longest = [], max(1, (1 - b1) / np.sqrt(1 - b2))

    def iterated(factor, basis):
        order = np.argsort(-np.diag(basis.T @ factor @ basis), kind="stable")
        return np.linalg.qr((factor @ basis)[:, order])[0], order

    for step, g in enumerate(gradients):
        if step % refresh == 0:
            straight = q @ mean @ p.T
            q, order = iterated(left, q)
            square = square[order]
            p, order = iterated(right, p)
            square, mean = square[:, order], q.T @ straight @ p
        turned = q.T @ g @ p
        mean, square = b1 * mean + (1 - b1) * turned, b2 * square + (1 - b2) * turned**2
        scaled = mean / (1 - b1 ** (step + 1)) / (np.sqrt(square / (1 - b2 ** (step + 1))) + eps)
        moves.append(-rate * q @ np.clip(scaled, -longest, longest) @ p.T)
        left, right = b2 * left + (1 - b2) * g @ g.T, b2 * right + (1 - b2) * g.T @ g
    return moves


@pytest.mark.parametrize("refresh", [1, 3, 8, 20])
@pytest.mark.parametrize("shape", [(4, 3), (3, 3)])
def test_it_is_the_algorithm(refresh, shape):
    rng = np.random.default_rng(0)
    gradients = [rng.normal(size=shape) @ np.diag(np.logspace(0, 1, shape[1])) for _ in range(30)]
    expected = by_hand(gradients, 0.95, 0.9, 1e-8, refresh, RATE)
    with jax.enable_x64(True):
        optimizer = aw.SOAP(RATE, b2=0.9, refresh=refresh).build(30)
        state = optimizer.init(jnp.zeros(shape, jnp.float64))
        for gradient, move in zip(gradients, expected, strict=True):  # without `step` it counts for itself
            found, state = optimizer.update(jnp.asarray(gradient), state)
            np.testing.assert_allclose(found, move, rtol=1e-6, atol=1e-9)


def test_a_vector_is_moved_as_by_adam():
    gradients = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    ours, adam = aw.SOAP(RATE, end_rate=0.01).build(20), aw.Adam(RATE, end_rate=0.01, b1=0.95, b2=0.95).build(20)
    states = ours.init(jnp.zeros(5)), adam.init(jnp.zeros(5))
    for gradient in gradients:
        a, one = ours.update(gradient, states[0])
        b, two = adam.update(gradient, states[1])
        states = one, two
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)


def test_a_turned_loss_is_descended_faster_than_by_adam():
    # Adam sees a curvature that is turned away from its parameters; in the right basis it would be easy.
    def end(optimizer, seed):
        loss, start = quadratic(seed)
        made = optimizer.build(400)

        def step(carry, _):
            params, state = carry
            updates, state = made.update(jax.grad(loss)(params), state, params)
            return (optax.apply_updates(params, updates), state), None

        return float(loss(jax.lax.scan(step, (start, made.init(start)), None, length=400)[0][0]))

    ratios = [end(aw.SOAP(RATE, end_rate=1e-4), seed) / end(aw.Adam(RATE, end_rate=1e-4), seed) for seed in range(5)]
    assert np.median(ratios) < 0.01


def test_a_training_with_it_is_the_plain_loop():
    problem = small_problem()
    # Seven steps an epoch. A longer side's factor has no full rank here, and rounding would decide its basis.
    training = aw.Training(aw.SOAP(0.02, end_rate=1e-3, refresh=6, largest=3), epochs=5, batch_size=3)
    params, anchor = problem.init(jax.random.key(1)), problem.prior.draw(jax.random.key(2), problem.params_like)
    found, _, _ = jax.jit(train)(jax.random.key(3), problem, training, anchor, params)
    optimizer = training.build(problem.n)
    state = optimizer.init(params)
    from anchorwalk.objective import anchored_loss
    from anchorwalk.optimizers import shuffled

    for epoch in range(5):
        batches = shuffled(jax.random.fold_in(jax.random.key(3), epoch), problem.data, 3)
        for i in range(batches.steps):
            step = epoch * batches.steps + i
            if i % 6 == 0:  # a stretch begins; bases are renewed where a multiple of six is in it
                stretch = range(step, step + (6 if i == 0 else 1))
                state = optimizer.renew(state) if any(one % 6 == 0 for one in stretch) else state
            gradient = jax.grad(lambda p: anchored_loss(problem, anchor, p, batches[i]))(params)  # noqa: B023
            updates, state = optimizer.update(gradient, state, params, step=step)
            state = optimizer.learn(state, jax.tree.map(lambda leaf: leaf[None], gradient), 1)
            params = optax.apply_updates(params, updates)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(params), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def decompositions(monkeypatch, chains, epochs):
    """How many QR decompositions a run makes, however many of them are in its program."""
    done = []
    plain = soap.orthonormal

    def counting(matrix):
        jax.debug.callback(lambda _: done.append(1), matrix)
        return plain(matrix)

    monkeypatch.setattr(soap, "orthonormal", counting)
    problem = small_problem()
    training = aw.Training(aw.SOAP(0.01, refresh=8), epochs=epochs, batch_size=5, evaluate=False)  # 4 steps an epoch
    run = jax.jit(jax.vmap(lambda key, start: train(key, problem, training, start, start), in_axes=(0, 0)))
    keys = jax.random.split(jax.random.key(0), chains)
    jax.block_until_ready(run(keys, jax.vmap(problem.init)(keys)))
    jax.effects_barrier()
    return len(done)


def test_bases_are_renewed_only_when_it_is_due_however_many_chains_go_side_by_side(monkeypatch):
    sides = sum(2 <= n <= 256 for part in soap.Layout(small_problem().params_like).parts for n in side_lengths(part))
    steps = 4 * 16
    due = [s for s in range(steps) if s % 8 == 0]
    for chains in (1, 3):
        assert decompositions(monkeypatch, chains, epochs=16) == chains * sides * len(due)


def side_lengths(part):
    (matrix,) = [
        one
        for one, other in zip(
            soap.Layout(small_problem().params_like).matrices(small_problem().init(jax.random.key(0))),
            soap.Layout(small_problem().params_like).parts,
            strict=True,
        )
        if other == part
    ]
    return matrix.shape if matrix.ndim == 2 else ()


# Trees as matrices


def shapes(params):
    """Shapes of a tree's matrices, after a look that taking them apart and together again changes nothing."""
    layout = soap.Layout(params)
    matrices = layout.matrices(params)
    again = layout.tree(matrices)
    assert jax.tree.structure(again) == jax.tree.structure(params)
    for a, b in zip(jax.tree.leaves(again), jax.tree.leaves(params), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)
    return sorted(matrix.shape for matrix in matrices)


def drawn(like):
    rng = np.random.default_rng(0)
    return jax.tree.map(lambda leaf: jnp.asarray(rng.normal(size=leaf.shape), leaf.dtype), like)


def test_a_kernel_and_its_bias_are_one_matrix():
    network = aw.networks.mlp(8, (50,), 2)
    assert shapes(drawn(network.init(jax.random.key(0)))) == [(9, 50), (51, 2)]
    one = aw.networks.mlp(1, (5,), 1)
    assert shapes(drawn(one.init(jax.random.key(0)))) == [(2, 5), (6, 1)]


def test_what_is_no_pair_goes_by_itself():
    assert shapes({"w": jnp.ones((3, 4))}) == [(3, 4)]
    assert shapes({"w": jnp.ones((3, 4)), "b": jnp.ones(5)}) == [(3, 4), (5,)]
    assert shapes({"w": jnp.ones((3, 4)), "v": jnp.ones((4, 4)), "b": jnp.ones(4)}) == [(3, 4), (4,), (4, 4)]
    assert shapes({"w": jnp.ones((3, 4)), "b": jnp.ones(4), "scale": jnp.ones(4)}) == [(3, 4), (4,), (4,)]
    assert shapes(jnp.ones(())) == [(1,)]
    assert shapes([jnp.ones((5, 5, 2, 7)), jnp.ones(7)]) == [(51, 7)]
    assert shapes({"w": jnp.ones((3, 4), jnp.bfloat16), "b": jnp.ones(4, jnp.bfloat16)}) == [(4, 4)]


def test_a_kernel_and_bias_of_flax():
    nn = pytest.importorskip("flax.linen")

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(6, (3, 3))(x))
            return nn.Dense(4)(x.reshape(x.shape[0], -1))

    network = aw.from_flax(Net(), jnp.ones((1, 5, 5, 2)))
    assert shapes(drawn(network.init(jax.random.key(0)))) == [(3 * 3 * 2 + 1, 6), (5 * 5 * 6 + 1, 4)]


def test_a_weight_and_bias_of_equinox_have_their_outputs_first():
    eqx = pytest.importorskip("equinox")
    linear = eqx.nn.Linear(3, 7, key=jax.random.key(0))
    assert shapes(eqx.filter(linear, eqx.is_array)) == [(4, 7)]
    square = eqx.filter(eqx.nn.Linear(5, 5, key=jax.random.key(0)), eqx.is_array)
    layout = soap.Layout(square)
    np.testing.assert_array_equal(layout.matrices(square)[0][:5], square.weight.T)
    conv = eqx.nn.Conv2d(2, 6, 3, key=jax.random.key(0))
    assert shapes(eqx.filter(conv, eqx.is_array)) == [(2 * 3 * 3 + 1, 6)]


def test_a_kernel_and_bias_of_haiku():
    hk = pytest.importorskip("haiku")
    network = aw.from_haiku(hk.transform(lambda x: hk.nets.MLP([6, 2])(x)), jnp.ones((1, 3)))
    assert shapes(drawn(network.init(jax.random.key(0)))) == [(4, 6), (7, 2)]


def test_long_sides_have_no_basis():
    state = aw.SOAP(0.1, largest=20).build(1).init({"w": jnp.ones((1000, 8)), "v": jnp.ones((3, 4))})
    words, other = sorted(state.matrices, key=lambda one: -one.mean.size)
    assert words.left is None
    assert words.right.basis.shape == (8, 8)
    assert (other.left.basis.shape, other.right.basis.shape) == ((3, 3), (4, 4))


def test_it_is_stored_and_refused_as_the_others():
    recipe = aw.SOAP(3e-3, end_rate=3e-5, refresh=7)
    assert aw.SOAP.from_json(recipe.to_json()) == recipe
    for options, message in (
        ({"rate": 0.0}, "SOAP(rate=)"),
        ({"rate": 0.1, "b2": 1.0}, "SOAP(b2=)"),
        ({"rate": 0.1, "refresh": 0}, "SOAP(refresh=)"),
        ({"rate": 0.1, "largest": -1}, "SOAP(largest=)"),
    ):
        with pytest.raises(InvalidInput, match=re.escape(message)):
            aw.SOAP(**options)


def test_threads_do_not_block_one_another():
    training = aw.Training(aw.SOAP(0.01, refresh=1), epochs=30, batch_size=2, evaluate=False)
    runner = aw.Local(threads=4, lanes=3)
    posterior = aw.sample(jax.random.key(0), small_problem(), aw.Plan(aw.AE(training), 24), runner=runner, callbacks=[])
    assert len(posterior) == 24


@pytest.mark.parametrize("shape", [(6, 3), (3, 7)])
def test_bases_stay_orthonormal_where_gradients_show_few_directions(shape):
    # One gradient of rank one, with a row and a column of zeros, as units that never fire leave them.
    gradient = np.outer(np.arange(shape[0]), np.arange(shape[1])).astype(np.float32)
    for scale in (0.0, 1e-15, 1.0, 1e15):
        optimizer = aw.SOAP(RATE, refresh=1).build(10)
        state = optimizer.init(jnp.zeros(shape))
        for _ in range(10):
            moves, state = optimizer.update(scale * gradient, state)
        for side in (state.matrices[0].left, state.matrices[0].right):
            np.testing.assert_allclose(side.basis @ side.transposed, np.eye(len(side.basis)), atol=2e-6)
        assert np.isfinite(moves).all()


def test_dependent_rows_are_made_orthonormal_too():
    rows = np.ones((5, 5), np.float32)
    rows[3] = [0, 0, 1, 0, 0]
    found = soap.orthonormal(jnp.asarray(rows))
    np.testing.assert_allclose(found @ found.T, np.eye(5), atol=2e-6)
    assert np.linalg.norm(found[:4] @ rows[3]) == pytest.approx(1, abs=1e-5)


def test_rows_are_made_orthonormal_one_after_the_other():
    rows = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32) * np.logspace(0, -6, 40)[:, None]
    found = soap.orthonormal(jnp.asarray(rows, jnp.float32))
    np.testing.assert_allclose(found @ found.T, np.eye(40), atol=2e-6)
    expected = np.linalg.qr(rows.T)[0].T
    signs = np.sign(np.sum(expected * found, axis=1, keepdims=True))
    np.testing.assert_allclose(found, signs * expected, atol=1e-4)
