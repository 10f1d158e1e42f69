"""The one call: bookkeeping, compilations, failures, callbacks, Ctrl-C."""

import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import (
    DivergedWarning,
    FailedChainsWarning,
    InterruptedWarning,
    InvalidInput,
    Status,
    TrainingFailed,
)
from anchorwalk.methods.member import anchor_at, position_like
from anchorwalk.objective import evaluate
from anchorwalk.optimizers import train
from anchorwalk.run import programs
from anchorwalk.run.keys import Stream, keys_of
from anchorwalk.run.store import DiskStore, MemoryStore, fingerprint
from helpers import LinearGaussian, leaves_equal, small_apply, small_init, small_plan, small_problem, stacked_params

KEY = jax.random.key(0)
ONE = aw.Local(threads=1, lanes=1)


def start_keys(key, chain):
    """The keys of a chain's initialisation and of its first anchor."""
    return jax.random.split(keys_of(key, chain, Stream.START).own)


def run(problem, method, chains=1, members=1, **options):
    return aw.sample(KEY, problem, aw.Plan(method, chains, members), **({"runner": ONE, "callbacks": []} | options))


def test_an_sae_chain_of_one_member_is_the_first_of_a_longer_one():
    problem, method = small_problem(), small_plan(walk=aw.GuidedWalk(step_size=0.3)).method
    chains, members = run(problem, method, 3, 2), run(problem, replace(method, then=None), 3)
    for chain in range(3):
        assert leaves_equal(chains[chain, 0].params, members[chain, 0].params)


