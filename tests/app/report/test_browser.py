"""The page in a real browser."""

import jax
import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.app import report
from browser import PROGRAM, Browser
from helpers import small_plan, small_problem

pytestmark = [pytest.mark.slow, pytest.mark.skipif(PROGRAM is None, reason="there is no Chromium here")]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    problem = small_problem()
    posterior = aw.sample(jax.random.key(0), problem, small_plan(chains=3, members=12), callbacks=[])
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 2))
    y = np.sin(x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=300)
    data = report.ReportData(x, y, names=("a long name of a first column", "b"), target="load (kWh/m²)")
    return report.write(posterior, folder, data, title="A run with a rather long title, as people give them").page


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    browser = Browser(tmp_path_factory.mktemp("profile"))
    yield browser
    browser.close()


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_as_it_is_seen(page, browser, width, dark):
    browser.open(page, width, dark=dark, phone=width < 500)
    assert browser.complaints == []
    asked = [url for url in browser.requests if not url.startswith("data:")]
    assert asked == [page.resolve().as_uri()]  # itself and nothing else
    sizes = browser.evaluate(
        "[...document.querySelectorAll('figure svg')].map(e => [e.getBoundingClientRect().width, "
        "e.getBoundingClientRect().height, e.querySelectorAll('path').length])"
    )
    opened = browser.evaluate("document.querySelector('main > section').className")
    assert opened in ("card verdict good", "card verdict open", "card verdict bad")
    edge = browser.evaluate("getComputedStyle(document.querySelector('.verdict')).borderLeftWidth")
    assert edge == "6px"
    names = browser.evaluate("[...document.querySelectorAll('figure')].map(e => e.id)")
    assert names == ["calibration", "predictions", "parts", "losses", "members", "walk"]
    assert len(sizes) == 6
    for wide, high, paths in sizes:
        assert wide > 0.75 * min(width, 450)
        assert high > 0.5 * wide
        assert paths > 10
    root = "document.documentElement"
    assert browser.evaluate(f"{root}.scrollWidth") <= browser.evaluate(f"{root}.clientWidth") == width
    ground = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 22, 27)" if dark else "rgb(244, 246, 248)")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_inks_are_those_of_the_ground(page, browser, dark):
    browser.open(page, 1280, dark=dark)
    inks = set(browser.evaluate("[...document.querySelectorAll('figure svg text')].map(e => getComputedStyle(e).fill)"))
    assert inks == {"rgb(231, 234, 238)" if dark else "rgb(31, 41, 51)"}
    names = browser.evaluate(
        "[...document.querySelectorAll('figure svg *')].flatMap(e => [getComputedStyle(e).fill, "
        "getComputedStyle(e).stroke]).filter(c => c == 'rgb(0, 114, 178)').length"
    )
    assert (names == 0) == dark  # the light ground's blue


def test_letters_of_figures_can_be_read_on_a_phone(page, browser):
    browser.open(page, 390, phone=True)
    sizes = browser.evaluate(
        "[...document.querySelectorAll('figure svg')].map(e => e.getBoundingClientRect().width / "
        "e.viewBox.baseVal.width * Math.min(...[...e.querySelectorAll('text')].map(t => "
        "parseFloat(getComputedStyle(t).fontSize))))"
    )
    assert min(sizes) >= 7  # CSS pixels, three of a phone's own each


def test_it_prints(page, browser, tmp_path):
    browser.open(page, 1280, dark=True)
    browser.pdf(tmp_path / "page.pdf")
    content = (tmp_path / "page.pdf").read_bytes()
    assert content[:5] == b"%PDF-"
    assert 1 <= content.count(b"/Type /Page\n") + content.count(b"/Type /Page>") <= 8


def test_the_browser_tells_of_errors_and_requests(browser, tmp_path):
    bad = tmp_path / "bad.html"
    bad.write_text("<script>console.error('bad')</script><img src='none.png'><div style='width:2000px'>wide</div>")
    browser.open(bad, 390)
    assert any("bad" in line for line in browser.complaints)
    assert any(url.endswith("none.png") for url in browser.requests)
    assert browser.evaluate("document.documentElement.scrollWidth") > 390
