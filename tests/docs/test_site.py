"""The site builds without a warning, and what its pages show runs, made small."""

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import matplotlib.pyplot
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import anchorwalk as aw
from anchorwalk.app.cli import app
from anchorwalk.app.cli.errors import show_tracebacks

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
TUTORIALS = sorted((DOCS / "tutorials").glob("*.md"))
LEAST, ROWS = "12", 300


def blocks(page, language):
    return re.findall(rf"```{language}\n(.*?)```", (DOCS / page).read_text(), re.S)


def smaller(code):
    """The same code with the least budgets of epochs and seconds."""
    code = re.sub(r"set_params\(budget=\d+", "set_params(budget=20", code)
    return re.sub(r"seconds=\d+", "seconds=0.1", re.sub(r"budget=\d{3,}", f"budget={LEAST}", code))


def command(line, expected=0):
    """What `anchorwalk ...` prints, run in this process; a `fit` gets the least budget."""
    program, *arguments = shlex.split(line)
    assert program == "anchorwalk"
    if arguments[0] == "fit" and "--budget" not in arguments:
        arguments += ["--budget", LEAST]
    elif arguments[0] == "fit":
        arguments[arguments.index("--budget") + 1] = LEAST
    result = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1"}).invoke(app, arguments)
    show_tracebacks(False)
    assert result.exit_code == expected, f"{line}\n{result.output}\n{result.exception!r}"
    return " ".join(result.output.split())