def test_an_sae_chain_of_one_member_is_an_ae_member():
    # Both draw anchors and initialisations alike; they differ in the order of rows, which full batches do not see.
    problem, training = small_problem(), small_plan(batch_size=20).method.first
    chains, members = run(problem, aw.SAE(training, walk=aw.Independent()), 3), run(problem, aw.AE(training), 3)
    for chain in range(3):
        pairs = zip(*(jax.tree.leaves(found[chain, 0].params) for found in (chains, members)), strict=True)
        for a, b in pairs:
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_anchored_ensemble_is_algorithm_1():
    # Each member is one training from its own init towards its own draw from the prior: Algorithm 1 by hand.
    problem, training = small_problem(), small_plan().method.first
    store = MemoryStore()
    ensemble = run(problem, aw.AE(training), 3, store=store)
    assert [(m.info.chain, m.info.index) for m in ensemble] == [(0, 0), (1, 0), (2, 0)]
    positions = np.stack([store.state(chain).position for chain in range(3)])
    assert np.abs(np.corrcoef(positions) - np.eye(3)).max() < 0.9  # three draws, not one
    for chain, member in enumerate(ensemble):
        anchor, _ = anchor_at(problem, store.state(chain).position)
        start = problem.init(jax.random.fold_in(start_keys(KEY, chain)[0], 0))
        params, losses, _ = jax.jit(train)(keys_of(KEY, chain, 0).own, problem, training, anchor, start)
        np.testing.assert_allclose(member.trace, losses[: training.epochs], rtol=1e-5)
        for a, b in zip(jax.tree.leaves(member.params), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_sequential_anchored_ensemble_is_algorithm_2():
    # A walk of the anchor, and each training from the optimum before it: Algorithm 2 by hand.
    problem, plan = small_problem(), small_plan(chains=2, members=3, walk=aw.GuidedWalk(step_size=0.3))
    method, store = plan.method, MemoryStore()
    posterior = aw.sample(KEY, problem, plan, runner=ONE, store=store, callbacks=[])
    for chain in range(2):
        init_key, walk_key = start_keys(KEY, chain)
        walk = method.walk.init(walk_key, position_like(problem, perturb_targets=False))
        params = problem.init(jax.random.fold_in(init_key, 0))
        for index in range(3):
            order_key, walk_key = jax.random.split(keys_of(KEY, chain, index).own)
            if index:
                walk, _ = method.walk.step(walk_key, walk)
            training = method.then if index else method.first
            anchor = problem.prior.anchor(tree.unravel(walk.position, problem.params_like))
            params, losses, _ = jax.jit(train)(order_key, problem, training, anchor, params)
            np.testing.assert_allclose(posterior[chain, index].trace, losses[: training.epochs], rtol=1e-4)
            for a, b in zip(jax.tree.leaves(posterior[chain, index].params), jax.tree.leaves(params), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
        for a, b in zip(jax.tree.leaves(store.state(chain).walk), jax.tree.leaves(walk), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("optimizer", [aw.Adam(0.02, end_rate=1e-3), aw.SOAP(0.02, end_rate=1e-3, largest=2)], ids=repr)
def test_a_kept_optimizer_goes_on_where_it_was_with_its_schedule_begun_anew(optimizer):
    problem = small_problem()
    first, then = (aw.Training(optimizer, epochs=epochs, batch_size=7) for epochs in (4, 2))
    method, store = aw.SAE(first, then, aw.GuidedWalk(0.3), keep_optimizer=True), MemoryStore()
    posterior = aw.sample(KEY, problem, aw.Plan(method, members=3), runner=ONE, store=store, callbacks=[])
    init_key, walk_key = start_keys(KEY, 0)
    walk = method.walk.init(walk_key, position_like(problem, perturb_targets=False))
    params, state = problem.init(jax.random.fold_in(init_key, 0)), None
    for index, training in enumerate((first, then, then)):
        order_key, walk_key = jax.random.split(keys_of(KEY, 0, index).own)
        if index:
            walk, _ = method.walk.step(walk_key, walk)
        anchor, _ = anchor_at(problem, walk.position)
        params, losses, state = jax.jit(train)(order_key, problem, training, anchor, params, None, state)
        np.testing.assert_allclose(posterior[0, index].trace, losses[: training.epochs], rtol=1e-3)
        for a, b in zip(jax.tree.leaves(posterior[0, index].params), jax.tree.leaves(params), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-2, atol=1e-3)
    counts = [leaf for leaf in jax.tree.leaves(store.state(0).optimizer) if leaf.dtype == np.int32]
    steps = 3 * np.array([4 + 2 + 2, 2])  # of the whole chain, and of the last training
    assert {int(count) for count in counts} <= set(steps.tolist())
    fresh = aw.sample(KEY, problem, aw.Plan(replace(method, keep_optimizer=False), members=3), runner=ONE, callbacks=[])
    assert leaves_equal(fresh[0, 0].params, posterior[0, 0].params)
    assert not leaves_equal(fresh[0, 1].params, posterior[0, 1].params)


def test_a_shifted_start_is_the_previous_optimum_moved_as_its_anchor_moved():
    problem, training = small_problem(), aw.Training(aw.SGD(0.05), epochs=2, batch_size=20)
    method, store = aw.SAE(training, training, aw.GuidedWalk(0.5), shift_start=True), MemoryStore()
    aw.sample(KEY, problem, aw.Plan(method, members=2), runner=ONE, store=store, callbacks=[])
    before = store.state(0)
    posterior = aw.sample(KEY, problem, aw.Plan(method, members=3), runner=ONE, store=store, callbacks=[])
    old, new = (anchor_at(problem, state.walk.position)[0] for state in (before, store.state(0)))
    start = jax.tree.map(lambda params, a, b: params + (b - a), before.params, old, new)
    order_key, _ = jax.random.split(keys_of(KEY, 0, 2).own)
    expected, losses, _ = jax.jit(train)(order_key, problem, training, new, start)
    np.testing.assert_allclose(posterior[0, 2].trace, losses[:2], rtol=1e-4)
    for a, b in zip(jax.tree.leaves(posterior[0, 2].params), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    loss = posterior[0, 2].info.value("loss_start")
    assert loss == pytest.approx(float(evaluate(problem, new, start, None, problem.n).loss), rel=1e-4)


def test_where_the_data_say_nothing_a_shifted_start_is_the_optimum():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(10, 3)).astype(np.float32), rng.normal(size=10).astype(np.float32)
    problem = aw.Problem(lambda key: jnp.zeros(3), lambda w, x: x @ w, aw.Normal(scale=1e4), aw.Prior(), data=(x, y))
    training = aw.Training(aw.SGD(5.0), epochs=60, batch_size=10)  # the curvature is the prior's, a tenth
    norms = {}
    for shift in (True, False):
        method = aw.SAE(training, training, aw.Independent(), shift_start=shift)
        posterior = run(problem, method, members=4)
        norms[shift] = [info.value("gradient_norm_start") for info in posterior.infos if info.index > 0]
    assert max(norms[True]) < 1e-5
    assert min(norms[False]) > 1e-2


def test_only_optimisers_of_one_kind_are_kept():
    first, then = aw.Training(aw.Adam(0.01), 2, 7), aw.Training(aw.SGD(0.01), 2, 7)
    with pytest.raises(InvalidInput, match=r"SAE\(keep_optimizer=\): got then=SGD.*after first=Adam"):
        run(small_problem(), aw.SAE(first, then, keep_optimizer=True), members=2)


def test_all_keys_of_a_run_differ():
    keys = [KEY, *(jax.random.fold_in(KEY, stream) for stream in Stream if stream != Stream.START)]
    keys += [keys_of(KEY, 0, number).shared for number in (*range(5), Stream.START)]
    for chain in range(5):
        for number in (*range(5), Stream.START):
            own = keys_of(KEY, chain, number).own
            keys += [own, *jax.random.split(own, 3)]
    data = {tuple(np.asarray(jax.random.key_data(key)).tolist()) for key in keys}
    assert len(data) == len(keys)
    shared = [jax.random.key_data(keys_of(KEY, chain, 2).shared).tolist() for chain in range(5)]
    assert shared == [shared[0]] * 5


def test_member_info_holds_the_full_loss_and_gradient_before_and_after():
    problem, plan, store = small_problem(), small_plan(chains=2, members=2), MemoryStore()
    posterior = aw.sample(KEY, problem, plan, store=store, runner=ONE, callbacks=[])
    for chain in range(2):
        anchor, _ = anchor_at(problem, store.state(chain).walk.position)
        first, second = posterior[chain, 0], posterior[chain, 1]
        value = second.info.value
        for params, loss, norm in (
            (first.params, value("loss_start"), value("gradient_norm_start")),  # it starts where the last ended
            (second.params, value("loss_end"), value("gradient_norm_end")),
        ):
            expected = evaluate(problem, anchor, params, None, problem.n)
            assert loss == pytest.approx(float(expected.loss), rel=1e-4)
            assert norm == pytest.approx(float(expected.gradient_norm), rel=1e-3)
        assert value("loss_end") < value("loss_start")
        assert (first.info.value("acceptance"), first.info.status, first.info.good) == (1.0, Status.OK, True)
        assert 0 < value("acceptance") <= 1
        assert first.trace.shape == (4,)
        assert second.trace.shape == (2,)
        assert first.info.seconds > 0
        assert np.isnan(value("nothing that the method says"))


def test_evaluation_can_be_switched_off():
    training = small_plan().method.first
    with_it = run(small_problem(), aw.AE(training), 2)
    without = run(small_problem(), aw.AE(replace(training, evaluate=False)), 2)
    assert np.isnan(without[0, 0].info.value("loss_end"))
    assert without.diverged == 0
    np.testing.assert_allclose(without[1, 0].trace, with_it[1, 0].trace, rtol=1e-5)


def test_prior_with_its_own_mean_and_scale_reaches_the_members():
    # A prior of almost no width holds every parameter at its mean.
    problem = aw.Problem(
        small_init, small_apply, aw.Normal(scale=10.0), aw.Prior(scale=1e-3, mean=0.7),
        data=(np.ones((8, 2)), np.ones(8)),
    )  # fmt: skip
    training = aw.Training(aw.Adam(0.1, end_rate=0.0), epochs=400, batch_size=8)
    for leaf in jax.tree.leaves(run(problem, aw.MAP(training))[0, 0].params):
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


@pytest.mark.parametrize("runner", [ONE, aw.Local(1, 3), aw.Local(2, 2)], ids=repr)
def test_two_programs_a_run_and_none_for_the_next(runner):
    def apply(params, x):  # a function of its own: no other test has compiled anything with it
        return small_apply(params, x)

    def problem(scale, noise):
        base = small_problem(scale=scale, noise=noise)
        return aw.Problem(base.init, apply, base.likelihood, aw.Prior(scale=scale), data=(base.data.x, base.data.y))

    def sampled(key, scale, noise, rate, step, members):
        plan = small_plan(chains=3, members=members, rate=rate, walk=aw.GuidedWalk(step_size=step))
        return aw.sample(jax.random.key(key), problem(scale, noise), plan, runner=runner, callbacks=[])

    programs._programs.clear()  # of so many tests' programs in one process `sample` might forget some here
    sampled(0, 0.5, 0.3, 0.01, 0.1, members=3)
    assert len(programs._programs) == 3
    with Compilations() as compilations:
        posterior = sampled(1, 0.7, 0.2, 0.02, 0.2, members=6)
        assert compilations.count == 0
    assert len(posterior) == 18
    assert len(programs._programs) == 3
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


@pytest.mark.parametrize(("runner", "evaluate_members"), [(aw.Local(lanes=2), True), (ONE, False)])
def test_a_diverged_member_keeps_its_slot_and_the_chain_goes_on(runner, evaluate_members):
    problem, method = small_problem(), small_plan(walk=Stumbling()).method.evaluating(evaluate_members)
    store = MemoryStore()
    with pytest.warns(DivergedWarning, match=r"2 of 8 members did not stay finite and are left out") as caught:
        posterior = run(problem, method, 2, 4, runner=runner, store=store)
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
        anchor, _ = anchor_at(problem, store.state(1).walk.position)
        expected = evaluate(problem, anchor, posterior[1, 1].params, None, problem.n)
        assert posterior[1, 3].info.value("loss_start") == pytest.approx(float(expected.loss), rel=1e-4)


# Chains that fail


def sometimes_nan_init(key):
    bad = jax.random.uniform(jax.random.fold_in(key, 1)) < 0.5
    return {"w": jnp.where(bad, jnp.nan, jax.random.normal(key, (3,)))}


def always_nan_init(key):
    return {"w": jnp.full(3, jnp.nan)}


def linear(params, x):
    return x @ params["w"]


class Counting:
    """A runner that remembers which chains it started, and in which attempt."""

    def __init__(self, runner):
        self.runner, self.starts = runner, []
        self.layout = runner.layout

    def open(self, *arguments):
        session = self.runner.open(*arguments)
        submit = session.submit

        def counted(job):
            if job.number == 0:
                self.starts.append((job.chains.tolist(), job.attempts.tolist()))
            return submit(job)

        session.submit = counted
        return session


def test_a_failed_first_member_is_initialised_anew_with_the_same_anchor():
    # Each attempt is bad by a chance of one half; with this key a chain is good in its last attempt, and none fails.
    key, store, model, runner = jax.random.key(3), MemoryStore(), LinearGaussian(), Counting(aw.Local(lanes=6))
    base = model.problem
    problem = aw.Problem(sometimes_nan_init, linear, base.likelihood, base.prior, data=(model.x, model.y))
    method = aw.SAE(model.training(), walk=aw.GuidedWalk(0.1))
    posterior = aw.sample(key, problem, aw.Plan(method, chains=6), runner=runner, store=store, callbacks=[])
    needed = []
    for chain in range(6):
        init_key, _ = start_keys(key, chain)
        tries = [sometimes_nan_init(jax.random.fold_in(init_key, attempt))["w"] for attempt in range(4)]
        needed.append([bool(jnp.isfinite(found).all()) for found in tries].index(True))
    assert max(needed) == 3
    expected = [[chain for chain in range(6) if needed[chain] >= attempt] for attempt in range(4)]
    assert runner.starts == [(chains, [attempt] * len(chains)) for attempt, chains in enumerate(expected)]
    assert [store.progress()[chain].attempt for chain in range(6)] == needed
    assert posterior.diverged == 0
    assert posterior.failed == ()
    for chain in range(6):  # the anchor is that of the first attempt, and the optimum is the anchor's
        position, like = store.state(chain).walk.position, position_like(base, perturb_targets=False)
        np.testing.assert_allclose(position, method.walk.init(start_keys(key, chain)[1], like).position, rtol=1e-6)
        found = posterior[chain, 0].params["w"]
        np.testing.assert_allclose(found, model.optimum(model.scale * position), atol=2e-5)


@pytest.mark.parametrize(("chains", "named"), [(1, "chain 0"), (2, "chains 0, 1")])
def test_a_run_of_which_no_chain_starts_is_an_error(chains, named):
    model, store, runner = LinearGaussian(), MemoryStore(), Counting(ONE)
    problem = aw.Problem(always_nan_init, linear, aw.Normal(scale=0.5), aw.Prior(), data=(model.x, model.y))
    message = rf"{named} did not stay finite in 4 attempts.*Lower the optimiser's rate"
    for _ in range(2):  # and the second time nothing is tried again
        with pytest.raises(TrainingFailed, match=message):
            run(problem, aw.SAE(model.training()), chains, runner=runner, store=store)
    assert len(runner.starts) == 4 * chains
    assert store.infos() == []
    assert store.failed() == list(range(chains))


@tree.node()
@dataclass(frozen=True)
class LostInTheThird(aw.Independent):
    """A walk whose first position is not finite for one of the chains of a run with the key `KEY`."""

    def init(self, key, like):
        lost = jax.random.key_data(start_keys(KEY, 2)[1])
        state = super().init(key, like)
        broken = jax.tree.map(lambda leaf: leaf * jnp.nan, state.position)
        return state._replace(position=tree.where(jnp.all(jax.random.key_data(key) == lost), broken, state.position))


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("where", ["memory", "disk"])
def test_one_chain_of_several_fails_and_the_others_go_on(tmp_path, lanes, where):
    problem, options = small_problem(), {"members": 3, "rate": 0.01}
    plan = small_plan(chains=4, walk=LostInTheThird(), **options)
    runner = Counting(aw.Local(threads=1, lanes=lanes))
    store = MemoryStore() if where == "memory" else DiskStore(tmp_path / "run")
    message = r"first training of chain 2 did not stay finite in 4 attempts.*The other chains continued"
    with pytest.warns(FailedChainsWarning, match=message) as caught:
        posterior = aw.sample(KEY, problem, plan, runner=runner, store=store, callbacks=[])
    assert caught[0].filename == __file__
    assert [attempts for chains, attempts in runner.starts if 2 in chains][1:] == [[1], [2], [3]]
    assert (posterior.failed, store.failed()) == ((2,), [2])
    assert posterior.complete
    assert repr(posterior) == "Posterior(9 members in 3 chains, 1 chains failed)"
    others = [(chain, index) for chain in (0, 1, 3) for index in range(3)]
    assert [(m.info.chain, m.info.index) for m in posterior] == others
    # They are what they would be without it: an anchor is drawn alike by both walks, and at each step anew.
    whole = small_plan(chains=4, walk=aw.Independent(), **options)
    expected = aw.sample(KEY, problem, whole, runner=aw.Local(threads=1, lanes=lanes), callbacks=[])
    for place in others:
        for a, b in zip(*(jax.tree.leaves(found[place].params) for found in (posterior, expected)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    started = len(runner.starts)
    longer = small_plan(chains=4, walk=LostInTheThird(), **(options | {"members": 5}))
    with pytest.warns(FailedChainsWarning, match="chain 2"):  # it is told each time, and not tried again
        again = aw.sample(KEY, problem, longer, runner=runner, store=store, callbacks=[])
    assert len(runner.starts) == started
    assert (len(again), again.failed, again.complete) == (15, (2,), True)
    if where == "disk":
        loaded = aw.load(tmp_path / "run", small_apply)
        assert (len(loaded), loaded.failed, loaded.complete) == (15, (2,), True)
        with pytest.warns(FailedChainsWarning, match="chain 2"):  # by a store that has only read of it
            anew = aw.sample(KEY, problem, longer, runner=runner, store=tmp_path / "run", callbacks=[])
        assert len(runner.starts) == started
        assert leaves_equal(stacked_params(anew), stacked_params(again))


def test_a_failing_chain_does_not_hide_good_ones_that_are_asked_for():
    plan, store = small_plan(chains=4, members=2, walk=LostInTheThird()), MemoryStore()
    good = aw.sample(KEY, small_problem(), plan, runner=ONE, store=store, chains=[0, 1], callbacks=[])
    assert (len(good), good.failed) == (4, ())
    with pytest.raises(TrainingFailed, match="chain 2"):
        aw.sample(KEY, small_problem(), plan, runner=ONE, chains=[2], callbacks=[])


# Callbacks


def test_the_progress_bar(capsys):
    aw.sample(KEY, small_problem(), small_plan(), runner=ONE, callbacks=[aw.Progress("walking", disable=False)])
    text = capsys.readouterr().err
    assert "walking: 100%" in text
    assert "24/24" in text
    assert "9/9 members, loss" in text
    aw.sample(KEY, small_problem(), small_plan(), runner=ONE)  # no terminal here: silent
    assert capsys.readouterr().err == ""


def test_the_progress_bar_says_when_something_is_compiled(capsys):
    bar, reports = aw.Progress("walking", disable=False), []
    programs.forget()
    aw.sample(KEY, small_problem(), small_plan(), runner=ONE, callbacks=[bar, reports.append])
    shown = capsys.readouterr().err
    assert "walking, compiling: " in shown
    assert shown.rsplit("\r", 1)[1].startswith("walking: 100%")
    assert 0 < reports[0].compiling < reports[0].seconds
    assert f"of which {reports[0].compiling:.1f} s of compiling" in repr(reports[0])
    aw.sample(KEY, small_problem(), small_plan(), runner=ONE, callbacks=[bar, reports.append])
    assert "compiling" not in capsys.readouterr().err
    assert reports[-1].compiling == 0


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
        aw.sample(KEY, small_problem(), small_plan(), runner=ONE, store=store, callbacks=[bar, fail])
    assert len(store.infos()) == 1  # what was finished is kept
    for _ in range(2):  # the second time there is nothing left to do
        aw.sample(KEY, small_problem(), small_plan(), runner=ONE, store=store, callbacks=[bar])
    assert Watched.ended == 3


def test_a_callback_that_cannot_start_leaves_no_other_open():
    ended = []

    class Listener:
        def __init__(self, name, fails=False):
            self.name, self.fails = name, fails

        def start(self, plan, passes_done):
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


# Ctrl-C


def test_ctrl_c_ends_the_run_after_the_call_under_way_with_the_members_so_far():
    store, seen = MemoryStore(), []
    before = signal.getsignal(signal.SIGINT)

    def interrupt(round_info):
        seen.append(round_info)
        if len(seen) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    arguments = (KEY, small_problem(), small_plan(chains=2, members=4))
    with pytest.warns(InterruptedWarning, match=r"interrupted with [45] of 8 members done"):
        posterior = aw.sample(*arguments, runner=ONE, store=store, callbacks=[interrupt])
    assert len(posterior) == len(seen) in (4, 5)  # while the fourth was reported the fifth may have been under way
    assert not posterior.complete
    assert "not complete" in repr(posterior)
    assert signal.getsignal(signal.SIGINT) is before
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = aw.sample(*arguments, runner=ONE, store=store, callbacks=[])  # and goes on from there
    assert len(whole) == 8
    assert whole.complete
    assert leaves_equal(stacked_params(whole), stacked_params(aw.sample(*arguments, runner=ONE, callbacks=[])))


class Interrupted:
    """A runner of one thread, to which Ctrl-C comes in the middle of its first call."""

    layout = ONE.layout

    def open(self, *arguments):
        session, pool = ONE.open(*arguments), ThreadPoolExecutor(1)
        submit = session.submit

        def work(job):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1.0)  # the next call is waiting
            return submit(job).result()

        session.submit = lambda job: pool.submit(work, job)
        return session


def test_ctrl_c_takes_back_what_has_not_begun():
    store, last = MemoryStore(), []
    arguments = (KEY, small_problem(), small_plan())
    with pytest.warns(InterruptedWarning, match=r"interrupted with 1 of 9 members done"):
        posterior = aw.sample(*arguments, runner=Interrupted(), store=store, callbacks=[lambda r: last.append(r.last)])
    assert last == [True]
    assert [(info.chain, info.index) for info in posterior.infos] == [(0, 0)]
    whole = aw.sample(*arguments, runner=ONE, store=store, callbacks=[])
    assert leaves_equal(stacked_params(whole), stacked_params(aw.sample(*arguments, runner=ONE, callbacks=[])))


def test_a_second_ctrl_c_does_not_wait():
    def impatient(round_info):
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    store = MemoryStore()
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        aw.sample(KEY, small_problem(), small_plan(), runner=ONE, store=store, callbacks=[impatient])
    assert len(store.infos()) == 1  # what was finished is kept
    assert signal.getsignal(signal.SIGINT) is before


def test_where_ctrl_c_is_ignored_it_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look_and_interrupt(round_info):
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)

    try:
        posterior = aw.sample(KEY, small_problem(), small_plan(), runner=ONE, callbacks=[look_and_interrupt])
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(posterior) == 9
    assert posterior.complete


def test_a_run_in_another_thread_leaves_signals_alone():
    handlers = []

    def work():
        look = [lambda _: handlers.append(signal.getsignal(signal.SIGINT))]
        return aw.sample(KEY, small_problem(), small_plan(), runner=ONE, callbacks=look)

    before = signal.getsignal(signal.SIGINT)
    with ThreadPoolExecutor(1) as pool:
        assert len(pool.submit(work).result()) == 9
    assert set(handlers) == {before}


# What is around a run


def process_state():
    """What a library can change for the rest of a process."""
    kind, numbers, *rest = np.random.get_state()  # noqa: NPY002  # others may use it
    return {
        "jax": dict(jax.config.values),
        "filters": list(warnings.filters),
        "numpy": (kind, numbers.tolist(), *rest),
        "numpy errors": np.geterr(),
        "environment": dict(os.environ),
        "signals": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)],
    }


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_a_run_changes_nothing_around_it(tmp_path, store):
    where = {} if store == "memory" else {"store": tmp_path / "run"}
    before, threads = process_state(), set(threading.enumerate())
    aw.sample(KEY, small_problem(), small_plan(), runner=aw.Local(2, 2), callbacks=[], **where)
    aw.sample_many([KEY], small_problem(), small_plan(), callbacks=[])
    assert process_state() == before
    assert set(threading.enumerate()) <= threads


CHILD = """
import os, random, signal, sys, warnings
import jax, numpy as np
def process_state():
    return (dict(jax.config.values), list(warnings.filters), np.random.get_state()[1].tolist(), random.getstate(),
            dict(os.environ), signal.getsignal(signal.SIGINT), np.geterr(), sys.getrecursionlimit())
if sys.argv[2] == "ignore":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
before = process_state()
import anchorwalk as aw
for name in aw.__all__:
    getattr(aw, name)
assert process_state() == before, "import"
sys.path.insert(0, sys.argv[1])
from helpers import small_plan, small_problem
posterior = aw.sample(jax.random.key(0), small_problem(), small_plan(), callbacks=[])
assert process_state() == before, "sample"
import sklearn.linear_model
before = process_state()
from anchorwalk.integrations.sklearn import SAERegressor
SAERegressor(budget=20, random_state=0).fit(np.eye(12), np.arange(12.0)).predict(np.eye(12))
assert process_state() == before, "fit"
if sys.argv[2] == "ignore":
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    os.kill(os.getpid(), signal.SIGINT)
print(len(posterior))
"""


@pytest.mark.parametrize("ctrl_c", ["ignore", "default"])
def test_neither_import_nor_run_changes_a_process(ctrl_c):
    tests = os.path.dirname(os.path.dirname(__file__))
    child = subprocess.run([sys.executable, "-c", CHILD, tests, ctrl_c], capture_output=True, text=True)
    assert child.returncode == 0, child.stderr
    assert child.stdout.strip() == "9"


def wide_init(key):
    return {"w": jax.random.normal(key, (3,), jnp.float64)}


@pytest.mark.parametrize("store", ["memory", "disk"])
def test_float64_in_threads(tmp_path, store):
    model = LinearGaussian(mean=1.5)
    training = model.training(accuracy=1e-14)
    kept = MemoryStore() if store == "memory" else DiskStore(tmp_path / "run")
    with jax.enable_x64(True):
        prior = aw.Prior(scale={"w": model.scale}, mean=model.mean)
        problem = aw.Problem(wide_init, linear, aw.Normal(scale=model.noise), prior, data=(model.x, model.y))
        plan = aw.Plan(aw.SAE(training, training, aw.GuidedWalk(0.3)), chains=4, members=2)
        posterior = aw.sample(KEY, problem, plan, runner=aw.Local(threads=2, lanes=2), store=kept, callbacks=[])
        resumed = aw.sample(KEY, problem, replace(plan, members=3), runner=aw.Local(2), store=kept, callbacks=[])
        assert posterior.predict(model.x).mean.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert len(posterior) == 8
    assert len(resumed) == 12
    for chain in range(4):  # to a precision that float32 does not have
        found, state = resumed[chain, 2].params["w"], kept.state(chain)
        assert found.dtype == state.walk.position.dtype == np.float64
        optimum = model.optimum(model.mean + model.scale * state.walk.position)
        np.testing.assert_allclose(found, optimum, rtol=1e-10, atol=1e-10)


# Arguments


def test_keep_best_holds_back_a_tenth():
    training = aw.Training(aw.Adam(0.01), epochs=2, batch_size=6, keep="best")
    posterior = run(small_problem(), aw.AE(training), 2)
    assert len(posterior) == 2
    own = small_problem(rows=18, validation=(np.ones((2, 2)), np.ones(2)))  # the shapes of the split: no new program
    assert len(run(own, aw.AE(training), 2)) == 2
    with pytest.raises(InvalidInput, match=r"AE\(training=\): got batch_size=19 for 18 rows"):
        run(small_problem(), aw.AE(aw.Training(aw.Adam(0.01), 2, 19, keep="best")), 2)


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
    ("walk", "message"),
    [
        (aw.GuidedWalk, r"walk: got the class GuidedWalk, expected an instance of it"),
        ("guided", r"walk: got 'guided', expected a Walk.*step\(key, state\)"),
        (Unregistered(), r"walk: got a Unregistered that is no pytree.*register_dataclass"),
        (Lopsided(), r"walk.step: got .*expected \(WalkState, WalkInfo\)"),
    ],
)
def test_what_is_no_walk_is_refused(walk, message):
    with pytest.raises(InvalidInput, match=message):
        aw.SAE(small_plan().method.first, small_plan().method.then, walk)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"key": 0}, r"key: got 0, expected one typed key.*jax.random.key\(seed\)"),
        ({"key": jax.random.PRNGKey(0)}, r"expected one typed key"),
        ({"key": jax.random.key(0, impl="rbg")}, r"the implementation 'rbg', expected 'threefry2x32'"),
        ({"key": jax.random.split(KEY, 2)}, r"an array of 2 keys, expected one typed key.*keys\[0\]"),
        ({"runner": 8}, r"runner: got 8, expected a Runner"),
        ({"runner": aw.Local}, r"runner: got the class Local"),
        ({"runner": "sequential"}, r"runner: got 'sequential', expected one of 'auto'"),
        ({"callbacks": aw.Progress()}, r"callbacks: got .*expected a list of functions.*\[Progress\(\)\]"),
        ({"problem": None}, r"problem: got NoneType"),
        ({"plan": 100}, r"plan: got int.*Plan.from_budget"),
        ({"plan": small_plan().method}, r"plan: got SAE, expected a Plan"),
        ({"chains": [3]}, r"chains: got \[3\] for a plan of 3 chains, expected numbers from 0 to 2"),
        (
            {"plan": small_plan(batch_size=21)},
            r"SAE\(first=\): got batch_size=21 for 20 rows.*Set batch_size=20 or less",
        ),
        ({"plan": small_plan(perturb_targets=True)}, None),
        ({"plan": aw.Plan(aw.AE(small_plan().method.first, perturb_targets=True))}, None),
    ],
)
def test_bad_arguments_are_refused_before_any_work(changes, message):
    arguments = {"key": KEY, "problem": small_problem(), "plan": small_plan(), "callbacks": [pytest.fail]}
    if message is None:
        model = LinearGaussian()
        logits = aw.Problem(model.problem.init, linear, aw.Poisson(), aw.Prior(), data=(model.x, np.ones(24, int)))
        arguments["problem"] = logits
        message = r"AE\(perturb_targets=\): got True with Poisson\(\), expected a normal likelihood"
    with pytest.raises(InvalidInput, match=message):
        aw.sample(**(arguments | changes))


