"""The commands, as a user types them."""

import pytest
from typer.testing import CliRunner

from anchorwalk.app.cli.app import app
from anchorwalk.benchmark import METHODS, records
from anchorwalk.benchmark import losses as figure

runner = CliRunner()


def call(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], terminal_width=200)


def text_of(result):
    return " ".join(result.output.split())


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("run", "mnist", "--method", "ae", "--budget", "200"), ("mnist", "dermamnist", "uci_gap")),
        (("run", "uci_gap", "--method", "vi", "--budget", "200"), ("vi", "deep_ensemble", "sae")),
        (("run", "uci_gap", "--method", "ae", "--budget", "123"), ("123", "10000")),
        (("run", "uci_gap", "--method", "ae", "--budget", "200", "--split", "9"), ("9", "0 to 7")),
        (
            ("run", "dermamnist", "--method", "ae", "--budget", "300"),
            ("300", "one of 200, 500, 1000, 10000", "planned"),
        ),
        (("run", "dermamnist", "--method", "planned", "--budget", "-3"), ("greater than or equal to 1",)),
        (("table", "--results", "nowhere"), ("nowhere", "benchmark run")),
    ],
)
def test_mistakes_get_one_line_that_lists_what_is_known(arguments, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = call("benchmark", *arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output
    for word in words:
        assert word in text_of(result)


def test_a_budget_without_a_plan_is_refused_before_any_data_are_loaded(monkeypatch):
    monkeypatch.setattr("anchorwalk.app.cli.benchmark.open_case", lambda *_: pytest.fail("data were loaded"))
    result = call("benchmark", "run", "uci_gap", "--method", "map", "--method", "sae", "--budget", "300")
    assert result.exit_code == 2
    assert "--budget of sae: got 300" in text_of(result)
    assert "Plan." not in text_of(result)  # no advice for Python


def test_run_and_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ("benchmark", "run", "uci_gap", "--method", "map", "--budget", "2", "--runs", "2", "--split", "5")
    result = call(*arguments, "--results", tmp_path / "out", "--save-predictions", "--quiet")
    assert result.exit_code == 0, result.output
    assert "2 runs made" in text_of(result)
    assert "floor" in text_of(result)
    assert len(list((tmp_path / "out").glob("*.predictions.npz"))) == 2
    assert "0 runs made, 2 were there" in text_of(call(*arguments, "--results", tmp_path / "out", "--quiet"))
    record = next(iter(records.read(tmp_path / "out/uci_gap-map.jsonl").values()))
    assert record["plan"]["epochs"] == 2
    table = call("benchmark", "table", "--results", tmp_path / "out", "--out", tmp_path / "tables")
    assert table.exit_code == 0, table.output
    assert "UCI-Gap (split 5) | MAP" in (tmp_path / "tables/tables.md").read_text()
    assert (tmp_path / "tables/tables.tex").exists()


def test_missing_data_says_where_to_get_it(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")  # nothing listens there
    result = call("benchmark", "run", "dermamnist", "--method", "ae", "--budget", "200")
    assert result.exit_code == 2
    for word in ("dermamnist.npz", "zenodo.org", "ANCHORWALK_DATA"):
        assert word in text_of(result)


@pytest.mark.slow
def test_losses_are_drawn_from_a_run_of_21_and_2_members(tmp_path, monkeypatch):
    monkeypatch.setattr(figure, "FIRST_EPOCHS", 20)
    result = call("benchmark", "losses", "uci_gap", "--out", tmp_path / "losses.png")
    assert result.exit_code == 0, result.output
    assert (tmp_path / "losses.png").stat().st_size > 10_000


def test_anchors_are_recorded(tmp_path, monkeypatch):
    monkeypatch.setattr("anchorwalk.app.cli.benchmark.BUDGETS", (200, 500))
    result = call("benchmark", "anchors", "--out", tmp_path / "anchors.jsonl")
    assert result.exit_code == 0
    rows = records.read(tmp_path / "anchors.jsonl")["anchors"]["rows"]
    assert len(rows) == 10
    assert len(METHODS) == 20


@pytest.mark.slow
def test_workers_make_the_same_runs(tmp_path):
    base = ("benchmark", "run", "uci_gap", "--method", "map", "--budget", "2", "--budget", "3", "--runs", "2")
    assert call(*base, "--results", tmp_path / "one", "--quiet").exit_code == 0
    assert call(*base, "--results", tmp_path / "two", "--workers", "2").exit_code == 0
    found = [records.read(tmp_path / folder / "uci_gap-map.jsonl") for folder in ("one", "two")]
    assert set(found[0]) == set(found[1])
    assert len(found[0]) == 4
    for name in found[0]:
        one, two = (each[name]["scores"] for each in found)
        # Another number of threads may round otherwise; two epochs later that is still rounding.
        assert one == pytest.approx(two, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    "task", [("uci_gap", "--method", "sae", "--budget", "200"), ("dermamnist", "--method", "map", "--budget", "2")]
)
def test_a_cluster_makes_the_same_runs(task, tmp_path, data_folder):
    """Runs whose chains share blocks, and runs by themselves, whose members go into folders."""
    rows = ("--rows", "60", "--test-rows", "20") if task[0] == "dermamnist" else ()
    base = (
        "benchmark",
        "run",
        *task,
        *rows,
        "--runs",
        "2",
        "--quiet",
        "--members",
        tmp_path / "runs",
    )
    assert call(*base, "--results", tmp_path / "one").exit_code == 0
    spread = call(*base, "--results", tmp_path / "two", "--ray", "local", "--workers", "2")
    assert spread.exit_code == 0, spread.output
    name = f"{task[0]}-{task[2]}.jsonl"
    one, two = (records.read(tmp_path / folder / name) for folder in ("one", "two"))
    assert len(one) == 2
    assert {name: record["scores"] for name, record in two.items()} == {k: v["scores"] for k, v in one.items()}
    assert not list((tmp_path / "runs").glob("*"))  # they are recorded
    assert "0 runs made, 2 were there" in text_of(call(*base, "--results", tmp_path / "two", "--ray", "local"))


@pytest.mark.slow
def test_cost_is_measured_without_data(tmp_path):
    result = call("benchmark", "cost", "--task", "dermamnist", "--out", tmp_path / "cost.jsonl")
    assert result.exit_code == 0, result.output
    (row,) = records.read(tmp_path / "cost.jsonl")["cost"]["rows"]
    assert row["steps_per_epoch"] == 125
    assert row["epoch_seconds"] == pytest.approx(125 * row["step_seconds"])


@pytest.mark.slow
def test_reference_command(tmp_path):
    arguments = ("reference", "uci_gap", "--split", "5", "--chains", "2", "--draws", "10", "--leapfrogs", "4")
    arguments += ("--integrate-out", "dense_1")
    result = call(*arguments, "--warmup", "1", "--folder", tmp_path / "runs", "--record", tmp_path / "record.jsonl")
    assert result.exit_code == 0, result.output
    (record,) = records.read(tmp_path / "record.jsonl").values()
    assert record["evidence"]["chains"] == 2
    assert record["plans"]["prior"]["method"]["settings"]["integrate_out"] == "dense_1"
    assert record["floor"]["w1"] > 0
    assert (tmp_path / "runs/uci_gap-split5.npz").exists()


@pytest.mark.slow
def test_reference_command_with_chains_from_below_and_above(tmp_path):
    arguments = ("reference", "uci_gap", "--split", "5", "--method", "tempering")
    counts = ("--epochs", "2", "--chains", "2", "--draws", "10", "--leapfrogs", "2", "--warmup", "1", "--rungs", "2")
    starts = ("--start", "prior", "--start", "trained")
    result = call(*arguments, *starts, *counts, "--folder", tmp_path / "runs", "--record", tmp_path / "record.jsonl")
    assert result.exit_code == 0, result.output
    (record,) = records.read(tmp_path / "record.jsonl").values()
    assert record["evidence"]["chains"] == 4
    assert set(record["chains"]) == {"prior", "trained"}
    assert record["evidence"]["between_starts"][0]["w1"] > 0
    assert "different starts" in result.output
    wrong = call(*arguments, "--start", "above")
    assert wrong.exit_code == 2
    assert "one of 'prior', 'trained'" in wrong.output.replace("\n", " ")
    wrong = call(*arguments, "--integrate-out", "dense_1")
    assert wrong.exit_code == 2
    assert "--method hmc" in wrong.output
