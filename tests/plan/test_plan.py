import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from anchorwalk.plan import describe
from anchorwalk.run import programs
from anchorwalk.serial import from_json
from helpers import small_problem

LONG = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=10)
SHORT = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=10)
BUDGETS = (200, 500, 1000, 10_000)
CLASSES = (np.arange(12.0), np.arange(12) % 2)


def test_tables_4_and_5_to_the_member():
    assert [aw.Plan.paper("ae", b, LONG).total for b in BUDGETS] == [2, 5, 10, 100]
    assert [aw.Plan.paper("sae", b, LONG, SHORT).total for b in BUDGETS] == [51, 152, 351, 4510]
    gap = [aw.Plan.paper("sae", b, LONG, SHORT, later_epochs=10) for b in BUDGETS]
    assert [plan.total for plan in gap] == [11, 32, 72, 910]
    assert [plan.chains for plan in gap] == [1, 2, 3, 10]
    assert [plan.members - 1 for plan in gap] == [10, 15, 23, 90]
    assert [plan.epochs for plan in gap] == [200, 500, 990, 10_000]
    assert [aw.Plan.paper("sae", b, LONG, SHORT).epochs for b in BUDGETS] == [200, 500, 996, 10_000]
    assert [aw.Plan.paper("ae", b, LONG).epochs for b in BUDGETS] == list(BUDGETS)
    assert (gap[0].method.first.epochs, gap[0].method.then.epochs) == (100, 10)
    assert [type(aw.Plan.paper(name, 200, LONG).method) for name in ("ae", "sae")] == [aw.AE, aw.SAE]
    assert aw.Plan.paper("sae", 200, LONG, walk=aw.Independent()).method.walk == aw.Independent()


@pytest.mark.parametrize("budget", [300, 301, 433, 5000])
@pytest.mark.parametrize("chains", [1, 2, 3])
def test_from_budget_is_the_largest_plan_that_fits(budget, chains):
    plan = aw.Plan.from_budget(budget, aw.SAE(LONG, SHORT), chains)
    assert plan.epochs <= budget < plan.epochs + chains * SHORT.epochs
    assert plan.epochs == chains * (100 + 2 * (plan.members - 1))


def test_from_budget_names_the_smallest_budget():
    with pytest.raises(InvalidInput, match=r"budget: got 299 epochs, expected at least 300.*Set budget=300"):
        aw.Plan.from_budget(299, aw.SAE(LONG, SHORT), chains=3)
    assert aw.Plan.from_budget(300, aw.SAE(LONG, SHORT), chains=3).total == 3
    with pytest.raises(InvalidInput, match=r"at least 100 epochs"):
        aw.Plan.from_budget(99, aw.AE(LONG))
    assert aw.Plan.from_budget(100, aw.AE(LONG)).total == 1
    assert aw.Plan.from_budget(250, aw.AE(LONG), chains=2).epochs == 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aw.Plan(aw.AE(LONG), 0), r"Plan\(chains=\): got 0"),
        (lambda: aw.Plan(aw.AE(LONG), 1, 0), r"Plan\(members=\): got 0"),
        (lambda: aw.Plan(aw.SAE(LONG), 1, 2), r"SAE\(then=\): got None for 2 members a chain.*then=Training"),
        (lambda: aw.Plan(LONG), r"Plan\(method=\): got Training\(.*expected a Method"),
        (lambda: aw.Plan(aw.SAE), r"Plan\(method=\): got the class SAE.*with brackets"),
        (lambda: aw.SAE(aw.Adam(1e-3)), r"SAE\(first=\): got Adam"),
        (
            lambda: aw.SAE(LONG, aw.Training(aw.Adam(1e-3), 2, 10, keep="best")),
            r"keep='best', expected keep='last'",
        ),
        (lambda: aw.Plan.from_budget(1000, None), r"method: got None"),
        (lambda: aw.SAE(LONG, aw.Adam(1e-3)), r"SAE\(then=\): got Adam"),
        (lambda: aw.SAE(LONG, "x"), r"SAE\(then=\).*got 'x'"),
        (lambda: aw.SAE(LONG, SHORT, "guided"), r"walk: got 'guided'"),
        (lambda: aw.describe(small_problem(), None), r"plan: got NoneType"),
        (lambda: aw.describe(None, aw.Plan(aw.AE(SHORT))), r"problem: got NoneType"),
        (lambda: aw.networks.mlp(3, 5, 1), r"mlp\(hidden=\): got 5.*Pass \(50,\)"),
        (lambda: aw.Plan.paper("mcmc", 200, LONG), r"method: got 'mcmc', expected one of 'ae', 'sae'"),
        (lambda: aw.Plan.paper("sae", 300, LONG), r"budget: got 300.*from_budget"),
        (lambda: aw.Plan.paper("sae", 200, LONG, later_epochs=3), r"later_epochs: got 3"),
    ],
)
def test_bad_plans_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize("method", [aw.AE, aw.DeepEnsemble, aw.MAP])
def test_methods_of_one_member_a_chain_refuse_more(method):
    with pytest.raises(InvalidInput, match=rf"Plan\(members=\): got 3 with {method.__name__}.*chains=3"):
        aw.Plan(method(LONG), members=3)
    with pytest.raises(InvalidInput, match=rf"{method.__name__}\(training=\): got 'x'"):
        method("x")
    assert aw.Plan(method(LONG), chains=4).epochs == 400