def test_perturbed_heteroscedastic_targets_run():
    rng = np.random.default_rng(0)
    problem = aw.Problem(
        lambda key: jnp.ones((2, 2)), lambda w, x: x @ w, aw.HeteroscedasticNormal(), aw.Prior(),
        data=(rng.normal(size=(20, 2)), np.linspace(-1, 1, 20)),
    )  # fmt: skip
    store, training = MemoryStore(), aw.Training(aw.Adam(0.01), epochs=4, batch_size=20)
    posterior = run(problem, aw.AE(training, perturb_targets=True), 2, store=store)
    state = store.state(1)
    found = posterior[1, 0]
    anchor, noise = anchor_at(problem, state.position)
    expected = evaluate(problem, anchor, found.params, noise, 20)
    assert noise.shape == (20,)
    assert found.info.value("loss_end") == pytest.approx(float(expected.loss), rel=1e-4)
    assert "acceptance" not in found.info.values  # there is no walk


def test_no_epoch_with_a_finite_validation_loss_is_a_failure():
    x, y = np.ones((8, 1)), np.ones(8, int)
    problem = aw.Problem(
        lambda key: jnp.ones(1), lambda w, x: x @ w, aw.Poisson(), aw.Prior(),
        data=(x, y), validation=(np.full((2, 1), 200.0), np.ones(2, int)),
    )  # fmt: skip
    training = aw.Training(aw.SGD(1e-3), epochs=2, batch_size=8, keep="best")
    with pytest.raises(TrainingFailed):
        run(problem, aw.MAP(training))


