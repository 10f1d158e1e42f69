import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.errors import InvalidInput
from helpers import small_problem

LONG = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=10)
SHORT = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=10)
BUDGETS = (200, 500, 1000, 10_000)


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
    assert (gap[0].first.epochs, gap[0].then.epochs) == (100, 10)


@pytest.mark.parametrize("budget", [300, 301, 433, 5000])
@pytest.mark.parametrize("chains", [1, 2, 3])
def test_from_budget_is_the_largest_plan_that_fits(budget, chains):
    plan = aw.Plan.from_budget(budget, chains=chains, first=LONG, then=SHORT)
    assert plan.epochs <= budget < plan.epochs + chains * SHORT.epochs
    assert plan.epochs == chains * (100 + 2 * (plan.members - 1))


def test_from_budget_names_the_smallest_budget():
    with pytest.raises(InvalidInput, match=r"budget: got 299 epochs, expected at least 300.*Set budget=300"):
        aw.Plan.from_budget(299, chains=3, first=LONG, then=SHORT)
    assert aw.Plan.from_budget(300, chains=3, first=LONG, then=SHORT).total == 3
    with pytest.raises(InvalidInput, match=r"at least 100 epochs"):
        aw.Plan.from_budget(99, first=LONG)
    assert aw.Plan.from_budget(100, first=LONG).total == 1
    assert aw.Plan.from_budget(250, chains=2, first=LONG).epochs == 200


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: aw.Plan(0, 1, LONG), r"Plan\(chains=\): got 0"),
        (lambda: aw.Plan(1, 0, LONG), r"Plan\(members=\): got 0"),
        (lambda: aw.Plan(1, 2, LONG), r"Plan\(then=\) with 2 members a chain: got None.*then=Training"),
        (lambda: aw.Plan(1, 1, aw.Adam(1e-3)), r"Plan\(first=\): got Adam"),
        (
            lambda: aw.Plan(1, 2, LONG, aw.Training(aw.Adam(1e-3), 2, 10, keep="best")),
            r"keep='best', expected keep='last'",
        ),
        (lambda: aw.Plan.from_budget(1000), r"from_budget\(first=\): got None"),
        (lambda: aw.Plan.from_budget(1000, first=LONG, then=aw.Adam(1e-3)), r"from_budget\(then=\): got Adam"),
        (lambda: aw.Plan(1, 1, LONG, "x"), r"Plan\(then=\).*got 'x'"),
        (lambda: aw.describe(small_problem(), None), r"plan: got NoneType"),
        (lambda: aw.describe(small_problem(), aw.Plan(1, 1, SHORT), "guided"), r"walk: got 'guided'"),
        (lambda: aw.networks.mlp(3, 5, 1), r"mlp\(hidden=\): got 5.*Pass \(50,\)"),
        (lambda: aw.Plan.paper("mcmc", 200, LONG), r"method: got 'mcmc', expected one of 'ae', 'sae'"),
        (lambda: aw.Plan.paper("sae", 300, LONG), r"budget: got 300.*from_budget"),
        (lambda: aw.Plan.paper("sae", 200, LONG, later_epochs=3), r"later_epochs: got 3"),
    ],
)
def test_bad_plans_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


def test_describe_before_anything_runs():
    problem = small_problem()
    plan = aw.Plan.from_budget(1000, chains=3, first=LONG, then=SHORT)
    text = aw.describe(problem, plan, aw.GuidedWalk(step_size=0.1))
    assert (text.members, text.epochs, text.chains, text.rows) == (351, 996, 3, 20)
    assert text.parameters == 2 * 8 + 8 + 8 * 1 + 1
    assert text.bytes == 351 * 33 * 4
    assert text.steps == 996 * 2
    expected = aw.walks.diagnostics.effective_anchors(aw.GuidedWalk(step_size=0.1), 117, chains=3)
    assert text.effective_anchors == expected
    printed = str(text)
    assert "351 (3 chains x 117)" in printed
    assert "996 (1,992 steps)" in printed
    assert "46.3 KB" in printed
    independent = aw.describe(problem, plan, aw.Independent())
    assert independent.effective_anchors == pytest.approx(351, rel=5.33 * np.sqrt(2 / 20_000))


def test_describe_refuses_what_sample_would():
    training = aw.Training(aw.Adam(1e-3), epochs=1, batch_size=21)
    with pytest.raises(InvalidInput, match=r"batch_size=21 for 20 rows.*Set batch_size=20 or less"):
        aw.describe(small_problem(), aw.Plan(1, 1, training))
    best = aw.Training(aw.Adam(1e-3), epochs=3, batch_size=9, keep="best")
    text = aw.describe(small_problem(), aw.Plan(1, 1, best))
    assert (text.rows, text.steps) == (18, 6)  # a tenth is held back
    with pytest.raises(InvalidInput, match=r"batch_size=19 for 18 rows"):
        aw.describe(small_problem(), aw.Plan(1, 1, aw.Training(aw.Adam(1e-3), 3, 19, keep="best")))


def test_a_plan_evaluates_all_of_its_trainings_or_none():
    training = aw.Training(aw.SGD(0.1), epochs=2, batch_size=4)
    plan = aw.Plan(2, 3, training, training, shared_order=True)
    without = plan.evaluating(False)
    assert not without.first.evaluate
    assert not without.then.evaluate
    assert without.evaluating(True) == plan != without
    assert aw.Plan(2, 1, training).evaluating(False).then is None