def code_cells(page):
    """The code of a tutorial, its options, magics and terminal lines taken out or made calls."""
    for cell in re.findall(r"```\{code-cell\}\n(.*?)```", page.read_text(), re.S):
        lines = [line for line in cell.splitlines() if not line.startswith((":tags:", "%"))]
        yield "\n".join(f"terminal({line[1:]!r})" if line.startswith("!") else line for line in lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def executed(name, monkeypatch):
    """The names that a tutorial's cells leave, and what its terminal lines printed."""
    matplotlib.use("Agg")
    for variable, value in {"ANCHORWALK_SMALL": "1", "TQDM_MININTERVAL": "600", "COLUMNS": "100"}.items():
        monkeypatch.setenv(variable, value)  # the tutorials set the last two
    said, scope = [], {}

    def terminal(line):
        mistaken = "progresion" in line
        said.append(command(line.format_map(scope), expected=2 if mistaken else 0))

    scope["terminal"] = terminal
    with matplotlib.rc_context():
        for cell in code_cells(DOCS / "tutorials" / f"{name}.md"):
            exec(compile(cell, f"{name}.md", "exec"), scope)
        matplotlib.pyplot.close("all")
    return scope, said


@pytest.fixture
def houses(folder):
    """Tables with as many rows and features as that of the tutorial, so that they share its programs."""
    rng = np.random.default_rng(0)
    size = rng.uniform(50, 200, ROWS)
    table = pd.DataFrame({"id": [f"h{i}" for i in range(ROWS)], "size": size, "rooms": rng.integers(2, 7, ROWS)})
    table["town"] = rng.choice(["Ulm", "Bonn"], ROWS)
    table[[f"distance_{i}" for i in range(6)]] = rng.normal(size=(ROWS, 6))
    table["price"] = 3 * size + rng.normal(size=ROWS)
    table["sold"] = np.where(table["price"] > 400, "yes", "no")
    for name in ("houses", "new", "test"):
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path):
    """Links, references, docstrings: everything but the tutorials' outputs, which `make docs` makes."""
    options = ["-b", "html", "-W", "--keep-going", "-q", "-D", "nb_execution_mode=off", "-d", str(tmp_path / "trees")]
    options += ["-D", "suppress_warnings=misc.highlighting_failure"]  # a kernel tells that `!` is a terminal's line
    run = [sys.executable, "-m", "sphinx", *options, str(DOCS), str(tmp_path / "html")]
    result = subprocess.run(run, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    pages = {path.relative_to(tmp_path / "html").with_suffix(".md") for path in (tmp_path / "html").rglob("*.html")}
    sources = {path.relative_to(DOCS) for path in DOCS.rglob("*.md") if "_build" not in path.parts}
    assert sources <= pages
    names = (tmp_path / "html" / "api.html").read_text()
    for name in aw.__all__:
        if name not in ("errors", "networks", "testing", "walks"):
            assert f'id="anchorwalk.{name}"' in names, name


def test_every_link_of_every_page_leads_somewhere():
    for page in (page for page in DOCS.rglob("*.md") if "_build" not in page.parts):
        text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        for link in re.findall(r"\]\(([^)#\s]+)[^)\s]*\)", text):
            assert "://" in link or (page.parent / link).exists(), (page, link)


@pytest.mark.slow
def test_quickstart(houses):
    doors = blocks("quickstart.md", "python")
    assert len(doors) == 2
    assert all(len(block.splitlines()) < 12 for block in doors)
    scope = {}
    for block in doors:
        exec(smaller(block), scope)
    assert (scope["low"] < scope["high"]).all()
    assert scope["prediction"].mean.shape == (64,)
    pd.read_csv("houses.csv").drop(columns="id").to_csv("houses.csv", index=False)
    (terminal,) = blocks("quickstart.md", "sh")
    for line in terminal.splitlines():
        command(line)
    assert (houses / "predictions.csv").exists()
    assert (houses / "runs" / "houses" / "report" / "report.html").exists()


def test_the_page_on_installing_names_every_extra_for_users():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = set(re.findall(r"'\.\[(\w+)\]'", (DOCS / "install.md").read_text()))
    assert named == set(extras) - {"bench", "compare"}


OTHER_PROGRAMS = (
    "Tables with",
    "The best epoch",
    "Noise",
    "Several targets",
    "Another network",
    "Other methods",
    "Pipelines",
)
"""Sections of the page on scikit-learn that compile networks of their own; `tests/estimators` tries all of that too."""


def sklearn_page(skip=()):
    """The names that the page's blocks leave, those of some sections left out."""
    scope = {}
    for section in re.split(r"^## ", (DOCS / "howto/sklearn.md").read_text(), flags=re.M):
        if not section.startswith(skip or "\0"):
            for block in re.findall(r"```python\n(.*?)```", section, re.S):
                exec(smaller(block), scope)
    return scope


@pytest.mark.slow
def test_the_page_on_scikit_learn(folder):
    scope = sklearn_page(skip=OTHER_PROGRAMS)
    rows = len(scope["X_test"])
    assert scope["low"].shape == scope["high"].shape == (rows,)
    assert scope["draws"].shape == (rows, 100)
    assert scope["probabilities"].shape == (rows, 2)
    both = scope["not_known"] ** 2 + scope["noise"] ** 2
    np.testing.assert_allclose(both, scope["model"].predict(scope["X_test"], return_std=True)[1] ** 2, rtol=1e-5)
    assert len(scope["doubtful"]) == np.ceil(0.05 * rows)
    assert len(scope["growing"].posterior_) > scope["few"]
    assert not np.array_equal(scope["weighted"].predict(scope["X_test"]), scope["model"].predict(scope["X_test"]))
    assert (folder / "runs" / "diabetes" / "estimator.json").exists()


@pytest.mark.slow
def test_all_of_the_page_on_scikit_learn(folder):
    scope = sklearn_page()
    rows = len(scope["X_test"])
    assert scope["mean"].shape == scope["std"].shape == (rows, 2)  # of several targets
    assert len(scope["plain"].posterior_) == len(scope["anchored"].posterior_)
    assert set(scope["search"].best_params_) == {"saeregressor__prior"}
    assert all(scope[name].predict(scope["X_test"]).shape == (rows,) for name in ("varying", "own"))


@pytest.mark.slow
def test_the_page_on_the_command_line(houses):
    from anchorwalk.app.tables import FitSettings

    said = {line: command(line) for block in blocks("howto/command_line.md", "sh") for line in block.splitlines()}
    predicted = pd.read_csv("predictions.csv", index_col="row")
    assert list(predicted) == ["mean", "std", "low", "high", "epistemic_std", "aleatoric_std"]
    assert len(predicted) == ROWS
    assert (houses / "runs" / "houses" / "report" / "report.html").exists()
    assert "all whole" in said["anchorwalk verify runs/houses"]
    (settings,) = blocks("howto/command_line.md", "yaml")
    Path("shown.yaml").write_text(settings)
    assert FitSettings.gather(Path("shown.yaml"), {}).hidden == (50, 50)
    scope = {}
    for block in blocks("howto/command_line.md", "python"):
        exec(block, scope)
    np.testing.assert_allclose(scope["table"]["mean"], predicted["mean"])
    assert {"size", "town = Ulm"} <= set(scope["features"])


def test_the_limits_that_the_page_on_the_command_line_tells(houses):
    from anchorwalk.app.tables.reading import KINDS
    from anchorwalk.integrations.sklearn.encoding import MOST_LEVELS

    text = (DOCS / "howto/command_line.md").read_text()
    assert f"up to {MOST_LEVELS} of them" in text
    assert all(f"`{kind}`" in text for kind in KINDS)
    command("anchorwalk fit houses.csv --target nothing", expected=2)  # the table of exit codes


@pytest.mark.slow
def test_a_gap_seen(folder, monkeypatch, capsys):
    scope, _ = executed("gap", monkeypatch)
    prediction, grid = scope["prediction"], scope["grid"][:, 0]
    middle, at_data = scope["gap"], (np.abs(grid) > 1) & (np.abs(grid) < 1.8)
    assert np.sqrt(prediction.epistemic[middle].mean()) > 2 * np.sqrt(prediction.epistemic[at_data].mean())
    np.testing.assert_allclose(prediction.aleatoric, scope["NOISE"] ** 2, rtol=1e-5)
    assert len(scope["sequential"]) > len(scope["anchored"]) == 10
    worth = aw.walks.diagnostics.effective_anchors
    guided, plain = (worth(kind(step_size=scope["STEP"]), scope["LENGTH"]) for kind in (aw.GuidedWalk, aw.RandomWalk))
    assert guided > 2 * plain  # "in far fewer members"
    for anchor, member in zip(scope["anchors"], scope["members"], strict=True):
        one, other = scope["in_prior_units"](anchor), scope["in_prior_units"](member)
        assert np.corrcoef(one, other)[0, 1] > 4 / np.sqrt(one.size)  # of unrelated ones it is 0 ± 1 / sqrt(size)
    assert "advice" in capsys.readouterr().out


@pytest.mark.slow
def test_digits(folder, monkeypatch, capsys):
    scope, _ = executed("digits", monkeypatch)
    known, rows = scope["known"]["ensemble"], len(scope["x_test"])
    assert known.probabilities.shape == (rows, 9)
    assert (known.probabilities.argmax(axis=1) == scope["y_test"]).mean() > 3 / 9  # three times chance
    assert set(scope["turned"]) == set(scope["alone"]) >= {0, 90, 180}
    assert all(0 < area < 1 for area in scope["separation"].values())
    assert "accuracy" in capsys.readouterr().out


@pytest.mark.slow
def test_from_a_trained_network_to_an_ensemble(folder, monkeypatch):
    scope, _ = executed("network_to_ensemble", monkeypatch)
    difference = scope["ours"][0] - scope["ours"][1]
    np.testing.assert_allclose(difference, scope["theirs"][0] - scope["theirs"][1], atol=1e-5)  # of numbers near 1
    assert [len(posterior) for posterior in scope["posteriors"].values()] == [4, 50, 40]
    spread = {name: np.sqrt(p.predict(scope["grid"]).epistemic) for name, p in scope["posteriors"].items()}
    assert all(sd[scope["gap"]].mean() > sd[scope["data"]].mean() for sd in spread.values())


@pytest.mark.slow
def test_a_cluster_on_one_machine(folder, monkeypatch):
    pytest.importorskip("ray")
    scope, _ = executed("cluster", monkeypatch)
    assert scope["same"](scope["whole"], scope["single"])
    assert scope["same"](scope["spread"], scope["single"])


def test_a_table(folder, monkeypatch):
    scope, said = executed("table", monkeypatch)
    assert "bp:" in said[0]
    assert "of its values are missing" in said[0]
    assert "Did you mean 'progression'?" in said[2]
    assert len(scope["predictions"]) == len(scope["truth"]) == 142
    assert {"calibration.png"} <= set(scope["figures"])
    assert "noise: varying" in Path("diabetes.yaml").read_text()


def test_tutorials_type_no_result_into_their_text():
    """Numbers in the prose of a tutorial are settings or facts; what is computed is printed by a cell."""
    assert len(TUTORIALS) == 5
    for page in TUTORIALS:
        prose = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
        assert not re.findall(r"\d+\.\d{2,}", prose), page
