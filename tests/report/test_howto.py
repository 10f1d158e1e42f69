"""The page on reports says what is so."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "howto" / "report.md"


def test_the_example_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    small = block.replace("epochs=200", "epochs=5").replace("epochs=10", "epochs=1").replace("members=25", "members=4")
    assert len(small) < len(block)
    exec(small, {})
    page = (tmp_path / "runs" / "heating-report" / "report.html").read_text()
    for words in ("Heating load of buildings", "heating load (kWh/m²)", "glazing_area", "16 (4 chains of 4 members)"):
        assert words in page
    assert (tmp_path / "runs" / "heating-report" / "figures" / "calibration.svg").exists()


def test_links_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", PAGE.read_text())
    assert links
    assert all((PAGE.parent / link).exists() for link in links)


def test_numbers_of_the_page_are_those_of_the_code():
    from anchorwalk.report import classes, numbers, training
    from anchorwalk.report.data import MOST_FEATURES

    text = " ".join(PAGE.read_text().split())
    assert f"{numbers.MOST_BARS} intervals and {numbers.MOST_POINTS} points" in text
    assert classes.MOST_POINTS == numbers.MOST_POINTS
    assert f"of {training.CHAINS_READ} chains at the most" in text
    assert MOST_FEATURES == 8
    assert "(eight at the most)" in text
