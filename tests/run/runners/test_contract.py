"""What is the same, and when: between lanes, threads, neighbours, runs side by side, and a run that is resumed."""

import os
import subprocess
import sys
import threading
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.run import programs, runners
from anchorwalk.run.runners import Job, Layout, layout, local
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, leaves_equal, small_apply, small_plan, small_problem, stacked_params

RUNNERS = [aw.Local(1, 1), aw.Local(1, 2), aw.Local(1, 4), aw.Local(2, 1), aw.Local(2, 2)]
ONE = aw.Local(threads=1, lanes=1)
WALK = aw.GuidedWalk(step_size=0.3)
KEY = jax.random.key(7)


def plan_of(chains=3, members=3, **options):
    return small_plan(chains, members, **({"walk": WALK} | options))


def run(plan, runner, store=None, key=KEY, **options):
    return aw.sample(key, small_problem(), plan, runner=runner, store=store, **({"callbacks": []} | options))


@pytest.mark.parametrize("runner", RUNNERS, ids=repr)
def test_members_come_in_the_order_chain_member(runner):
    posterior = run(plan_of(chains=3, members=2), runner)
    assert [(m.info.chain, m.info.index) for m in posterior] == [(c, i) for c in range(3) for i in range(2)]


def by_every_runner():
    """Each chain's walk and all parameters after two members a chain."""
    found = []
    for runner in RUNNERS:
        store = MemoryStore()
        posterior = run(plan_of(chains=3, members=2), runner, store)
        found.append(([store.state(chain).walk for chain in range(3)], stacked_params(posterior)))
    return found


def test_runners_agree_to_rounding():
    (walks, params), *others = by_every_runner()
    for other_walks, other_params in others:
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6), other_walks, walks)
        # after 6 epochs
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), other_params, params)


@pytest.mark.slow  # where flags are XLA's own; the next test sees to that
def test_runners_agree_exactly_on_anchors():
    (walks, _), *others = by_every_runner()
    assert all(leaves_equal(other_walks, walks) for other_walks, _ in others)


