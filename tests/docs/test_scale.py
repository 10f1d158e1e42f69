"""The page on what a cluster costs: its model, and that it is made with and without a record."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
RECORD = {
    "name": "scale-2026",
    "cores": 2,
    "workers": 2,
    "command": "python benchmarks/scale.py",
    "rounds": [[1_000, 2e-3 + 1e-5], [1_000_000, 2e-3 + 1e-2], [100_000_000, 2e-3 + 1.0]],
    "commits": [[1_000, 1e-3], [1_000_000, 1e-3], [100_000_000, 1e-3]],
    "files": [[0, 1e-3], [1_000, 1e-3 + 1e-2], [30_000, 1e-3 + 0.3]],
    "peaks": [[66e6, 310e6], [660e6, 312e6]],
    "overhead": {"short": {"round_seconds": 0.01, "local": 1.0, "ray": 1.25, "ray, each call by itself": 2.0}},
    "streaming": {"memory": 0.9, "map": 1.0},
    "resnet20": {"bytes_of_round": 1_000_000, "epoch_seconds": 100.0, "long": 451, "epochs": [100, 2]},
}


@pytest.fixture
def page(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import scale_page

    yield scale_page
    for name in ("scale_page", "pages"):
        sys.modules.pop(name, None)


def test_measured_lines_are_found_again(page):
    way, commit, a_file = model = page.Model.of(RECORD)
    assert way == pytest.approx((2e-3, 1e8), rel=1e-6)
    assert commit(50_000_000) == pytest.approx(1e-3, rel=1e-3)
    assert a_file == pytest.approx(1e-5, rel=1e-6)
    assert page.files(10, 128) == 10 * (1 + 32 + 1)
    assert model.driver(1_000_000, 10, 128) == pytest.approx(2e-3 + 1e-2 + 1e-3 + 340e-5, rel=1e-3)


def test_a_run_takes_the_longest_of_three_times(page):
    free = page.Line(0.0, 1e15)
    model = page.Model(free, page.Line(1.0, 1e15), 0.0)
    plan = {"size": 0, "first": 100.0, "later": 10.0, "members": 11}  # 200 s a chain, 11 rounds
    assert model.seconds(chains=4, machines=1, **plan) == pytest.approx(800)
    assert model.seconds(chains=4, machines=4, **plan) == pytest.approx(200)
    assert model.seconds(chains=4, machines=400, **plan) == pytest.approx(200)  # a chain goes no faster
    assert model.seconds(chains=4, machines=3, **plan) == pytest.approx(400)  # two of them on one machine
    assert model.seconds(chains=400, machines=400, **plan) == pytest.approx(4400)  # the driver's
    assert model.limit(0, 10.0, chains=4, members=11) == pytest.approx(10)


def test_the_page_copes_without_a_record(page):
    assert page.render(None).count("Not measured yet") == 2
    assert page.newest() is None or "rounds" in page.newest()


def test_the_page_is_made_from_a_record(page):
    text = page.render(RECORD)
    assert "Not measured" not in text
    assert "| 10 ms | 0.80 | 0.50 |" in text
    assert "| 1,000 | 100 |" in text
    assert "runs at 0.90 of its speed" in text
    assert "66 MB and 660 MB" in text
    assert "310 and 312 MB" in text
    assert "Each thousand files of a run add 10 ms" in " ".join(text.split())
    seconds, way = 200.0, 2e-3 + 1e-2  # of a round
    few, many = (page.files(chains, 451) * 1e-5 + way + 1e-3 for chains in (10, 1000))
    assert f"| 10 | 10 | {(seconds + way) / few:,.0f} | {(seconds / 10 + way) / few:,.0f} |" in text
    assert f"| 1,000 | 1,000 | {(seconds + way) / many:,.0f} | {(seconds / 10 + way) / many:,.0f} |" in text
