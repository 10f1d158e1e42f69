"""What is the same, and when: between runners, widths, lanes, and a run that goes on."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.errors import InvalidInput
from anchorwalk.methods import deep_ensemble
from anchorwalk.methods.chain import Options, Recipe
from anchorwalk.run import runners
from anchorwalk.run.runners import auto, threaded
from anchorwalk.run.store import MemoryStore
from helpers import LinearGaussian, leaves_equal, small_plan, small_problem, stacked_params

RUNNERS = [aw.Sequential(), aw.Vectorized(width=2), aw.Vectorized(width=4), aw.Threaded(2), aw.Threaded(2, 2)]
WALK = aw.GuidedWalk(step_size=0.3)
KEY = jax.random.key(7)


def run(plan, runner, store=None, key=KEY, **options):
    return aw.sample(key, small_problem(), plan, walk=WALK, runner=runner, store=store, callbacks=[], **options)


@pytest.mark.parametrize("runner", RUNNERS, ids=repr)
def test_members_come_in_the_order_chain_member(runner):
    posterior = run(small_plan(chains=3, members=2), runner)
    assert [(m.info.chain, m.info.index) for m in posterior] == [(c, i) for c in range(3) for i in range(2)]


def by_every_runner():
    """Each chain's walk and all parameters after two members a chain."""
    found = []
    for runner in RUNNERS:
        store = MemoryStore()
        posterior = run(small_plan(chains=3, members=2), runner, store)
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


def test_runners_agree_at_the_optimum_of_a_convex_problem():
    model = LinearGaussian()
    plan = aw.Plan(3, 1, first=model.training())
    found = [
        stacked_params(aw.sample(KEY, model.problem, plan, walk=WALK, runner=runner, callbacks=[]))["w"]
        for runner in RUNNERS[::2]
    ]
    np.testing.assert_allclose(found[0], found[1], atol=2e-5)


@pytest.mark.parametrize("runner", [aw.Vectorized(width=4), aw.Threaded(2, 2), aw.Threaded(4)], ids=repr)
@pytest.mark.parametrize("shared_order", [False, True])
def test_a_chain_is_bit_identical_in_every_lane_and_company(shared_order, runner):
    options = Options(shared_order, False)
    problem, plan = small_problem(), small_plan()
    recipe, later = Recipe(problem, WALK, plan.first), Recipe(problem, WALK, plan.then)

    def first_and_second(chains):
        chains = np.asarray(chains, np.uint32)
        states, first = runner.start(KEY, recipe, options, chains, np.zeros_like(chains))
        states, second = runner.step(
            KEY, later, options, chains, 1, jax.device_get(tree.lane(states, slice(len(chains))))
        )
        keep = [(s.params, s.losses, s.info.loss_end) for s in (first, second)]
        return {int(c): tree.lane(jax.device_get(keep), i) for i, c in enumerate(chains)}

    reference = first_and_second([0, 1, 2, 3])
    for company in ([3, 1, 0, 2], [2, 9, 2, 8], [1]):
        found = first_and_second(company)
        for chain in set(company) & set(reference):
            assert leaves_equal(found[chain], reference[chain])


@pytest.mark.parametrize("runner", [aw.Sequential(), aw.Vectorized(width=2), aw.Threaded(2, 2)], ids=repr)
@pytest.mark.parametrize(("chains", "members"), [(3, 1), (3, 2), (1, 4), (2, 3)])
def test_a_run_that_goes_on_is_the_same_run(runner, chains, members):
    whole = run(small_plan(chains=3, members=4), runner)
    store = MemoryStore()
    part = run(aw.Plan(chains, members, small_plan().first, small_plan().then), runner, store)
    assert len(part) == chains * members
    rest = run(small_plan(chains=3, members=4), runner, store)
    assert len(rest) == 12
    assert leaves_equal(stacked_params(rest), stacked_params(whole))
    assert [m.info.loss_end for m in rest] == [m.info.loss_end for m in whole]


def test_the_number_of_threads_decides_nothing():
    plan = small_plan(chains=5, members=2)
    found = [stacked_params(run(plan, aw.Threaded(threads, 2))) for threads in (1, 2, 3)]
    assert leaves_equal(found[0], found[1])
    assert leaves_equal(found[0], found[2])


def test_threads_share_one_compiled_program():
    plan, before = small_plan(chains=4, members=3), len(threaded._programs)
    run(plan, aw.Threaded(4), key=jax.random.key(1))
    programs = list(threaded._programs)
    assert before <= len(programs) <= before + 2  # first trainings and later ones
    run(plan, aw.Threaded(2), key=jax.random.key(2))
    assert list(threaded._programs) == programs


def test_a_finished_run_is_not_run_again():
    store, rounds = MemoryStore(), []
    run(small_plan(), aw.Sequential(), store)
    again = aw.sample(
        KEY, small_problem(), small_plan(), walk=WALK, runner=aw.Sequential(), store=store, callbacks=[rounds.append]
    )
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
        ({"walk": aw.GuidedWalk(step_size=0.2)}, "walk"),
        ({"plan": small_plan(rate=0.02)}, "first"),
        ({"plan": small_plan(shared_order=True)}, "shared_order"),
        ({"perturb_targets": True}, "perturb_targets"),
        ({"runner": aw.Vectorized(width=3)}, "runner"),
    ],
)
def test_a_run_with_other_arguments_is_refused(changes, named):
    store = MemoryStore()
    arguments = {"key": KEY, "problem": small_problem(), "plan": small_plan(), "walk": WALK, "runner": aw.Sequential()}
    store.begin(aw.sample(**arguments, callbacks=[]).settings, None, {})
    with pytest.raises(InvalidInput, match=rf"with a run of other arguments: {named} was .*choose another store"):
        aw.sample(**(arguments | changes), store=store, callbacks=[])


