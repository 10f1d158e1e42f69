"""The one call: bookkeeping, compilations, failures, callbacks, Ctrl-C."""

import os
import signal
import warnings
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import DivergedWarning, InterruptedWarning, InvalidInput, Status, TrainingFailed
from anchorwalk.objective import evaluate
from anchorwalk.optimizers import train
from anchorwalk.run.keys import Stream, member_keys
from anchorwalk.run.runners import sequential, vectorized
from anchorwalk.run.store import MemoryStore, fingerprint
from helpers import LinearGaussian, leaves_equal, small_apply, small_init, small_plan, small_problem

KEY = jax.random.key(0)


def test_an_sae_chain_of_one_member_is_an_ae_member():
    problem, training = small_problem(), small_plan().first
    walk, runner = aw.GuidedWalk(step_size=0.3), "sequential"
    chains = aw.sequential_anchored_ensemble(
        KEY, problem, 3, 2, training, small_plan().then, walk, runner=runner, callbacks=[]
    )
    members = aw.sample(KEY, problem, aw.Plan(3, 1, training), walk=walk, runner=runner, callbacks=[])
    for chain in range(3):
        assert leaves_equal(chains[chain, 0].params, members[chain, 0].params)


def test_anchored_ensemble_is_algorithm_1():
    # Each member is one training from its own init towards its own draw from the prior: Algorithm 1 by hand.
    problem, training = small_problem(), small_plan().first
    store = MemoryStore()
    ensemble = aw.anchored_ensemble(KEY, problem, 3, training, runner="sequential", store=store, callbacks=[])
    assert [(m.info.chain, m.info.index) for m in ensemble] == [(0, 0), (1, 0), (2, 0)]
    positions = np.stack([np.asarray(tree.ravel(store.state(c).walk.position)) for c in range(3)])
    assert np.abs(np.corrcoef(positions) - np.eye(3)).max() < 0.9  # three draws, not one
    for chain, member in enumerate(ensemble):
        anchor = problem.prior.anchor(store.state(chain).walk.position)
        keys = first_keys(chain)
        start = problem.init(jax.random.fold_in(keys.init, 0))
        params, losses = jax.jit(train)(keys.order, problem, training, anchor, start)
        np.testing.assert_allclose(member.losses, losses, rtol=1e-5)
        for a, b in zip(jax.tree.leaves(member.params), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def first_keys(chain):
    return member_keys(KEY, np.uint32(chain), np.int32(0), False)


def test_all_keys_of_a_run_differ():
    keys = [jax.random.fold_in(KEY, Stream.HOLD_BACK), KEY]
    keys += [jax.random.fold_in(jax.random.fold_in(KEY, Stream.ORDER), i) for i in range(5)]
    for chain in range(5):
        for index in range(5):
            keys += list(member_keys(KEY, np.uint32(chain), np.int32(index), False))
    data = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys)


def test_member_info_holds_the_full_loss_and_gradient_before_and_after():
    problem, plan, store = small_problem(), small_plan(chains=2, members=2), MemoryStore()
    posterior = aw.sample(KEY, problem, plan, store=store, runner="sequential", callbacks=[])
    for chain in range(2):
        anchor = problem.prior.anchor(store.state(chain).walk.position)
        first, second = posterior[chain, 0], posterior[chain, 1]
        for params, loss, norm in (
            (first.params, second.info.loss_start, second.info.gradient_norm_start),  # it starts where the last ended
            (second.params, second.info.loss_end, second.info.gradient_norm_end),
        ):
            expected = evaluate(problem, anchor, params, None, problem.n)
            assert loss == pytest.approx(float(expected.loss), rel=1e-4)
            assert norm == pytest.approx(float(expected.gradient_norm), rel=1e-3)
        assert second.info.loss_end < second.info.loss_start
        assert (first.info.acceptance, first.info.status) == (1.0, Status.OK)
        assert 0 < second.info.acceptance <= 1
        assert first.losses.shape == (4,)
        assert second.losses.shape == (2,)
        assert first.info.seconds > 0


