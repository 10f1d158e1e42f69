"""What a report opens with: for each kind of evidence the answer that it calls for."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app import report
from anchorwalk.app.report import numbers
from anchorwalk.app.report.elements import Evidence
from anchorwalk.app.report.verdict import judge

POSTERIOR = aw.Posterior.from_members(
    apply=lambda w, x: w * x[:, 0], likelihood=aw.Normal(scale=1.0), members=[jnp.asarray(0.0), jnp.asarray(1e-3)]
)


def of(held, rows, **options):
    return judge(POSTERIOR, Evidence(True, 0.9, held, rows, **options), None, "price")


@pytest.mark.parametrize(
    ("held", "rows", "kind", "answer"),
    [
        (180, 200, "good", "Yes, as far as 200 rows can tell: these intervals hold what they promise."),
        (150, 200, "bad", "No: these intervals are too narrow."),
        (200, 200, "open", "With care: these intervals are too wide."),
        (9, 10, "open", "Not known: 10 rows only, too few to tell."),
        (2, 10, "bad", "No: these intervals are too narrow."),
    ],
)
def test_intervals_are_judged_by_rows_whose_truth_is_known(held, rows, kind, answer):
    found = of(held, rows)
    assert (found.kind, found.answer) == (kind, answer)
    assert f"({held} of {rows} rows" in found.reasons[0]
    assert found.actions


def test_what_to_do_is_said():
    found = of(150, 200, instead=0.965, constant_noise=True)
    assert "ask for 96.5% intervals where you want 90%" in found.actions[0]
    assert any("fewer units" in action for action in found.actions)
    assert any("varying" in action for action in found.actions)
    assert not any("varying" in action for action in of(150, 200).actions)


def test_counts_hold_more_than_they_promise_and_that_is_no_fault():
    assert of(200, 200, whole=True).kind == "good"


def test_probabilities_are_judged_by_how_often_they_are_right():
    kinds = [judge(POSTERIOR, Evidence(False, 0.8, held, 200), None, None) for held in (120, 160, 190)]
    assert [found.kind for found in kinds] == ["bad", "good", "open"]
    assert "too sure" in kinds[0].answer
    assert "not sure enough" in kinds[2].answer


def test_without_the_truth_nothing_is_known():
    found = judge(POSTERIOR, None, None, "price")
    assert (found.kind, found.answer) == ("open", "Not known: no prediction was compared with the truth.")
    assert "“price”" in found.actions[0]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"complete": False}, "ended before its plan was done"),
        ({"failed": (7,)}, "1 chain failed"),
        ({"infos": POSTERIOR.infos[:1]}, "A single network"),
    ],
)
def test_doubts_about_the_run_go_before_good_scores(change, words):
    found = judge(dataclasses.replace(POSTERIOR, **change), Evidence(True, 0.9, 180, 200), None, None)
    assert found.kind == "open"
    assert found.answer == "With care: these intervals hold what they promise, but the run itself is in doubt."
    assert any(words in reason for reason in found.reasons)


def test_chains_that_do_not_agree_are_a_doubt_with_advice():
    members = [[jnp.asarray(place + 0.01 * i) for i in range(12)] for place in (0.0, 5.0)]
    apart = aw.Posterior.from_members(apply=POSTERIOR._apply, likelihood=POSTERIOR.likelihood, members=members)
    diagnosis = apart.diagnose(np.ones((3, 1)))
    found = judge(apart, Evidence(True, 0.9, 180, 200), diagnosis, None)
    assert found.kind == "open"
    assert "The chains do not agree: another run would give other predictions." in found.reasons
    assert any(action.startswith("Run more chains") for action in found.actions)


def test_the_coverage_that_would_hold_is_found():
    """Truth with a spread of 1.25 where 1 is predicted: 90% lie within 2.056, which 96.0% intervals promise.

    Of 4000 rows a share of 0.9 has a standard error of 0.0047, which moves the coverage by 0.0047 * phi(2.056) /
    phi(1.645) * 1.25 = 0.0028; 5 of these and a step of 0.005 are allowed.
    """
    rows = 4000
    y = 1.25 * np.random.default_rng(0).normal(size=rows)
    data = report.ReportData(np.zeros((rows, 1)), y)
    prediction = POSTERIOR.predict(data.x)
    one = numbers.split(POSTERIOR, prediction, data, np.arange(rows), np.ones(1), np.zeros(1))[0]
    evidence = numbers._evidence(one, whole=False)
    assert evidence.instead == pytest.approx(0.960, abs=0.019)
    assert evidence.constant_noise
    assert judge(POSTERIOR, evidence, None, None).kind == "bad"
