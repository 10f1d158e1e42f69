import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.walks import diagnostics

# A variance from n = 20,000 independent values has a relative standard error of sqrt(2 / n) = 1%.
SLACK = 5.33 * np.sqrt(2 / diagnostics.PARAMETERS)


def effective_size(correlations, members):
    lags = np.arange(1, members)
    return members / (1 + 2 * np.sum((1 - lags / members) * correlations(lags)))


@pytest.mark.parametrize("size", [0.1, 0.5, 1.0])
def test_autoregressive_effective_anchors_have_their_closed_form(size):
    walk, members = aw.Autoregressive(step_size=size), 60
    summary = diagnostics.summarize(walk, members, chains=3)
    first = 3 * effective_size(lambda k: walk.correlation**k, members)
    second = 3 * effective_size(lambda k: walk.correlation ** (2 * k), members)
    assert summary.effective_first == pytest.approx(first, rel=SLACK)
    # x squared is skewed, and so is the square of its mean: three times the normal standard error covers it.
    assert summary.effective_second == pytest.approx(second, rel=3 * SLACK)
    assert summary.effective_anchors == min(summary.effective_first, summary.effective_second)


def test_rotation_without_refreshment_spans_its_circle_alone():
    summary = diagnostics.summarize(aw.Rotation(step_size=0.1, refresh=0.0), members=1000)
    assert summary.effective_first > 1000  # x averages to zero by going round
    assert summary.effective_anchors == pytest.approx(2, rel=3 * SLACK)  # x squared averages to the circle's radius


@pytest.mark.parametrize(
    ("size", "members", "expected"),
    [(0.1, 451, 222), (0.089, 451, 197), (0.045, 451, 98), (0.055, 91, 22), (0.02, 451, 43)],
)
def test_effective_anchors_of_the_papers_largest_plans(size, members, expected):
    # Simulated elsewhere for the same five settings, with an error of their own: both errors are allowed for,
    # and half a unit of rounding.
    found = diagnostics.effective_anchors(aw.GuidedWalk(step_size=size), members, chains=10)
    assert found == pytest.approx(expected, rel=SLACK, abs=0.5)


def test_span_and_acceptance():
    assert diagnostics.span(aw.Independent(), members=2) == pytest.approx(1 / 3, abs=0.01)  # E |u - v| of uniforms
    wide = diagnostics.span(aw.GuidedWalk(step_size=0.1), members=451)
    narrow = diagnostics.span(aw.RandomWalk(step_size=0.1), members=451)
    assert wide > narrow  # what the paper chose it for
    assert diagnostics.acceptance(aw.Autoregressive(step_size=0.2)) == 1.0
    # The closed form is (2 / pi) atan(2 / step); 100 steps of 20,000 parameters.
    assert diagnostics.acceptance(aw.RandomWalk(step_size=1.0)) == pytest.approx(2 / np.pi * np.arctan(2), abs=0.003)


def test_autocorrelation():
    found = diagnostics.autocorrelation(aw.Rotation(step_size=0.5, refresh=0.0), lags=4)
    assert found[0] == 1
    np.testing.assert_allclose(found, np.cos(0.5 * np.arange(5)), atol=5.33 / np.sqrt(diagnostics.PARAMETERS))
