"""README and docs say what is so."""

import importlib.util
import json
import re
import tomllib
import warnings
from pathlib import Path

import pytest

import anchorwalk as aw

ROOT = Path(__file__).parent.parent.parent
METHODS = ("ae", "sae", "planned")


def test_the_readmes_python_runs():
    estimator, core = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)
    assert (len(estimator.splitlines()), len(core.splitlines())) == (4, 10)
    scope = {}
    exec(core, scope)
    assert len(scope["posterior"]) == 72
    assert scope["plan"].epochs == 990
    prediction = scope["prediction"]
    assert prediction.mean.shape == (64,)
    assert all(end.shape == (64,) for end in prediction.interval(0.9))


@pytest.mark.slow
def test_the_readmes_four_lines_run():
    scope = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", aw.errors.NotConvergedWarning)
        exec(re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.S)[1], scope)
    assert scope["mean"].shape == scope["std"].shape == (42,)


def test_the_readme_is_short_and_wrapped():
    text = (ROOT / "README.md").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("|")]
    assert max(map(len, lines)) <= 100
    assert len(lines) < 90
    named = set(re.findall(r"`(\w+)`", text.split("## Methods")[1].split("## Results")[0]))
    assert named == {name for name, home in aw._HOME.items() if home.startswith("methods.") and home != "methods.base"}


def test_the_readme_names_commands_that_are_there():
    makefile = (ROOT / "Makefile").read_text()
    targets = re.findall(r"`make ([a-z-]+)", (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text())
    targets += ["run", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(f"docs/{p.name}" for p in (ROOT / "docs").glob("*.md"))]
)
def test_links_lead_somewhere(page):
    path = ROOT / page
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not link.startswith("http"):
            assert (path.parent / link).exists(), link


