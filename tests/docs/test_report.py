"""The page on reports says what is so."""

import html
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app.report import formatting
from anchorwalk.app.report.run import read
from anchorwalk.posterior import metrics

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "howto" / "report.md"


@pytest.fixture(scope="module")
def scope(tmp_path_factory):
    """What the page's example leaves, run at a small size."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    small = block.replace("epochs=200", "epochs=5").replace("epochs=10", "epochs=2").replace("members=25", "members=4")
    assert len(small) < len(block)
    scope = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("howto"))
        exec(small, scope)
        yield scope


def test_the_example_runs(scope):
    page = html.unescape(re.sub(r"<wbr>|<[^>]*>", " ", scope["paths"].page.read_text())).replace("_ ", "_")
    page = " ".join(page.split())
    assert (scope["paths"].page.parent / "figures" / "calibration.svg").exists()
    for text in (
        "Heating load of buildings",
        "heating load (kWh/m²)",
        "glazing_area",
        "Sequential anchored ensemble",
        "16 (4 chains of 4 members)",
        "44 (5 for a first member, 2 for a later one)",  # 4 x (5 + 3 x 2)
        "552 parameters in 4 arrays",  # 8 x 50 + 50 + 50 x 2 + 2
        "normal, with a standard deviation for each row",
        "Can its uncertainty be trusted?",
        "normal, standard deviation 0.183",  # sqrt(1 / 30)
        "GuidedWalk(step_size=0.25)",
        "2 chains in a program, which may use one core",  # whatever the cores of this machine
        f"anchorwalk {aw.__version__}, jax {jax.__version__}",
        "heating, last written 20",
        "Training rows 668",
    ):
        assert text in page, text


def test_the_numbers_on_the_page_are_those_of_the_posterior(scope):
    page = scope["paths"].page.read_text()
    x, y, scale, shift = scope["x"][scope["test"]], scope["y"][scope["test"]], scope["scale"], scope["shift"]
    prediction = scope["posterior"].predict(x)
    low, high = prediction.interval(0.9)
    covered = int(((low <= y) & (y <= high)).sum())
    assert f"({covered} of 100 rows; 95% range" in page
    rmse = formatting.number(scale * np.sqrt(np.mean((prediction.mean - y) ** 2)))
    nll = formatting.number(np.log(scale) - np.mean(prediction.log_prob(y)))  # a density in the original unit
    draws = np.asarray(prediction.draws(jax.random.key(1), 400), float)
    crps = float(re.search(r"CRPS</td><td>([\d.]+)<", page)[1])
    assert crps == pytest.approx(scale * metrics.crps(draws, y, fair=True), rel=0.05)  # other draws
    for name, value in (("RMSE", rmse), ("Negative log-likelihood", nll)):
        assert f'<td class="text">{name}</td><td>{value}</td>' in page
    most = int(np.argmax(prediction.std))
    table = page[page.index("<caption>The most uncertain rows") :]
    row, mean, *_ = re.findall(r"<td>([^<]*)</td>", table)
    assert int(row) == most
    assert float(mean) == pytest.approx(scale * prediction.mean[most] + shift, rel=0.01)
    diagnosed = str(scope["posterior"].diagnose(x)).splitlines()[0][9:]
    assert html.escape(diagnosed) in page


def test_a_run_in_memory_tells_the_same(scope):
    posterior = aw.sample(jax.random.key(0), scope["problem"], scope["plan"], callbacks=[])
    one, other = (dict(read(posterior).facts) for posterior in (scope["posterior"], posterior))
    assert other.pop("Run") == "in memory"
    assert one.pop("Run").startswith("heating, last written")
    del one["Training time"], other["Training time"]
    assert one == other


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert links
    assert all((PAGE.parent / link).exists() for link in links)


def test_numbers_of_the_page_are_those_of_the_code():
    from anchorwalk.app.report import classes, numbers, training
    from anchorwalk.app.report.data import MOST_FEATURES

    text = " ".join(PAGE.read_text().split())
    assert f"{numbers.MOST_BARS} intervals and {numbers.MOST_POINTS} points" in text
    assert classes.MOST_POINTS == numbers.MOST_POINTS
    assert f"of {training.CHAINS_READ} chains at the most" in text
    assert MOST_FEATURES == 8
    assert "(eight at the most)" in text