def test_evaluation_can_be_switched_off():
    training = small_plan().first
    with_it = aw.anchored_ensemble(KEY, small_problem(), 2, training, runner="sequential", callbacks=[])
    training = replace(training, evaluate=False)
    without = aw.anchored_ensemble(KEY, small_problem(), 2, training, runner="sequential", callbacks=[])
    assert np.isnan(without[0, 0].info.loss_end)
    assert without.diverged == 0
    np.testing.assert_allclose(without[1, 0].losses, with_it[1, 0].losses, rtol=1e-5)


def test_prior_with_its_own_mean_and_scale_reaches_the_members():
    # A prior of almost no width holds every parameter at its mean.
    problem = aw.Problem(
        small_init, small_apply, aw.Normal(scale=10.0), aw.Prior(scale=1e-3, mean=0.7),
        data=(np.ones((8, 2)), np.ones(8)),
    )  # fmt: skip
    training = aw.Training(aw.Adam(0.1, end_rate=0.0), epochs=400, batch_size=8)
    for leaf in jax.tree.leaves(aw.map_estimate(KEY, problem, training, callbacks=[])[0, 0].params):
        np.testing.assert_allclose(leaf, 0.7, atol=1e-2)


class Compilations:
    """Counts the programs that XLA compiles."""

    def __enter__(self):
        self.count = 0
        jax.monitoring.register_event_duration_secs_listener(self._listen)
        return self

    def __exit__(self, *error):
        jax.monitoring.clear_event_listeners()

    def _listen(self, event, duration, **kwargs):
        self.count += event == "/jax/core/compile/backend_compile_duration"


@pytest.mark.parametrize(("runner", "module"), [("sequential", sequential), ("vectorized", vectorized)])
def test_two_programs_a_run_and_none_for_the_next(runner, module):
    apply_traces = []

    def apply(params, x):
        apply_traces.append(1)
        return small_apply(params, x)

    def problem(scale, noise):
        base = small_problem(scale=scale, noise=noise)
        return aw.Problem(base.init, apply, base.likelihood, aw.Prior(scale=scale), data=(base.data.x, base.data.y))

    def run(key, scale, noise, rate, step, members):
        plan = small_plan(chains=3, members=members, rate=rate)
        walk = aw.GuidedWalk(step_size=step)
        return aw.sample(jax.random.key(key), problem(scale, noise), plan, walk=walk, runner=runner, callbacks=[])

    jax.clear_caches()  # of so many tests' programs in one process `sample` might forget all, and the count with them
    before = module._start._cache_size(), module._step._cache_size()
    run(0, 0.5, 0.3, 0.01, 0.1, members=3)
    assert (module._start._cache_size(), module._step._cache_size()) == (before[0] + 1, before[1] + 1)
    with Compilations() as compilations:
        posterior = run(1, 0.7, 0.2, 0.02, 0.2, members=6)
        assert compilations.count == 0
    assert len(posterior) == 18
    assert (module._start._cache_size(), module._step._cache_size()) == (before[0] + 1, before[1] + 1)
    with Compilations() as compilations:  # the counter does count
        jax.jit(lambda x: x + 1.2345)(1.0)
        assert compilations.count > 0


@tree.node()
@dataclass(frozen=True)
class Stumbling:
    """A walk whose positions are not finite at every third step."""

    def init(self, key, like):
        return aw.WalkState(tree.normal_like(key, like), jnp.zeros((), jnp.int32))

    def step(self, key, state):
        steps = state.memory + 1
        position = tree.normal_like(key, state.position)
        broken = jax.tree.map(lambda leaf: leaf * jnp.nan, position)
        return aw.WalkState(tree.where(steps % 3 == 2, broken, position), steps), aw.WalkInfo(jnp.ones(()))


