"""From a CSV file and a terminal to predictions: what is handled, what is refused in words, and that numbers agree."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
import yaml
from typer.testing import CliRunner

from anchorwalk.app import tables
from anchorwalk.app.cli import app
from anchorwalk.app.tables.columns import Options
from anchorwalk.app.tables.prepare import target
from anchorwalk.errors import InvalidInput, StoreDamaged
from stored import relisted

RNG = np.random.default_rng(0)
ROWS = 80
QUICK = ["--budget", "60", "--method", "ae"]  # one program to compile; tests/estimators has the walk's


def houses():
    size = RNG.uniform(50, 200, ROWS)
    town = RNG.choice(["Ulm", "Bonn", "Kiel"], ROWS)
    price = 3 * size + np.where(town == "Ulm", 50.0, 0.0) + RNG.normal(size=ROWS)
    table = pd.DataFrame(
        {"size": size, "town": town, "price": price, "land": "DE", "id": [f"h{i}" for i in range(ROWS)]}
    )
    table["garden"] = np.where(RNG.uniform(size=ROWS) < 0.2, np.nan, RNG.uniform(size=ROWS))
    table["dear"] = np.where(price > np.median(price), "yes", "no")
    return table


def run(*arguments, code=0):
    result = CliRunner(env={"COLUMNS": "300", "NO_COLOR": "1"}).invoke(app, [str(one) for one in arguments])
    assert result.exit_code == code, result.output
    if code == 2:
        assert "Traceback" not in result.output
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    houses().to_csv(folder / "houses.csv", index=False)
    houses().to_parquet(folder / "houses.parquet")
    return folder


@pytest.fixture(scope="module")
def regression(files):
    said = run(
        "fit",
        files / "houses.csv",
        "--target",
        "price",
        "--drop",
        "id",
        "--drop",
        "dear",
        "--out",
        files / "run",
        *QUICK,
    )
    return files / "run", said


@pytest.fixture(scope="module")
def classification(files):
    out = files / "classes"
    said = run(
        "fit", files / "houses.parquet", "--target", "dear", "--drop", "id", "--drop", "price", "--out", out, *QUICK
    )
    return out, said


def test_fit_says_what_it_did_with_the_columns(regression):
    _, said = regression
    assert "price: to predict, taken as a number" in said
    assert "size: numbers from" in said
    assert "id: left out, as you say" in said
    assert "town: 3 texts" in said
    assert "land: left out, it is 'DE' in every row" in said
    assert "garden:" in said
    assert "of its values are missing" in said


def test_predictions_are_those_of_the_model(regression, files):
    folder, _ = regression
    out = files / "predictions.csv"
    run("predict", folder, files / "houses.csv", "--out", out, "--coverage", "0.8")
    found = pd.read_csv(out, index_col="row")
    assert list(found) == ["mean", "std", "low", "high", "epistemic_std", "aleatoric_std"]
    assert len(found) == ROWS
    np.testing.assert_allclose(found["std"] ** 2, found["epistemic_std"] ** 2 + found["aleatoric_std"] ** 2, rtol=1e-6)
    model = tables.load(folder)
    x = tables.read(files / "houses.csv")[[form.name for form in model.forms]]
    mean, std = model.estimator.predict(x, return_std=True)
    low, high = model.estimator.predict_interval(x, coverage=0.8)
    for name, expected in {"mean": mean, "std": std, "low": low, "high": high}.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-9)
    truth = tables.read(files / "houses.csv")["price"]
    assert np.corrcoef(found["mean"], truth)[0, 1] > 0.9


def test_class_predictions(classification, files):
    folder, said = classification
    assert "dear: to predict, taken as 2 classes ('no', 'yes')" in said
    out = files / "classes.csv"
    run("predict", folder, files / "houses.csv", "--out", out)
    found = pd.read_csv(out, index_col="row")
    assert list(found) == ["predicted", "p_no", "p_yes", "entropy", "epistemic", "aleatoric"]
    np.testing.assert_allclose(found["p_no"] + found["p_yes"], 1, rtol=1e-9)
    np.testing.assert_allclose(found["entropy"], found["epistemic"] + found["aleatoric"], atol=1e-9)
    assert (found["predicted"] == np.where(found["p_yes"] > 0.5, "yes", "no")).all()


def test_the_same_command_goes_on(regression, files):
    folder, _ = regression
    before = {path: path.read_bytes() for path in folder.glob("members-*")}
    run("fit", files / "houses.csv", "--target", "price", "--drop", "id", "--drop", "dear", "--out", folder, *QUICK)
    assert {path: path.read_bytes() for path in folder.glob("members-*")} == before
    said = run("fit", files / "houses.csv", "--target", "price", "--drop", "id", "--out", folder, *QUICK, code=2)
    assert "drop was ['id', 'dear'], is ['id']" in said


def test_a_report(regression, classification, files):
    for folder, _ in (regression, classification):
        run("report", folder, "--data", files / "houses.csv")
        page = (folder / "report" / "report.html").read_text()
        assert "<img" in page or "<svg" in page
        assert list((folder / "report" / "figures").glob("*.png"))
    run("report", regression[0], "--out", files / "bare")
    assert (files / "bare" / "report.html").is_file()


def test_settings_from_a_file(files, tmp_path):
    settings = tmp_path / "s.yaml"
    run("init", settings, "--target", "price")
    values = yaml.safe_load(settings.read_text())
    assert values["target"] == "price"
    assert tables.FitSettings.gather(settings, {}) == tables.FitSettings(target="price")
    assert settings.read_text().count("# ") >= len(values)
    settings.write_text(
        yaml.safe_dump({**values, "budget": 60, "drop": ["id", "dear"], "hidden": [7], "seed": 3, "method": "ae"})
    )
    run("fit", files / "houses.csv", "--config", settings, "--out", tmp_path / "run", "--seed", "4")
    model = tables.load(tmp_path / "run")
    assert model.settings.seed == 4
    assert model.estimator.posterior_[0, 0].params["dense_0"]["kernel"].shape[1] == 7
    run("init", settings, code=2)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("budgte: 3", "budgte, which is no setting"),
        ("budget: -3", "budget: -3"),
        ("budget: many", "budget: 'many'"),
        ("- a\n- b", "lines such as"),
        ("a: [", "YAML"),
        ("task: guess", "task: 'guess'"),
    ],
)
def test_bad_settings_are_named(files, tmp_path, content, message):
    settings = tmp_path / "bad.yaml"
    settings.write_text(content)
    said = run("fit", files / "houses.csv", "--target", "price", "--config", settings, "--out", tmp_path / "x", code=2)
    assert message in said
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("", (), "empty"),
        ("a,y\n", (), "no rows"),
        ("a,a,y\n1,2,3\n4,5,6\n", (), "'a' twice"),
        ("1,2,3\n4,5,6\n", (), "names"),
        ("a,y\n1,2,3\n4,5,6\n", (), "2 names and 3 fields"),
        ("a,Y\n1,2\n2,3\n", (), "Did you mean 'Y'?"),
        ("a,y\n1,2\n2,2\n", (), "a column that varies"),
        ("a,y\n1,2\n1,3\n", (), "at least one feature that varies"),
        ("a,y\n1,\n2,3\n", (), "two rows at least"),
        ("a,y\ninf,2\n2,3.5\n", (), "'inf' in row 0, counted from 0"),
        ("a,y\n1,x\n2,3.5\n", ("--task", "regression"), "'x' in row 0, counted from 0"),
        ("a,y\n1,2\n2,3.5\n", ("--drop", "b"), "'b'"),
        ("a,y\n1,2\n2,3.5\n", ("--drop", "y"), "columns beside the target"),
        ("a,y\n" + "".join(f"t{i},{i}.5\n" for i in range(60)), (), "at least one feature that varies"),
        ('a,y\n1,2\n"2,3\n', (), "CSV"),
    ],
)
def test_tables_that_are_refused(tmp_path, content, options, message):
    path = tmp_path / "t.csv"
    path.write_text(content)
    said = run("fit", path, "--target", "y", "--out", tmp_path / "x", *QUICK, *options, code=2)
    assert message in said
    assert not (tmp_path / "x").exists()


def test_other_mistakes(files, tmp_path, regression):
    assert "Did you mean 'houses.csv'?" in run("fit", files / "house.csv", "--target", "y", code=2)
    assert "no target" in run("fit", files / "houses.csv", "--out", tmp_path / "x", code=2)
    (tmp_path / "t.xlsx").write_text("x")
    assert "ends in .csv" in run("fit", tmp_path / "t.xlsx", "--target", "y", code=2)
    assert "anchorwalk fit --out" in run("predict", tmp_path, files / "houses.csv", code=2)
    assert "--coverage" in run("predict", regression[0], files / "houses.csv", "--coverage", "1.5", code=2)
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    assert "Parquet" in run("fit", tmp_path / "bad.parquet", "--target", "y", code=2)
    few = tmp_path / "few.csv"
    houses()[["town"]].to_csv(few, index=False)
    assert "'size'" in run("predict", regression[0], few, code=2)
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "table.json").write_text("{")
    assert "table.json" in run("predict", tmp_path / "broken", few, code=2)


def test_nothing_that_is_there_is_overwritten_unasked(regression, files, tmp_path):
    rows = tmp_path / "new.csv"
    houses().to_csv(rows, index=False)
    before = rows.read_bytes()
    assert "the file of the rows" in run("predict", regression[0], rows, "--out", rows, "--overwrite", code=2)
    out = tmp_path / "p.csv"
    out.write_text("mine")
    assert "--overwrite" in run("predict", regression[0], rows, "--out", out, code=2)
    assert (rows.read_bytes(), out.read_text()) == (before, "mine")
    run("predict", regression[0], rows, "--out", out, "--overwrite")
    assert len(pd.read_csv(out)) == ROWS


def test_mistakes_are_named_as_the_user_knows_them(files, tmp_path, regression, classification):
    few = tmp_path / "few.csv"
    houses().drop(columns="size").to_csv(few, index=False)
    assert "a table without 'size'" in run("predict", regression[0], few, code=2)
    again = ("fit", files / "houses.csv", "--target", "price", "--drop", "id", "--drop", "dear", "--out", regression[0])
    said = run(*again, "--budget", "7", code=2)
    assert "budget was" in said
    assert "is 7" in said
    assert "a folder" in run("fit", tmp_path, "--target", "y", code=2)
    store = tmp_path / "members"
    shutil.copytree(regression[0], store)
    (store / "table.json").unlink()
    assert "a run without a table" in run("report", store, code=2)
    for line, words in (("hidden: 50", "[50]"), ("drop: id", "[id]")):
        (tmp_path / "s.yaml").write_text(f"target: price\n{line}\n")
        assert words in run("fit", files / "houses.csv", "--config", tmp_path / "s.yaml", code=2)
    (tmp_path / "s.yaml").write_text("target: price\nbatch_size: -3\n")
    assert run("fit", files / "houses.csv", "--config", tmp_path / "s.yaml", code=2).count("batch_size") == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda about: about["columns"][0].update(name=7),
        lambda about: about["columns"][0].update(kind="image"),
        lambda about: about["columns"][0].update(unit=[]),
        lambda about: about["columns"][0].update(dates=0.5),
        lambda about: about["columns"][0].update(decimal=";"),
        lambda about: about["columns"][0].update(decimal={}),
        lambda about: about["target"].update(unit=7),
        lambda about: about["target"].update(kind="text"),
        lambda about: about["options"].update(decimal=None),
        lambda about: about["options"].update(thousands=[]),
        lambda about: about["options"].update(dates=1),
        lambda about: about.update(options=[]),
        lambda about: about.update(estimator="SAEClassifier"),
    ],
)
def test_crafted_tables(tmp_path, regression, change):
    folder = tmp_path / "run"
    shutil.copytree(regression[0], folder)
    about = json.loads((folder / "table.json").read_text())
    change(about)
    (folder / "table.json").write_text(json.dumps(about))
    relisted(folder, "table.json")
    with pytest.raises(StoreDamaged, match=r"table\.json is not what was written"):
        tables.load(folder)


def test_padding_rows_are_not_counted(regression):
    about = json.loads((regression[0] / "run.json").read_text())
    assert ROWS & (ROWS - 1)  # no power of two: rows without weight were added
    assert f'"rows": {ROWS}' in json.dumps(about)


def test_debug_shows_where_an_error_came_from(tmp_path):
    result = CliRunner().invoke(app, ["--debug", "fit", str(tmp_path / "none.csv"), "--target", "y"])
    assert isinstance(result.exception, InvalidInput)


def test_new_levels_and_gaps_are_told(regression, files, tmp_path):
    table = houses()
    table.loc[0, "town"] = "Rom"
    table.loc[1, "size"] = np.nan
    table.to_csv(tmp_path / "new.csv", index=False)
    said = run("predict", regression[0], tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "town: not seen in training, and so without effect: 'Rom'" in said
    assert "size: 1 missing values are taken as the median" in said
    assert len(pd.read_csv(tmp_path / "p.csv")) == ROWS


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_and_a_byte_order_mark(tmp_path, separator):
    path = tmp_path / "t.csv"
    path.write_text("\ufeff" + f"a{separator}y\n1{separator}2.5\n", encoding="utf-8")
    table = tables.read(path)
    assert list(table) == ["a", "y"]
    assert table.iloc[0].tolist() == [1, 2.5]


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([0, 1] * 30, "text"),
        (range(60), "number"),
        ([0.5, 1.5] * 30, "number"),
        ([True, False], "text"),
        (["0", "1"] * 30, "text"),
        (["1,000", "2,000"] * 30, "number"),
        (["1 %", "2 %"] * 30, "number"),
    ],
)
def test_whole_numbers_are_classes_only_where_they_are_few_and_plain(values, kind):
    settings = tables.FitSettings(target="y")
    form, _, words = target(pd.Series(values, name="y"), settings, Options())
    assert form.kind == kind
    assert "--task says otherwise" in words


@pytest.mark.slow
def test_ctrl_c_and_a_kill_lose_nothing(files, tmp_path):
    command = [
        sys.executable,
        "-m",
        "anchorwalk",
        "fit",
        str(files / "houses.csv"),
        "--target",
        "price",
        "--drop",
        "id",
    ]
    command += ["--drop", "dear", "--budget", "4000", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}
    for sent, code in ((signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)):
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        before = len(list((tmp_path / "run").glob("members-*"))) if (tmp_path / "run").exists() else 0
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.05)
            if (tmp_path / "run").exists() and len(list((tmp_path / "run").glob("members-*"))) > before:
                process.send_signal(sent)
                break
        said, _ = process.communicate(timeout=60)
        assert process.returncode in (code, 0), said.decode()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    straight = [*command[:-1], str(tmp_path / "straight")]
    subprocess.run(straight, env=environment, check=True, capture_output=True)
    one, other = tables.load(tmp_path / "run"), tables.load(tmp_path / "straight")
    table = tables.read(files / "houses.csv")
    pd.testing.assert_frame_equal(one.predict(table)[0], other.predict(table)[0])