@pytest.fixture
def script(monkeypatch):
    """A script of tools/, as a module; scripts find each other there."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    return load


def load(name, folder="tools"):
    spec = importlib.util.spec_from_file_location(name, ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_energy_page_is_made_from_the_records(script):
    table = script("energy_page")
    records = table.load()
    assert len(records) >= 8
    assert (ROOT / "docs" / "energy.md").read_text() == table.render(records)


def test_the_comparison_is_made_from_its_records(script):
    page = script("comparison_page")
    assert len(page.load()) >= 10
    assert (ROOT / "docs" / "comparison.md").read_text() == page.render(page.load(), page.load_uci())


def test_the_comparison_on_uci_copes_with_some_records(script):
    page = script("comparison_page")
    about = {"task": "regression", "data": "boston", "split": "standard", "first": True}

    def cell(method, number, nll, **other):
        scores = {"nll": nll, "crps": nll / 10, "coverage": 0.9, "rmse": 3.0, "seconds": 2.0 + number}
        return {**about, "method": method, "number": number, "first": number == 0, "scores": scores, **other}

    found = [cell(method, k, nll + k) for method, nll in (("NGBoost", 2.5), ("SAERegressor", 2.0)) for k in (0, 1)]
    found.append(cell("bde", 0, -5.0))  # one split of two: it has no rank
    found.append({**about, "method": "slow", "number": 0, "cut": 900.0})
    text = page.render(page.load(), found)
    assert text.startswith(page.render(page.load()))
    assert "| SAERegressor | 1.0 | 1.0 | 1 |\n| NGBoost | 2.0 | 2.0 | 1 |" in text
    assert "| bde | 1.0" not in text
    assert "| SAERegressor | 2 | 2.50 ± 0.50 | 0.25 | 0.9 | 3 | 2 | 3 |" in text
    assert "| slow | 0 |  |  |  |  | cut after 15 min |  |" in text
    assert "| SAERegressor | 2.50 ± 0.50 |\n| deep ensembles (Lakshminarayanan et al. 2017) | 2.41 |" in text


def test_the_page_on_speed_is_made_from_its_record(script):
    assert (ROOT / "docs" / "speed.md").read_text() == script("speed_page").render()


def test_a_table_of_sizes_comes_with_its_record(script):
    page = script("speed_page")
    assert page.sizes([]) == ""
    found = {"rows": 1_000_000, "columns": 50, "budget": 100, "fit_seconds": 1234.5, "predict_seconds": 9.0}
    found |= {"bytes_before": 6e8, "fit_bytes": 2e9, "predict_bytes": 3.1e9}
    old = {"date": "2026-01-01", "cores": 2, "found": {**found, "fit_seconds": 9999.0}}
    said = page.sizes([{"date": "2026-01-02", "cores": 2, "found": found}, old])
    assert "| 1,000,000 | 50 | 1,234.5 | 9.0 | 0.60 | 2.00 | 3.10 |" in said
    assert "9,999" not in said


def test_sizes_that_are_measured_today_are_not_measured_again(tmp_path, monkeypatch):
    sizes, measured = load("sizes", "benchmarks"), []
    monkeypatch.setattr(sizes, "measure", lambda *size: measured.append(size) or {"rows": size[0]})
    for rows in (("10",), ("10", "20")):
        sizes.main(["--rows", *rows, "--columns", "5", "--out", str(tmp_path / "sizes.jsonl")])
    assert measured == [(10, 5, 100), (20, 5, 100)]
    lines = (tmp_path / "sizes.jsonl").read_text().splitlines()
    assert [json.loads(line)["found"]["rows"] for line in lines] == [10, 20]


def test_the_table_of_rounding_is_made_from_its_record(script):
    table = script("format_table")
    page = (ROOT / "docs" / "format.md").read_text()
    record = table.load("rounding", "rounding")
    assert table.filled(page, record) == page
    assert len(record["runs"]) == 2


def test_versions_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert aw.__version__ == project["version"]
    assert f"version: {project['version']}" in (ROOT / "CITATION.cff").read_text()
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()


def test_every_extra_but_benchmarks_is_in_all():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    listed = re.fullmatch(r"anchorwalk\[(.*)\]", extras["all"][0]).group(1).split(",")
    assert set(listed) == set(extras) - {"all", "bench", "compare", "ray"}


def test_the_licence_of_the_data_is_named():
    first = (ROOT / "src/anchorwalk/benchmark/datasets/energy.csv").read_text().splitlines()[0]
    assert "CC BY 4.0" in first
    assert "Tsanas" in first


def test_the_benchmark_page_is_made_from_the_records(script):
    text = (ROOT / "docs" / "benchmark.md").read_text()
    assert text == script("benchmark_page").render()
    assert "{{" not in text


def test_the_records_of_the_benchmark_are_those_that_the_page_speaks_of(script):
    counts = {}
    for record in script("pages").benchmark():
        if record["protocol"] != "argmin":
            continue
        cell = (record["task"], *record["variant"].values(), record["method"], record["budget"])
        counts[cell] = counts.get(cell, 0) + 1
        assert record["diverged"] <= 0.01 * record["members"]
        assert record["data_hash"]
        assert record["commit"]
    for split, expected in ((0, 100), (1, 100), (5, 20), (6, 20)):
        for method in METHODS:
            for budget in (200, 500, 1000, 10_000):
                least = 20 if method == "planned" else expected
                assert counts["uci_gap", split, method, budget] >= least
    for method, expected in (("ae", (10, 1, 3)), ("sae", (3, 1, 1)), ("planned", (3, 0, 0))):
        for budget, runs in zip((200, 500, 1000), expected, strict=True):
            assert counts.get(("dermamnist", method, budget), 0) >= runs


def test_the_page_on_plans_is_made_from_the_records(script):
    text = (ROOT / "docs" / "closer.md").read_text()
    page = script("closer_page")
    assert text == page.render()
    readme = (ROOT / "README.md").read_text()
    assert page.with_table(readme, page.Table(page.benchmark())) == readme
    assert "{{" not in text


def test_what_the_page_on_plans_says_of_endings_and_chains_is_so(script):
    page = script("closer_page")
    cells = {split: page.optimizer_cells("endings", f"uci_gap-split{split}") for split in (5, 6)}
    w1 = {split: {place: page.middle([run["w1"] for run in one["runs"]]) for place, one in found.items()}
          for split, found in cells.items()}  # fmt: skip
    cosine, *averages, adam, free = w1[5]
    assert all(w1[5][one] < w1[5][cosine] and w1[6][one] > w1[6][cosine] for one in averages)
    assert all(found[cosine] < 0.7 * found[free] and found[free] < found[adam] for found in w1.values())
    for split, sequential_wins in ((5, True), (6, True), (0, False)):
        plans = page.sequential_cells(f"uci_gap-split{split}")
        chains, single = (page.best_of(plans, "w1", 1000, kind)[0] for kind in (True, False))
        assert (chains < single) == sequential_wins


def test_the_page_on_commands_is_made_from_the_command_line(script):
    assert (ROOT / "docs" / "commands.md").read_text() == script("commands_page").render()


def test_the_page_on_sequential_plans_is_made_from_the_records(script):
    text = (ROOT / "docs" / "sequential.md").read_text()
    assert text == script("sequential_page").render()
    assert "{{" not in text


def test_the_page_on_paper_plans_is_made_from_the_records(script):
    text = (ROOT / "docs" / "paper_plans.md").read_text()
    assert text == script("paper_plans_page").render()
    assert "{{" not in text


def test_the_page_on_methods_is_made_from_the_records(script):
    page = script("methods_page")
    text = (ROOT / "docs" / "methods.md").read_text()
    assert text == page.render()
    assert "{{" not in text
    if not page.recorded():
        assert text.count(page.NONE) == 3


def test_the_page_on_methods_names_every_method():
    from anchorwalk.benchmark import METHODS

    lines = (ROOT / "docs" / "methods.md").read_text().splitlines()
    named = set(re.findall(r"`(\w+)`", " ".join(line.split("|")[2] for line in lines if line.startswith("| `aw."))))
    assert named == set(METHODS)


def test_the_page_on_methods_copes_with_some_records(script):
    page = script("methods_page")
    about = {"budget": 200, "floor": {"w1": 0.004, "agreement": 0.96}, "chains": 2, "members": 6, "seconds": 1.25}
    about |= {"section": "table", "passes": 198}
    runs = {"w1": 0.02, "nll": -1.9, "coverage_90": 0.8, "crps": 0.02}
    gap = [
        {
            **about,
            "label": "uci_gap-split5",
            "method": "swag",
            "runs": [{**runs, "w1": w1} for w1 in (0.03, 0.05, 0.04)],
        },
        {**about, "label": "uci_gap-split5", "method": "sgld", "runs": [{**runs, "nll": None}]},
    ]
    searched = {"section": "search", "label": "uci_gap-split5", "budget": 200, "method": "swag"}
    refused = {
        "section": "table",
        "label": "uci_gap-split5",
        "budget": 200,
        "method": "hmc",
        "runs": [],
        "refused": "no",
    }
    derma = {**about, "label": page.DERMA, "method": "sgld", "floor": {"agreement": 0.96}}
    derma["runs"] = [{"agreement": value, "diverged": 0} for value in (0.8, 0.81, 0.82, 0.84, 0.85)] + [{"diverged": 3}]
    found = [
        *gap,
        refused,
        derma,
        {**searched, "settings": {"chains": 3}, "nll": -1.0},
        {**searched, "settings": {"chains": 5}, "nll": -1.5},
        {**searched, "settings": {"chains": 9}, "nll": None},
    ]
    text = page.render(found)
    assert "### 200 epochs, split 5 (halves of the reference 0.004 apart)" in text
    assert text.index("| SGLD | 0.0200 |  | 0.800 |") < text.index("| SWAG | 0.0400 | -1.900 |")
    assert "| 2 x 3 | 198 | 1.2 | 3 |" in text
    assert "all chains ran away: HMC.\n" in text
    missing = re.findall(r"Not recorded yet: (AE; .*)\.\n", text)[0].split("; ")
    assert "SGHMC" in missing
    assert not {"SWAG", "HMC"} & set(missing)
    assert "Not recorded yet: 200 epochs, split 6; 200 epochs, split 0;" in text
    assert "10,000 epochs, split 1.\n" in text
    assert re.search(r"\| SGLD \| 0\.820 ± 0\.0[012]\d \|.* \| 5 of 6 \|", text)
    assert "Not recorded yet: 1,000 epochs.\n" in text
    assert "| uci_gap-split5 | 200 | SWAG | chains 5 | -1.500 | -1.000 | 2 of 3, 5 to come |" in text
    assert page.NONE not in text
    figure = script("figure_methods").draw(found)
    assert len(figure.axes) == 6
    assert len(figure.axes[0].lines) == 2