def test_describe_before_anything_runs():
    problem = small_problem()
    plan = aw.Plan.from_budget(1000, aw.SAE(LONG, SHORT, aw.GuidedWalk(step_size=0.1)), chains=3)
    text = aw.describe(problem, plan)
    assert (text.members, text.epochs, text.chains, text.rows) == (351, 996, 3, 20)
    assert text.parameters == 2 * 8 + 8 + 8 * 1 + 1
    # Members, and for each chain its anchor, its directions and its last optimum.
    assert text.bytes == 351 * 33 * 4 + 3 * 3 * 33 * 4
    expected = aw.walks.diagnostics.effective_anchors(aw.GuidedWalk(step_size=0.1), 117, chains=3)
    assert text.effective_anchors == expected
    printed = str(text)
    assert "351 (3 chains x 117)" in printed
    assert "epochs   996\n" in printed
    assert "47.5 KB" in printed
    independent = aw.describe(problem, replace(plan, method=replace(plan.method, walk=aw.Independent())))
    assert independent.effective_anchors == pytest.approx(351, rel=5.33 * np.sqrt(2 / 20_000))


def test_memory_is_that_of_the_data_and_of_the_chains_at_work(monkeypatch):
    plan = aw.Plan(aw.SAE(LONG, SHORT), chains=5, members=9)  # blocks of three chains
    found = []
    for cores in (1, 2):
        monkeypatch.setattr(describe, "cores", lambda cores=cores: cores)
        found.append(aw.describe(small_problem(), plan).memory)
    # A state of anchor, directions and optimum; four copies of parameters, Adam's two moments and its counts.
    a_chain = (3 + 4 * 3) * 33 * 4
    data = 20 * (2 + 1 + 1) * 4  # inputs, targets, weights
    each = (found[1] - found[0]) / 2  # five chains at work, and three
    activations = 8 * 4 * 10  # eight hidden units in a batch of ten rows, at the least
    assert a_chain + activations < each < 2 * a_chain + 10 * activations
    assert data + 3 * each < found[0] < data + 3 * each + 200  # the prior's and the likelihood's scales


def wide_problem(units):
    network, rng = aw.networks.mlp(20, units, 2), np.random.default_rng(0)
    data = rng.normal(size=(512, 20)), rng.normal(size=512)
    return aw.Problem(network.init, network.apply, aw.HeteroscedasticNormal(), aw.Prior(scale=0.1), data=data)


@pytest.mark.parametrize(("units", "lanes"), [((50,), 1), ((50,), 6), ((400, 400), 2)])
def test_memory_is_near_what_xla_reserves(units, lanes):
    problem, method = wide_problem(units), aw.AE(aw.Training(aw.Adam(1e-3), 1, 58, evaluate=False))
    programs._programs.clear()
    runner = aw.Local(threads=1, lanes=lanes)
    aw.sample(jax.random.key(0), problem, aw.Plan(method, lanes), runner=runner, callbacks=[])
    program = list(programs._programs.values())[-1]  # after those that make keys and start chains
    reserved = program.memory_analysis().temp_size_in_bytes
    # XLA fuses and shares buffers as it likes: an estimate to within a factor of five is all that can be had so early.
    assert reserved / 5 < lanes * describe._working_set(method, problem) < 5 * reserved


@pytest.mark.parametrize("method", [aw.AE(LONG), aw.DeepEnsemble(LONG), aw.MAP(LONG)], ids=lambda one: one.title)
def test_methods_whose_anchors_do_not_walk_have_no_lines_on_walks(method):
    text = aw.describe(small_problem(), aw.Plan(method, chains=2))
    assert np.isnan([text.effective_anchors, text.acceptance, text.span]).all()
    assert [line.split()[0] for line in str(text).splitlines()] == ["network", "members", "epochs", "size", "memory"]


def test_describe_refuses_what_sample_would():
    training = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=21)
    with pytest.raises(InvalidInput, match=r"batch_size=21 for 20 rows.*Set batch_size=20 or less"):
        aw.describe(small_problem(), aw.Plan(aw.SAE(training)))
    best = aw.Training(aw.Adam(1e-3), epochs=3, batch_size=9, keep="best")
    text = aw.describe(small_problem(), aw.Plan(aw.SAE(best)))
    assert text.rows == 18  # a tenth is held back
    with pytest.raises(InvalidInput, match=r"batch_size=19 for 18 rows"):
        aw.describe(small_problem(), aw.Plan(aw.SAE(aw.Training(aw.Adam(1e-3), 3, 19, keep="best"))))
    classes = aw.Problem(
        lambda key: jnp.zeros(2), lambda w, x: x[:, None] * w, aw.Categorical(), aw.Prior(scale=1.0), data=CLASSES
    )
    with pytest.raises(InvalidInput, match=r"AE\(perturb_targets=\): got True with Categorical\(\)"):
        aw.describe(classes, aw.Plan(aw.AE(SHORT, perturb_targets=True)))


def test_a_method_evaluates_all_of_its_trainings_or_none():
    training = aw.Training(aw.SGD(0.1), epochs=2, batch_size=4)
    method = aw.SAE(training, training, aw.Independent(), shared_order=True)
    without = method.evaluating(False)
    assert not without.first.evaluate
    assert not without.then.evaluate
    assert without.evaluating(True) == method != without
    assert aw.SAE(training).evaluating(False).then is None


@pytest.mark.parametrize(
    "method",
    [
        aw.SAE(LONG, SHORT, aw.Rotation(step_size=0.3, refresh=0.1), perturb_targets=True),
        aw.SAE(LONG),
        aw.AE(LONG, shared_order=True),
        aw.DeepEnsemble(SHORT),
        aw.MAP(SHORT),
    ],
    ids=repr,
)
def test_a_plan_is_told_as_json_from_which_its_method_is_made_again(method):
    plan = aw.Plan(method, chains=2)
    encoded = json.loads(json.dumps(plan.to_json()))
    assert (encoded["chains"], encoded["members"], encoded["epochs"]) == (2, 1, plan.epochs)
    assert from_json(encoded["method"]) == method == type(method).from_json(encoded["method"])