def test_runners_agree_exactly_on_anchors_without_flags():
    """Last bits hang on how XLA compiles, and flags are read once a process."""
    command = [sys.executable, "-m", "pytest", "-m", "slow", f"{__file__}::test_runners_agree_exactly_on_anchors"]
    child = subprocess.run(command, env=os.environ | {"XLA_FLAGS": ""}, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout
    assert "1 passed" in child.stdout


def test_equal_lanes_agree_exactly_whatever_the_threads():
    found = dict(zip(RUNNERS, by_every_runner(), strict=True))
    assert leaves_equal(found[aw.Local(1, 1)], found[aw.Local(2, 1)])
    assert leaves_equal(found[aw.Local(1, 2)], found[aw.Local(2, 2)])


def test_runners_agree_at_the_optimum_of_a_convex_problem():
    model = LinearGaussian()
    plan = aw.Plan(aw.SAE(model.training(), walk=WALK), chains=3)
    found = [
        stacked_params(aw.sample(KEY, model.problem, plan, runner=runner, callbacks=[]))["w"] for runner in RUNNERS[::2]
    ]
    np.testing.assert_allclose(found[0], found[1], atol=2e-5)
    np.testing.assert_allclose(found[0], found[2], atol=2e-5)


@pytest.mark.parametrize("runner", [aw.Local(1, 4), aw.Local(2, 2), aw.Local(4, 1)], ids=repr)
@pytest.mark.parametrize("shared_order", [False, True])
def test_a_chain_is_bit_identical_in_every_lane_and_company(shared_order, runner):
    problem, method = small_problem(), plan_of(shared_order=shared_order).method
    first_call, second_call = method.calls(problem, 2)
    form = runner.layout(problem, 4, 1.0, None)

    def first_and_second(chains):
        """Two calls of each chain, in blocks as wide as the layout says, all blocks at a time."""
        blocks = [np.asarray(chains[i : i + form.lanes], np.uint32) for i in range(0, len(chains), form.lanes)]
        with runner.open(method, problem, form, len(chains)) as session:
            sent = [session.submit(Job(first_call, 0, KEY, b, np.zeros_like(b), None)) for b in blocks]
            first = [future.result() for future in sent]
            sent = [
                session.submit(Job(second_call, 1, KEY, b, np.zeros_like(b), one.states))
                for b, one in zip(blocks, first, strict=True)
            ]
            second = [future.result() for future in sent]
        found = {}
        for block, one, two in zip(blocks, first, second, strict=True):
            kept = (one.draws, two.draws, two.states)
            found |= {int(chain): tree.lane(kept, lane) for lane, chain in enumerate(block)}
        return found

    reference = first_and_second([0, 1, 2, 3])
    for company in ([3, 1, 0, 2], [2, 9, 2, 8], [1]):
        found = first_and_second(company)
        for chain in set(company) & set(reference):
            assert leaves_equal(found[chain], reference[chain])


@pytest.mark.parametrize("runner", [ONE, aw.Local(1, 2), aw.Local(2, 2)], ids=repr)
@pytest.mark.parametrize(("chains", "members"), [(3, 1), (3, 2), (1, 4), (2, 3)])
def test_a_run_that_is_resumed_is_the_same_run(runner, chains, members):
    whole = run(plan_of(chains=3, members=4), runner)
    store = MemoryStore()
    part = run(aw.Plan(plan_of().method, chains, members), runner, store)
    assert len(part) == chains * members
    rest = run(plan_of(chains=3, members=4), runner, store)
    assert len(rest) == 12
    assert leaves_equal(stacked_params(rest), stacked_params(whole))
    assert [m.info.values for m in rest] == [m.info.values for m in whole]


def test_the_number_of_threads_decides_nothing():
    plan = plan_of(chains=5, members=2)
    found = [stacked_params(run(plan, aw.Local(threads, 2))) for threads in (1, 2, 3)]
    assert leaves_equal(found[0], found[1])
    assert leaves_equal(found[0], found[2])


@pytest.mark.parametrize("lanes", [1, 2])
def test_the_number_of_chains_decides_nothing(lanes):
    whole = run(plan_of(chains=5, members=2), aw.Local(2, lanes))
    for chains in (1, 2, 3):
        part = run(plan_of(chains=chains, members=2), aw.Local(2, lanes))
        assert leaves_equal(stacked_params(part), stacked_params(whole.select(range(chains))))
    some = run(plan_of(chains=5, members=2), aw.Local(2, lanes), chains=[1, 4])
    assert leaves_equal(stacked_params(some), stacked_params(whole.select([1, 4])))


def test_threads_share_one_compiled_program():
    programs._programs.clear()  # where this process has many, some could be forgotten here
    plan = plan_of(chains=4, members=3)
    run(plan, aw.Local(4, 1), key=jax.random.key(1))
    kept = list(programs._programs)
    assert len(kept) == 3  # keys, the start of a chain, and all its trainings
    run(plan, aw.Local(2, 1), key=jax.random.key(2))
    assert list(programs._programs) == kept


def test_a_finished_run_is_not_run_again():
    store, rounds = MemoryStore(), []
    run(plan_of(), ONE, store)
    again = run(plan_of(), ONE, store, callbacks=[rounds.append])
    assert rounds == []
    assert len(again) == 9
    assert again.complete


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"key": jax.random.key(8)}, "key"),
        ({"problem": small_problem(scale=0.4)}, "prior"),
        ({"problem": small_problem(rows=19)}, "data"),
        ({"problem": small_problem(noise=0.2)}, "likelihood"),
        ({"plan": plan_of(walk=aw.GuidedWalk(step_size=0.2))}, "walk"),
        ({"plan": plan_of(rate=0.02)}, "first"),
        ({"plan": plan_of(shared_order=True)}, "shared_order"),
        ({"plan": plan_of(perturb_targets=True)}, "perturb_targets"),
        ({"plan": aw.Plan(aw.SAE(plan_of().method.first, plan_of(rate=0.02).method.then, WALK), 3, 3)}, "then"),
        ({"plan": aw.Plan(aw.AE(plan_of().method.first), 3)}, "method"),
        ({"runner": aw.Local(lanes=3)}, "lanes"),
    ],
)
def test_a_run_with_other_arguments_is_refused(changes, named):
    store = MemoryStore()
    arguments = {"key": KEY, "problem": small_problem(), "plan": plan_of(), "runner": ONE}
    store.begin(aw.sample(**arguments, callbacks=[]).settings, None, {}, {})
    with pytest.raises(InvalidInput, match=rf"with a run of other arguments: {named} was .*choose another store"):
        aw.sample(**(arguments | changes), store=store, callbacks=[])