@pytest.mark.parametrize("evaluate_members", [True, False])
def test_a_loss_that_overflows_at_the_last_step_is_a_failure(evaluate_members):
    problem = aw.Problem(lambda key: jnp.zeros(1), lambda w, x: x @ w, aw.Normal(scale=1.0), aw.Prior(),
                         data=(np.ones((4, 1)), np.ones(4)))  # fmt: skip
    training = aw.Training(aw.SGD(1e10), epochs=2, batch_size=4, evaluate=evaluate_members)
    with pytest.raises(TrainingFailed):
        run(problem, aw.MAP(training))


def test_half_precision_parameters_train():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(32, 3))
    problem = aw.Problem(
        lambda key: jnp.zeros(3, jnp.bfloat16), lambda w, x: x @ w, aw.Normal(scale=0.1), aw.Prior(scale=1.0),
        data=(x, x @ [1.0, -1.0, 0.5]),
    )  # fmt: skip
    training = aw.Training(aw.Adam(0.1, end_rate=1e-3), epochs=100, batch_size=16, keep="best")
    store = MemoryStore()
    posterior = run(problem, aw.SAE(training), store=store)
    assert posterior[0, 0].params.dtype == jnp.bfloat16
    np.testing.assert_allclose(posterior[0, 0].params.astype(float), [1.0, -1.0, 0.5], atol=0.05)
    assert store.state(0).walk.position.dtype == np.float32  # the walk keeps its precision
    run(problem, aw.AE(training), store=(store := MemoryStore()))
    assert store.state(0).position.dtype == np.float32


def test_an_optimiser_that_looks_at_the_loss():
    model = LinearGaussian()
    training = aw.Training(optax.lbfgs(), epochs=15, batch_size=24)
    estimate = run(model.problem, aw.MAP(training))[0, 0].params["w"]
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
    rates = [fingerprint.of_training(aw.Training(optax.sgd(r), 1, 1), like, 24) for r in (0.1, 0.1, 0.2)]
    assert rates[0] == rates[1] != rates[2]


def test_posterior_indexing_and_thinning():
    posterior = aw.sample(KEY, small_problem(), small_plan(chains=2, members=5), runner=ONE, callbacks=[])
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