@pytest.mark.parametrize(("runner", "evaluate_members"), [("vectorized", True), ("sequential", False)])
def test_a_diverged_member_keeps_its_slot_and_the_chain_goes_on(runner, evaluate_members):
    problem, plan = small_problem(), small_plan(chains=2, members=4)
    plan = aw.Plan(
        2, 4, *(aw.Training(t.optimizer, t.epochs, 7, evaluate=evaluate_members) for t in (plan.first, plan.then))
    )
    store = MemoryStore()
    with pytest.warns(DivergedWarning, match=r"2 of 8 members did not stay finite and are left out") as caught:
        posterior = aw.sample(KEY, problem, plan, walk=Stumbling(), runner=runner, store=store, callbacks=[])
    assert caught[0].filename == __file__  # it points at the caller
    assert [info.status for info in posterior.infos] == [0, 0, 1, 0] * 2
    assert (len(posterior), posterior.diverged) == (6, 2)
    assert [(m.info.chain, m.info.index) for m in posterior] == [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 3)]
    assert posterior[0, 2].info.status == Status.DIVERGED
    assert all(np.isfinite(leaf).all() for m in posterior for leaf in jax.tree.leaves(m.params))
    prediction = posterior.predict(problem.data.x)
    assert np.isfinite(prediction.mean).all()
    assert "2 diverged" in repr(posterior)
    if evaluate_members:  # the next member starts from the last good optimum, under its own anchor
        anchor = problem.prior.anchor(store.state(1).walk.position)
        expected = evaluate(problem, anchor, posterior[1, 1].params, None, problem.n)
        assert posterior[1, 3].info.loss_start == pytest.approx(float(expected.loss), rel=1e-4)


def sometimes_nan_init(key):
    bad = jax.random.uniform(jax.random.fold_in(key, 1)) < 0.5
    return {"w": jnp.where(bad, jnp.nan, jax.random.normal(key, (3,)))}


def always_nan_init(key):
    return {"w": jnp.full(3, jnp.nan)}


def linear(params, x):
    return x @ params["w"]


def test_a_failed_first_member_is_initialised_anew_with_the_same_anchor():
    # Six chains at one half each: the chance that none had to try again is 2%, and this key is one that did.
    starts, store, model = [], MemoryStore(), LinearGaussian()
    runner = aw.Vectorized(width=6)

    class Counting:
        width = 6
        step = runner.step

        def start(self, root, recipe, options, chains, attempts):
            starts.append(attempts.tolist())
            return runner.start(root, recipe, options, chains, attempts)

    base = model.problem
    problem = aw.Problem(sometimes_nan_init, linear, base.likelihood, base.prior, data=(model.x, model.y))
    plan = aw.Plan(6, 1, model.training())
    posterior = aw.sample(KEY, problem, plan, runner=Counting(), store=store, callbacks=[])
    assert starts[0] == [0] * 6
    assert len(starts) > 1
    assert max(starts[-1]) == len(starts) - 1 <= 3
    assert 0 in starts[-1]  # a chain that was good at once is not started anew
    assert posterior.diverged == 0
    expected = jax.vmap(
        lambda c: aw.GuidedWalk(0.1).init(member_keys(KEY, c, np.int32(0), False).walk, base.params_like)
    )
    anchors = expected(np.arange(6, dtype=np.uint32)).position
    for chain in range(6):  # the anchor is that of the first attempt, and the optimum is the anchor's
        position = store.state(chain).walk.position["w"]
        np.testing.assert_allclose(position, anchors["w"][chain], rtol=1e-6)
        found = posterior[chain, 0].params["w"]
        np.testing.assert_allclose(found, model.optimum(model.scale * position), atol=2e-5)


def test_a_chain_that_never_starts_is_an_error():
    model, tries = LinearGaussian(), MemoryStore()
    problem = aw.Problem(always_nan_init, linear, aw.Normal(scale=0.5), aw.Prior(), data=(model.x, model.y))
    with pytest.raises(
        TrainingFailed, match=r"chain 0.* did not stay finite in 4 attempts.*Lower the optimiser's rate"
    ):
        aw.sample(KEY, problem, aw.Plan(2, 1, model.training()), runner="sequential", store=tries, callbacks=[])
    assert tries.infos() == []