def test_the_header_says_what_decides_the_bits():
    header = run(plan_of(members=2), aw.Local(2, 2)).settings
    method = {"method", "first", "then", "walk", "perturb_targets", "shared_order", "keep_optimizer", "shift_start"}
    layout = {"lanes", "cores", "compiled", "convolution"}
    assert set(header) == {"key", "network", "data", "prior", "likelihood"} | layout | method
    assert (header["method"], header["lanes"], header["cores"]) == ("SAE", "2", "one")
    assert "then" not in run(plan_of(members=1), ONE).settings  # how a chain goes on is still open
    assert run(plan_of(chains=1, members=1), "auto").settings["cores"] == "several"
    single = run(aw.Plan(aw.AE(plan_of().method.first), 2), ONE).settings
    assert set(header) ^ set(single) == {"first", "then", "walk", "keep_optimizer", "shift_start", "training"}
    assert run(plan_of(members=2), aw.Local(1, 2)).settings == header  # threads do not count


def test_an_anchored_ensemble_becomes_a_sequential_one():
    store = MemoryStore()
    run(plan_of(chains=2, members=1), "auto", store)  # how a chain goes on is still open
    whole = run(plan_of(chains=2, members=3), "auto", store)
    assert leaves_equal(stacked_params(whole), stacked_params(run(plan_of(chains=2, members=3), "auto")))


def test_a_run_grows_by_chains_and_keeps_its_lanes():
    store = MemoryStore()
    assert run(plan_of(chains=2, members=2), "auto", store).settings["lanes"] == "1"
    grown = run(plan_of(chains=3, members=2), "auto", store)
    assert grown.settings["lanes"] == "1"
    assert len(grown) == 6
    assert run(plan_of(chains=3, members=2), "auto").settings["lanes"] == "2"  # by the rule it would have been
    with pytest.raises(InvalidInput, match="lanes was 1, is 2"):
        run(plan_of(chains=3, members=2), aw.Local(lanes=2), store)
    assert len(run(plan_of(chains=3, members=2), aw.Local(threads=3), store)) == 6  # threads may be others


def test_a_smaller_plan_shows_its_own_members():
    store = MemoryStore()
    run(plan_of(chains=3, members=3), ONE, store)
    part = run(plan_of(chains=2, members=2), ONE, store)
    assert [(m.info.chain, m.info.index) for m in part] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert part.complete


@pytest.mark.parametrize("method", [aw.SAE, aw.AE, aw.DeepEnsemble])
def test_shared_order_is_one_order_and_own_orders_are_not(method):
    # With equal starts, and without anchors or with some that hardly pull, two chains differ by their order of rows.
    model = LinearGaussian()
    training = aw.Training(aw.SGD(0.1), epochs=2, batch_size=5)
    prior = aw.Prior(scale=1.0 if method is aw.DeepEnsemble else 1e6)
    problem = aw.Problem(zero_start, model_apply, aw.Normal(scale=0.5), prior, data=(model.x, model.y))
    for shared in (True, False):
        plan = aw.Plan(method(training, shared_order=shared), chains=2)
        one, two = aw.sample(KEY, problem, plan, runner=aw.Local(lanes=2), callbacks=[])
        assert np.allclose(one.params, two.params, atol=1e-6) == shared


def zero_start(key):
    return np.zeros(3, np.float32)