def test_an_anchored_ensemble_becomes_a_sequential_one():
    store = MemoryStore()
    run(aw.Plan(2, 1, small_plan().first), "auto", store)  # how a chain goes on is still open
    whole = run(small_plan(chains=2, members=3), "auto", store)
    assert leaves_equal(stacked_params(whole), stacked_params(run(small_plan(chains=2, members=3), "auto")))


def test_a_run_grows_by_chains_and_keeps_its_width(monkeypatch):
    store = MemoryStore()
    monkeypatch.setattr(auto, "cores", lambda: 2)
    assert run(small_plan(chains=2, members=2), "auto", store).settings["runner"] == "Threaded(threads=2, lanes=1)"
    grown = run(small_plan(chains=3, members=2), "auto", store)
    assert grown.settings["runner"] == "Threaded(threads=2, lanes=1)"
    assert len(grown) == 6
    with pytest.raises(InvalidInput, match="runner was"):
        run(small_plan(chains=3, members=2), "sequential", store)


def test_a_smaller_plan_shows_its_own_members():
    store = MemoryStore()
    run(small_plan(chains=3, members=3), aw.Sequential(), store)
    part = run(small_plan(chains=2, members=2), aw.Sequential(), store)
    assert [(m.info.chain, m.info.index) for m in part] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert part.complete


def test_shared_order_is_one_order_and_own_orders_are_not():
    # With equal starts and anchors two chains differ by their order of rows alone.
    model = LinearGaussian()
    training = aw.Training(aw.SGD(0.1), epochs=2, batch_size=5)
    problem = aw.Problem(zero_start, model_apply, aw.Normal(scale=0.5), aw.Prior(), data=(model.x, model.y))
    for shared in (True, False):
        plan = aw.Plan(2, 1, first=training, shared_order=shared)
        walk = deep_ensemble.AtMean()
        one, two = aw.sample(KEY, problem, plan, walk=walk, runner=aw.Vectorized(width=2), callbacks=[])
        assert np.allclose(one.params, two.params, atol=1e-6) == shared


def zero_start(key):
    return np.zeros(3, np.float32)


def model_apply(w, x):
    return x @ w


def test_callbacks_hear_of_every_round():
    reports = []
    plan = small_plan(chains=3, members=2)
    aw.sample(KEY, small_problem(), plan, walk=WALK, runner=aw.Vectorized(width=2), callbacks=[reports.append])
    assert [(r.chains, r.index) for r in reports] == [((0, 1), 0), ((2,), 0), ((0, 1), 1), ((2,), 1)]
    assert [r.members_done for r in reports] == [2, 3, 5, 6]
    assert [r.epochs_done for r in reports] == [8, 12, 16, 18]
    assert [r.last for r in reports] == [False, False, False, True]
    assert [len(r.members) for r in reports] == [2, 1, 2, 1]
    assert reports[0].members[1].info.chain == 1
    assert reports[-1].seconds > reports[0].seconds > 0


def test_auto_follows_its_rule(monkeypatch):
    monkeypatch.setattr(auto, "cores", lambda: 2)
    choose = runners.choose
    small, network = small_problem(), aw.networks.mlp(2, (400, 400), 1)
    large = aw.Problem(
        network.init, network.apply, aw.Normal(scale=1.0), aw.Prior(), data=(np.ones((4, 2)), np.ones((4, 1)))
    )
    images = aw.Problem(
        lambda key: jax.numpy.ones((3, 3, 1, 2)), convolve, aw.Categorical(), aw.Prior(),
        data=(np.ones((4, 6, 6, 1)), np.zeros(4, int)),
    )  # fmt: skip
    assert choose(small, 1) == aw.Sequential()
    assert choose(small, 3) == aw.Threaded(threads=2, lanes=2)
    assert choose(small, 100) == aw.Threaded(threads=2, lanes=16)
    assert choose(large, 3) == choose(images, 3) == aw.Threaded(threads=2, lanes=1)
    assert run(small_plan(chains=2, members=1), "auto").settings["runner"] == "Threaded(threads=2, lanes=1)"
    monkeypatch.setattr(auto, "cores", lambda: 64)
    assert choose(small, 100) == aw.Threaded(threads=64, lanes=2)
    assert choose(large, 100) == aw.Threaded(threads=8, lanes=1)
    monkeypatch.setattr(auto, "cores", lambda: 1)
    assert choose(small, 100) == aw.Vectorized(width=16)
    assert choose(large, 100) == choose(images, 100) == aw.Sequential()
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    assert choose(large, 100) == aw.Vectorized(width=16)
    monkeypatch.undo()
    assert run(small_plan(chains=2, members=1), "sequential").settings["runner"] == "Sequential()"
    assert run(small_plan(chains=2, members=1), "vectorized").settings["runner"] == "Vectorized(width=2)"
    with pytest.raises(InvalidInput, match="runner: got 'fast', expected one of 'auto', 'sequential', 'vectorized'"):
        run(small_plan(members=1), "fast")


def convolve(kernel, x):
    out = jax.lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))
    return out.mean(axis=(1, 2))