def test_the_progress_bar(capsys):
    aw.sample(
        KEY, small_problem(), small_plan(), runner="sequential", callbacks=[aw.Progress("walking", disable=False)]
    )
    text = capsys.readouterr().err
    assert "walking: 100%" in text
    assert "24/24" in text
    assert "9/9 members, loss" in text
    aw.sample(KEY, small_problem(), small_plan(), runner="sequential")  # no terminal here: silent
    assert capsys.readouterr().err == ""


def test_ctrl_c_ends_the_run_after_the_round_with_the_members_so_far():
    store, seen = MemoryStore(), []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(round_info):
        seen.append(round_info)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    arguments = (KEY, small_problem(), small_plan(chains=2, members=4))
    with pytest.warns(InterruptedWarning, match="interrupted with 4 of 8 members done"):
        posterior = aw.sample(*arguments, runner="sequential", store=store, callbacks=[interrupt])
    assert len(posterior) == 4
    assert not posterior.complete
    assert "not complete" in repr(posterior)
    assert signal.getsignal(signal.SIGINT) is before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = aw.sample(*arguments, runner="sequential", store=store, callbacks=[])  # and goes on from there
    assert len(whole) == 8
    assert whole.complete


def test_a_second_ctrl_c_does_not_wait():
    def impatient(round_info):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    store = MemoryStore()
    with pytest.raises(KeyboardInterrupt):
        aw.sample(KEY, small_problem(), small_plan(), runner="sequential", store=store, callbacks=[impatient])
    assert len(store.infos()) == 1  # what was finished is kept


def test_keep_best_holds_back_a_tenth():
    training = aw.Training(aw.Adam(0.01), epochs=2, batch_size=6, keep="best")
    posterior = aw.anchored_ensemble(KEY, small_problem(), 2, training, callbacks=[])
    assert len(posterior) == 2
    own = small_problem(rows=18, validation=(np.ones((2, 2)), np.ones(2)))  # the shapes of the split: no new program
    assert len(aw.anchored_ensemble(KEY, own, 2, training, callbacks=[])) == 2
    with pytest.raises(InvalidInput, match="batch_size=19 for 18 rows"):
        aw.anchored_ensemble(KEY, small_problem(), 2, aw.Training(aw.Adam(0.01), 2, 19, keep="best"), callbacks=[])


class Unregistered:
    """A walk that was not made a pytree."""

    def init(self, key, like):
        return aw.WalkState(tree.normal_like(key, like), ())

    def step(self, key, state):
        return state, aw.WalkInfo(jnp.ones(()))


@tree.node()
@dataclass(frozen=True)
class Lopsided:
    """A walk whose step forgets the info."""

    def init(self, key, like):
        return aw.WalkState(tree.normal_like(key, like), ())

    def step(self, key, state):
        return state


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": 0}, r"key: got 0, expected one typed key.*jax.random.key\(seed\)"),
        ({"key": jax.random.PRNGKey(0)}, r"expected one typed key"),
        ({"key": jax.random.key(0, impl="rbg")}, r"the implementation 'rbg', expected 'threefry2x32'"),
        ({"walk": aw.GuidedWalk}, r"walk: got the class GuidedWalk, expected an instance of it"),
        ({"walk": "guided"}, r"walk: got 'guided', expected a Walk.*step\(key, state\)"),
        ({"walk": Unregistered()}, r"walk: got a Unregistered that is no pytree.*register_dataclass"),
        ({"walk": Lopsided()}, r"walk.step: got .*expected \(WalkState, WalkInfo\)"),
        ({"key": jax.random.split(KEY, 2)}, r"an array of 2 keys, expected one typed key.*keys\[0\]"),
        ({"runner": 8}, r"runner: got 8, expected a Runner"),
        ({"runner": aw.Sequential}, r"runner: got the class Sequential"),
        ({"callbacks": aw.Progress()}, r"callbacks: got .*expected a list of functions.*\[Progress\(\)\]"),
        ({"problem": None}, r"problem: got NoneType"),
        ({"plan": 100}, r"plan: got int.*Plan.from_budget"),
        (
            {"plan": small_plan(batch_size=21)},
            r"Plan\(first=\): got batch_size=21 for 20 rows.*Set batch_size=20 or less",
        ),
        ({"perturb_targets": True}, None),
    ],
)
def test_bad_arguments_are_refused_before_any_work(changes, message):
    arguments = {"key": KEY, "problem": small_problem(), "plan": small_plan(), "callbacks": [pytest.fail]}
    if message is None:
        model = LinearGaussian()
        logits = aw.Problem(model.problem.init, linear, aw.Poisson(), aw.Prior(), data=(model.x, np.ones(24, int)))
        arguments["problem"] = logits
        message = r"perturb_targets: got True with Poisson\(\), expected a normal likelihood"
    with pytest.raises(InvalidInput, match=message):
        aw.sample(**(arguments | changes))