def model_apply(w, x):
    return x @ w


def test_callbacks_hear_of_every_call():
    reports = []
    plan = plan_of(chains=3, members=2)
    run(plan, aw.Local(threads=1, lanes=2), callbacks=[reports.append])
    assert [(r.chains, r.number) for r in reports] == [((0, 1), 0), ((2,), 0), ((0, 1), 1), ((2,), 1)]
    assert [r.call[:3] for r in reports] == [("train", 1, 4)] * 2 + [("train", 1, 2)] * 2
    assert [r.members_done for r in reports] == [2, 3, 5, 6]
    assert [r.passes_done for r in reports] == [8, 12, 16, 18]
    assert [r.last for r in reports] == [False, False, False, True]
    assert [len(r.members) for r in reports] == [2, 1, 2, 1]
    assert reports[0].members[1].info.chain == 1
    assert reports[-1].seconds > reports[0].seconds > 0


def test_one_thread_goes_round_by_round_however_slow_callbacks_are():
    reports = []

    def slow(report):
        reports.append(report)
        time.sleep(0.02)

    run(plan_of(chains=5, members=4), ONE, callbacks=[slow])
    assert [(r.number, r.chains) for r in reports] == [(number, (chain,)) for number in range(4) for chain in range(5)]


def test_callbacks_hear_of_every_call_whatever_the_threads():
    reports = []
    run(plan_of(chains=5, members=4), aw.Local(3, 2), callbacks=[reports.append])
    blocks = [(0, 1), (2, 3), (4,)]
    assert sorted((r.chains, r.number) for r in reports) == [(block, number) for block in blocks for number in range(4)]
    for block in blocks:  # each goes on by itself
        assert [r.number for r in reports if r.chains == block] == [0, 1, 2, 3]
    assert [r.members_done for r in reports] == np.cumsum([len(r.members) for r in reports]).tolist()
    assert [r.last for r in reports] == [False] * 11 + [True]
    assert reports[-1].passes_done == plan_of(chains=5, members=4).epochs


def test_what_callbacks_get_is_read_only_and_short():
    reports = []
    posterior = run(plan_of(chains=2, members=2), aw.Local(lanes=2), callbacks=[reports.append])
    for report in reports:
        for member in report.members:
            for leaf in (*jax.tree.leaves(member.params), member.trace):
                with pytest.raises(ValueError, match="read-only"):
                    leaf[...] = 0
    assert leaves_equal([m.params for m in reports[-1].members], [posterior[chain, 1].params for chain in (0, 1)])
    text = repr(reports[-1])
    assert text.startswith("RoundInfo(call 1 (train) of chains [0, 1], 4/4 members, ")
    assert len(text.splitlines()) == 1
    assert len(text) < 120


# The rule of the layout


def other_problems():
    network = aw.networks.mlp(2, (400, 400), 1)
    large = aw.Problem(
        network.init, network.apply, aw.Normal(scale=1.0), aw.Prior(), data=(np.ones((4, 2)), np.ones((4, 1)))
    )
    images = aw.Problem(
        lambda key: jax.numpy.ones((3, 3, 1, 2)), convolve, aw.Categorical(), aw.Prior(),
        data=(np.ones((4, 6, 6, 1)), np.zeros(4, int)),
    )  # fmt: skip
    return large, images


def convolve(kernel, x):
    out = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return out.mean(axis=(1, 2))


@pytest.mark.parametrize("cores", [1, 2, 64])
def test_auto_follows_its_rule_whatever_the_cores(monkeypatch, cores):
    monkeypatch.setattr(layout, "cores", lambda: cores)
    monkeypatch.setattr(local, "cores", lambda: cores)
    choose = partial(runners.choose, passes=1e9)
    small, (large, images) = small_problem(), other_problems()
    assert choose(small, 1) == choose(large, 1) == choose(images, 1) == Layout(1, wide=True)
    assert [choose(small, chains) for chains in (2, 3, 8)] == [Layout(lanes, wide=False) for lanes in (1, 2, 4)]
    assert choose(small, 32) == choose(small, 100) == Layout(16, wide=False)
    assert choose(large, 3) == choose(images, 3) == choose(large, 100) == choose(images, 100) == Layout(1, wide=False)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose(large, 100) == Layout(16, wide=True)
    assert choose(large, 3) == Layout(3, wide=True)


