"""The page on coverage runs, and what it says of our own calibration and that of others is so."""

import re
from pathlib import Path

import numpy as np
import pytest

from anchorwalk.integrations.sklearn import conformal

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "coverage.md"


@pytest.fixture(scope="module")
def page():
    """The sections of the page, and the names that those without other packages leave."""
    sections = re.split(r"^## ", PAGE.read_text(), flags=re.M)
    scope = {}
    found = {section.splitlines()[0]: section for section in sections}
    for title in (sections[0].splitlines()[0], "Calibrate on rows held back"):
        run(found[title], scope)
    return found, scope


def run(section, scope):
    for block in re.findall(r"```python\n(.*?)```", section, re.S):
        exec(re.sub(r"budget=\d+", "budget=20, chains=2", block), scope)


def test_our_own_calibration(page):
    found, scope = page
    assert scope["inside"].shape == scope["low"].shape == (len(scope["test"]),)
    assert len(scope["calibrated"].calibration_scores_) == int(conformal.SHARE * 240)
    text = " ".join(found["Calibrate on rows held back"].split())
    assert f"{conformal.LEAST} at least and {conformal.MOST} at most" in text
    assert f"from {conformal.AUTO} rows on" in text
    conformal.distance(np.arange(19.0), 0.95)
    conformal.distance(np.arange(99.0), 0.99)
    # Of a fit with n rows held back, coverage is a beta variable with k and n + 1 - k, k = ceil((n + 1) c).
    k = 91
    assert round(100 * np.sqrt(k * (101 - k) / (101**2 * 102))) == 3


def test_mapie(page):
    pytest.importorskip("mapie")
    found, scope = page
    run(found["MAPIE"], scope)
    rows = len(scope["test"])
    assert scope["intervals"].shape == scope["wider"].shape == (rows, 2, 1)
    np.testing.assert_allclose(np.ptp(scope["intervals"][:, :, 0], axis=1).std(), 0, atol=1e-9)


def test_crepes(page):
    pytest.importorskip("crepes")
    found, scope = page
    run(found["crepes"], scope)
    assert scope["ends"].shape == scope["quantiles"].shape == (len(scope["test"]), 2)
    widths = np.ptp(scope["ends"], axis=1)
    away = conformal.distance(conformal.scores_of(scope["y"][scope["calibration"]], scope["mean"], scope["std"]), 0.9)
    np.testing.assert_allclose(widths, 2 * away * scope["std_new"])  # the same rule as ours, on these rows