def test_perturbed_heteroscedastic_targets_run():
    rng = np.random.default_rng(0)
    problem = aw.Problem(
        lambda key: jnp.ones((2, 2)), lambda w, x: x @ w, aw.HeteroscedasticNormal(), aw.Prior(),
        data=(rng.normal(size=(20, 2)), np.linspace(-1, 1, 20)),
    )  # fmt: skip
    store = MemoryStore()
    plan = aw.Plan(2, 1, aw.Training(aw.Adam(0.01), epochs=4, batch_size=20))
    posterior = aw.sample(KEY, problem, plan, perturb_targets=True, runner="sequential", store=store, callbacks=[])
    state = store.state(1)
    found = posterior[1, 0]
    expected = evaluate(problem, problem.prior.anchor(state.walk.position), found.params, state.noise.position, 20)
    assert state.noise.position.shape == (20,)
    assert found.info.loss_end == pytest.approx(float(expected.loss), rel=1e-4)


def test_the_bar_is_closed_however_a_run_ends(capsys):
    class Watched(aw.Progress):
        ended = 0

        def end(self):
            Watched.ended += 1
            super().end()

    def fail(round_info):
        raise RuntimeError("mine")

    store, bar = MemoryStore(), Watched(disable=False)
    with pytest.raises(RuntimeError, match="mine"):
        aw.sample(KEY, small_problem(), small_plan(), runner="sequential", store=store, callbacks=[bar, fail])
    assert len(store.infos()) == 1  # what was finished is kept
    for _ in range(2):  # the second time there is nothing left to do
        aw.sample(KEY, small_problem(), small_plan(), runner="sequential", store=store, callbacks=[bar])
    assert Watched.ended == 3


def test_no_epoch_with_a_finite_validation_loss_is_a_failure():
    x, y = np.ones((8, 1)), np.ones(8, int)
    problem = aw.Problem(
        lambda key: jnp.ones(1), lambda w, x: x @ w, aw.Poisson(), aw.Prior(),
        data=(x, y), validation=(np.full((2, 1), 200.0), np.ones(2, int)),
    )  # fmt: skip
    training = aw.Training(aw.SGD(1e-3), epochs=2, batch_size=8, keep="best")
    with pytest.raises(TrainingFailed):
        aw.map_estimate(KEY, problem, training, callbacks=[])


@pytest.mark.parametrize("evaluate_members", [True, False])
def test_a_loss_that_overflows_at_the_last_step_is_a_failure(evaluate_members):
    problem = aw.Problem(lambda key: jnp.zeros(1), lambda w, x: x @ w, aw.Normal(scale=1.0), aw.Prior(),
                         data=(np.ones((4, 1)), np.ones(4)))  # fmt: skip
    training = aw.Training(aw.SGD(1e10), epochs=2, batch_size=4, evaluate=evaluate_members)
    with pytest.raises(TrainingFailed):
        aw.map_estimate(KEY, problem, training, callbacks=[])


