"""The main job, at a small budget, through its command."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import anchorwalk as aw
from anchorwalk.app.cli import app
from anchorwalk.app.demo.energy import load, plans
from anchorwalk.benchmark.datasets import energy, gap_split
from anchorwalk.errors import InvalidInput
from anchorwalk.posterior import metrics

BUDGET = 400


def test_demo_writes_runs_scores_and_figure(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--budget", str(BUDGET)])
    assert result.exit_code == 0, result.output
    record = json.loads((tmp_path / "scores.json").read_text())
    assert [r["method"] for r in record["results"]] == ["AE", "SAE"]
    assert [r["members"] for r in record["results"]] == [10, 205]
    assert [r["epochs"] for r in record["results"]] == [400, 400]  # the same budget
    for row in record["results"]:
        assert row["seconds"] > 0
        assert np.isfinite(row["first_loss"])
        assert {name: score["rows"] for name, score in row["scores"].items()} == {"gap": 256, "outside": 51}
        for score in row["scores"].values():
            assert np.isfinite(score["nll"])
            assert score["rmse"] < 12  # the target's own standard deviation is 10
            assert 0 <= score["coverage"] <= 1
    assert (tmp_path / "figure.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    for name in ("ae", "sae"):
        assert list((tmp_path / f"{name}-glazing_area-400-0").glob("members-*.safetensors"))
    for text in ("members", "epochs", "seconds", "NLL", "RMSE", "covered", "256 in gap", "51 outside", "figure.png"):
        assert text in result.output
    again = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--budget", str(BUDGET)])
    assert json.loads((tmp_path / "scores.json").read_text()) == record  # the runs were there: nothing changes
    assert again.exit_code == 0


def test_demo_refuses_in_words(tmp_path):
    result = CliRunner().invoke(app, ["demo", "--out", str(tmp_path), "--gap", "colour"])
    assert result.exit_code == 2
    assert "gap: got 'colour', expected one of 'relative_compactness'" in result.output
    assert "Traceback" not in result.output


def test_the_command_line_is_python_m_anchorwalk():
    result = subprocess.run(
        [sys.executable, "-m", "anchorwalk", "--version"], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == aw.__version__


def test_both_plans_spend_the_budget():
    for budget in (400, 10_000):
        assert {plan.epochs for plan in plans(budget).values()} == {budget}


def test_test_rows_are_not_trained_on():
    task = load("glazing_area", seed=0)
    parts = [task.train, task.test["gap"], task.test["outside"]]
    assert sorted(np.concatenate(parts).tolist()) == list(range(768))
    np.testing.assert_allclose(task.x[task.train].mean(axis=0), 0, atol=1e-12)
    other = load("glazing_area", seed=1)
    assert set(other.test["outside"]) != set(task.test["outside"])
    assert set(other.test["gap"]) == set(task.test["gap"])


def test_energy_data():
    table = energy()
    assert table.x.shape == (768, 8)
    assert table.features[0] == "relative_compactness"
    assert table.x[0].tolist() == [0.98, 514.5, 294.0, 110.25, 7.0, 2.0, 0.0, 0.0]
    assert table.y[0] == 15.55
    outside, inside = gap_split(table.x, 0)
    assert (len(outside), len(inside)) == (512, 256)
    assert table.x[inside, 0].min() >= np.sort(table.x[:, 0])[256]
    with pytest.raises(InvalidInput, match="a column from 0 to 7"):
        gap_split(table.x, 8)


def test_energy_data_is_the_published_one(data_folder):
    with np.load(data_folder / "energy_gap.npz") as data:
        table = energy()
        np.testing.assert_array_equal(np.column_stack([table.x, table.y]), data["data"])
        for feature in (0, 1):  # where ties are broken by the rows' order
            _, inside = gap_split(table.x, feature)
            assert set(inside) == set(data[f"test_{feature}"])


def test_metrics():
    assert metrics.rmse([1.0, 2.0], [1.0, 4.0]) == pytest.approx(np.sqrt(2))
    assert metrics.coverage([0, 0, 0], [1, 1, 1], [0, 1, 2]) == pytest.approx(2 / 3)
    assert metrics.negative_log_likelihood(np.log([0.5, 0.25])) == pytest.approx(1.5 * np.log(2))