def test_short_runs_are_compiled_quickly():
    network = aw.networks.mlp(20, (50,), 2)
    problem = aw.Problem(
        network.init, network.apply, aw.HeteroscedasticNormal(), aw.Prior(), data=(np.ones((1000, 20)), np.ones(1000))
    )
    products = 20 * 50 + 50 * 2  # of a row's forward pass
    passes = layout.SHORT / (1000 * products)
    assert runners.choose(problem, 3, 0.5 * passes).quick
    assert not runners.choose(problem, 3, 1.5 * passes).quick
    assert aw.Local(lanes=2).layout(problem, 3, 0.5 * passes, None) == Layout(2, wide=False, quick=True)


def test_the_effort_of_a_program_counts_products_and_loops():
    def function(x, kernel):
        def body(carry, _):
            return carry @ kernel, None

        return jax.lax.scan(body, x, None, length=7)[0]

    effort = layout.effort_of(jax.make_jaxpr(function)(np.ones((2, 3)), np.ones((3, 3))).jaxpr)
    assert effort == (7 * 2 * 3, 7 * 2 * 3 * 3)
    found = layout.effort_of(jax.make_jaxpr(convolve)(np.ones((3, 3, 1, 2)), np.ones((1, 6, 6, 1))).jaxpr)
    assert found.products == 4 * 4 * 2 * 9


def test_a_network_with_many_numbers_in_its_forward_pass_runs_by_itself():
    def apply(params, x):
        return jnp.tanh(x[:, :1] * jnp.ones(4001)).sum(axis=1) * small_apply(params, x)

    base = small_problem()
    heavy = aw.Problem(base.init, apply, base.likelihood, aw.Prior(), data=(base.data.x, base.data.y))
    assert runners.choose(heavy, 8, 1e9) == Layout(1, wide=False)


def test_local_says_how_many_threads(monkeypatch):
    small, (large, _) = small_problem(), other_problems()

    def slots(cores, problem, chains, runner=None):
        monkeypatch.setattr(local, "cores", lambda: cores)
        runner = aw.Local() if runner is None else runner
        with runner.open(plan_of().method, problem, runner.layout(problem, chains, 1e9, None), chains) as session:
            return session.slots

    assert [slots(cores, small, 100) for cores in (1, 2, 64)] == [1, 2, 7]  # seven blocks of up to 16 chains
    assert [slots(cores, large, 100) for cores in (1, 2, 64)] == [1, 2, 8]  # each wants memory for its activations
    assert slots(64, large, 1) == 1  # a single chain's program uses the cores itself
    assert slots(64, large, 100, aw.Local(threads=20)) == 20
    assert slots(64, small, 3, aw.Local(threads=20)) == 2  # no more than there are blocks


def test_local_takes_up_the_layout_of_a_stored_run():
    small = small_problem()
    stored = Layout(2, wide=True)
    assert aw.Local().layout(small, 8, 1.0, stored) == aw.Local(lanes=2).layout(small, 8, 1.0, stored) == stored
    other = Layout(4, wide=False, quick=False)
    assert aw.Local(lanes=4).layout(small, 8, 1e9, stored) == aw.Local(lanes=4).layout(small, 8, 1e9, None) == other
    assert aw.Local(lanes=4).layout(small, 1, 1e9, None) == Layout(4, wide=True)


def test_an_error_does_not_wait_for_what_is_under_way(monkeypatch):
    problem, method, release = small_problem(), plan_of().method, threading.Event()
    (call,) = method.calls(problem, 1)

    def compiled(function, *_):
        return lambda *_: release.wait(60) if function is local._step else None

    monkeypatch.setattr(local, "compiled", compiled)
    began = time.perf_counter()

    def interrupted():
        with ONE.open(method, problem, Layout(1, wide=False), 1) as session:
            session.submit(Job(call, 0, KEY, np.zeros(1, np.uint32), np.zeros(1, np.uint32), None))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert time.perf_counter() - began < 30
    release.set()