def test_half_precision_parameters_train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 3))
    problem = aw.Problem(
        lambda key: jnp.zeros(3, jnp.bfloat16), lambda w, x: x @ w, aw.Normal(scale=0.1), aw.Prior(scale=1.0),
        data=(x, x @ [1.0, -1.0, 0.5]),
    )  # fmt: skip
    training = aw.Training(aw.Adam(0.1, end_rate=1e-3), epochs=100, batch_size=16, keep="best")
    store = MemoryStore()
    posterior = aw.sample(KEY, problem, aw.Plan(1, 1, training), store=store, callbacks=[])
    assert posterior[0, 0].params.dtype == jnp.bfloat16
    np.testing.assert_allclose(posterior[0, 0].params.astype(float), [1.0, -1.0, 0.5], atol=0.05)
    assert store.state(0).walk.position.dtype == np.float32  # the walk keeps its precision


def test_an_optimiser_that_looks_at_the_loss():
    model = LinearGaussian()
    training = aw.Training(optax.lbfgs(), epochs=15, batch_size=24)
    estimate = aw.map_estimate(KEY, model.problem, training, callbacks=[])[0, 0].params["w"]
    np.testing.assert_allclose(estimate, model.posterior_mean, atol=1e-3)


def test_constants_of_a_jitted_network_are_part_of_it():
    def network(scale):
        return jax.jit(lambda params, x: (x * scale) @ params["w"])

    model = LinearGaussian()
    one, same, other = (
        fingerprint.of_network(aw.Problem(model.problem.init, network(np.array(s)), aw.Normal(scale=1.0), aw.Prior(),
                                          data=(model.x, model.y)))
        for s in ([1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 9.0])
    )  # fmt: skip
    assert one == same != other
    long = np.zeros(4001)
    changed = long.copy()
    changed[2000] = 1
    assert fingerprint.of_settings({"a": long}) != fingerprint.of_settings({"a": changed})
    like = {"w": jnp.zeros(3)}
    rates = [fingerprint.of_training(aw.Training(optax.sgd(r), 1, 1), like) for r in (0.1, 0.1, 0.2)]
    assert rates[0] == rates[1] != rates[2]


def test_posterior_indexing_and_thinning():
    posterior = aw.sample(KEY, small_problem(), small_plan(chains=2, members=5), runner="sequential", callbacks=[])
    thin = posterior.thin(2)
    assert [(m.info.chain, m.info.index) for m in thin] == [(0, 0), (0, 2), (0, 4), (1, 0), (1, 2), (1, 4)]
    assert leaves_equal(thin[1, 2].params, posterior[1, 2].params)
    with pytest.raises(IndexError, match="no member 1 in chain 1"):
        thin[1, 1]
    with pytest.raises(IndexError, match=r"no member 5 in chain 0 \(both from 0\) among 10 members of 2 chains"):
        posterior[0, 5]
    with pytest.raises(InvalidInput, match=r"posterior\[chain, index\]"):
        posterior[3]
    with pytest.raises(InvalidInput, match=r"thin\(every=\): got 0"):
        posterior.thin(0)
    assert repr(posterior) == "Posterior(10 members in 2 chains)"


def test_a_callback_that_cannot_start_leaves_no_other_open():
    ended = []

    class Listener:
        def __init__(self, name, fails=False):
            self.name, self.fails = name, fails

        def start(self, plan, epochs_done):
            if self.fails:
                raise OSError("no room")

        def __call__(self, round_info):
            pass

        def end(self):
            ended.append(self.name)

    listeners = [Listener("one"), Listener("two", fails=True), Listener("three")]
    with pytest.raises(OSError, match="no room"):
        aw.sample(jax.random.key(0), small_problem(), small_plan(), callbacks=listeners)
    assert ended == ["one"]
