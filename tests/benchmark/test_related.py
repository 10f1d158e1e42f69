"""The related work in the benchmark: plans of equal cost, settings in the records, searches of one size."""

from dataclasses import replace

import numpy as np
import pytest

from anchorwalk.benchmark import METHODS, Request, Variant, open_case, records, run
from anchorwalk.benchmark.methods import RELATED
from anchorwalk.errors import InvalidInput


@pytest.fixture(scope="module")
def case():
    return open_case("uci_gap", Variant(split=5))


def passes_of(case, plan):
    return plan.chains * sum(call.passes for call in plan.method.calls(case.problem, plan.members))


@pytest.mark.parametrize("method", RELATED, ids=lambda method: method.name)
def test_plans_spend_their_budget_and_no_more(method, case):
    for budget, least in ((200, 0.85), (1000, 0.95), (10_000, 0.98)):
        assert least * budget <= passes_of(case, method.choose(case, budget)) <= budget
    for settings in method.grid:
        assert 0.9 * 1000 <= passes_of(case, method.make(case, 1000, **settings)) <= 1000


@pytest.mark.parametrize("method", RELATED, ids=lambda method: method.name)
def test_searches_have_eight_settings_that_records_tell_apart(method, case):
    recorded = [str(method.with_settings(**settings).settings(case, 10_000)) for settings in method.grid]
    assert len(recorded) == len(set(recorded)) == 8
    assert method.settings(case, 10_000) == method.with_settings(**method.grid[0]).settings(case, 10_000)


def test_budgets_that_hold_no_plan_are_refused(case):
    with pytest.raises(InvalidInput, match="trajectories"):
        METHODS["hmc"].choose(case, 60)
    with pytest.raises(InvalidInput, match="fewer chains"):
        METHODS["swag"].choose(case, 20)


@pytest.mark.parametrize(
    "name",
    [one.name if one.name == "ivon" else pytest.param(one.name, marks=pytest.mark.slow) for one in RELATED],
)
@pytest.mark.filterwarnings("ignore::anchorwalk.errors.DivergedWarning")
def test_a_run_is_recorded(name, case, tmp_path):
    request, few = Request(name, 200, 2, results=tmp_path), replace(case, side_by_side=4)  # no lanes to fill up
    assert run(few, request, quiet=True).new == 2
    found = list(records.read(tmp_path / f"uci_gap-{name}.jsonl").values())
    assert all(np.isfinite(record["scores"]["w1"]) for record in found)
    assert found[0]["plan"]["method"]["name"] == type(METHODS[name].choose(case, 200).method).__name__