def test_runners_that_cannot_be_are_refused():
    with pytest.raises(InvalidInput, match="runner: got 'fast', expected one of 'auto'"):
        run(plan_of(members=1), "fast")
    with pytest.raises(InvalidInput, match=r"Local\(lanes=\): got 0, expected a whole number of at least 1"):
        aw.Local(lanes=0)
    with pytest.raises(InvalidInput, match=r"Local\(threads=\): got 2.0, expected .*Pass 2, without the point"):
        aw.Local(threads=2.0)


# Runs side by side


KEYS = [jax.random.key(seed) for seed in (7, 8, 9)]


@pytest.mark.parametrize("lanes", [1, 2, 4])
@pytest.mark.parametrize("shared_order", [False, True])
def test_runs_side_by_side_are_those_of_one_at_a_time(lanes, shared_order):
    plan, runner = plan_of(chains=2, members=3, shared_order=shared_order), aw.Local(2, lanes)
    found = aw.sample_many(KEYS, small_problem(), plan, runner=runner, callbacks=[])
    for key, posterior in zip(KEYS, found, strict=True):
        alone = run(plan, runner, key=key)
        assert leaves_equal(stacked_params(posterior), stacked_params(alone))
        assert [m.info.values for m in posterior] == [m.info.values for m in alone]
        assert posterior.settings == alone.settings
        assert posterior.complete


def test_runs_side_by_side_on_disk_are_resumed_by_either(tmp_path):
    short, whole, runner = plan_of(chains=3, members=2), plan_of(chains=3, members=4), aw.Local(2, 2)
    expected = [run(whole, runner, key=key) for key in KEYS]
    many, folders = aw.sample_many, [tmp_path / str(number) for number in range(3)]
    first = many(KEYS, small_problem(), short, runner=runner, stores=folders, callbacks=[])
    assert [len(posterior) for posterior in first] == [6, 6, 6]
    assert len(run(whole, runner, store=folders[1], key=KEYS[1])) == 12  # one of them goes on by itself
    reports = []
    found = many(KEYS, small_problem(), whole, stores=folders, callbacks=[reports.append])  # with the lanes it has
    assert sum(len(report.members) for report in reports) == 2 * 3 * 2  # of the other two
    assert reports[-1].members_done == reports[-1].plan.total == 36
    for folder, posterior, one in zip(folders, found, expected, strict=True):
        assert leaves_equal(stacked_params(posterior), stacked_params(one))
        assert leaves_equal(stacked_params(aw.load(folder, small_apply)), stacked_params(one))
        assert aw.load(folder, small_apply).settings == one.settings


def test_runs_side_by_side_that_hold_back_rows_of_their_own():
    training = aw.Training(aw.Adam(0.01), epochs=2, batch_size=6, keep="best")
    plan, runner = aw.Plan(aw.AE(training), chains=2), aw.Local(lanes=2)
    found = aw.sample_many(KEYS[:2], small_problem(), plan, runner=runner, callbacks=[])
    assert found[0].settings["data"] != found[1].settings["data"]
    for key, posterior in zip(KEYS, found, strict=False):
        assert leaves_equal(stacked_params(posterior), stacked_params(run(plan, runner, key=key)))


def test_runs_side_by_side_want_a_key_and_a_store_each():
    with pytest.raises(InvalidInput, match=r"stores: got 2 for 3 keys, expected one for each key"):
        aw.sample_many(KEYS, small_problem(), plan_of(), stores=[None, None], callbacks=[])
    with pytest.raises(InvalidInput, match="keys: got 3, expected one typed key"):
        aw.sample_many([3], small_problem(), plan_of(), callbacks=[])
    with pytest.raises(InvalidInput, match="got 0 for 0 keys"):
        aw.sample_many([], small_problem(), plan_of(), callbacks=[])
