"""What the experiments with many cells promise: who sees which rows, and that nothing is run twice."""

import importlib
import json
import os
from pathlib import Path

import numpy as np
import pytest

EXPERIMENTS = Path(__file__).parent.parent / "experiments"


@pytest.fixture
def experiment(monkeypatch, tmp_path):
    """A script of experiments/, as a module, with small tables in its folder."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 2)), rng.normal(size=60)
    (tmp_path / "uci").mkdir()
    published = {f"standard_test_{k}": np.arange(6 * k, 6 * k + 6, dtype=np.uint16) for k in range(3)}
    np.savez(tmp_path / "uci" / "small.npz", x=x, y=y, gap_test_0=np.arange(20, dtype=np.uint16), **published)
    np.savez(tmp_path / "uci" / "free.npz", x=x, y=y)
    np.savez(tmp_path / "uci" / "classes.npz", x=x, y=(y > 0).astype(np.uint8))
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    monkeypatch.delenv("ANCHORWALK_BDE", raising=False)
    monkeypatch.syspath_prepend(EXPERIMENTS)
    importlib.import_module("uci").load.cache_clear()
    yield importlib.import_module
    importlib.import_module("uci").load.cache_clear()


def test_test_rows_are_those_that_were_published(experiment):
    uci = experiment("uci")
    kinds = [(split.kind, split.number) for split in uci.splits("small")]
    assert kinds == [("standard", 0), ("standard", 1), ("standard", 2), ("gap", 0)]
    x, new, y, truth = uci.splits("small")[1].parts
    np.testing.assert_array_equal(truth, uci.load("small")["y"][6:12])
    assert len(x) == len(y) == 54
    assert len(new) == 6
    assert [split.kind for split in uci.splits("free")] == ["random"] * 5
    assert "no such table" in uci.names()["boston"]
    assert uci.names()["small"] is None


def test_settings_are_chosen_on_rows_that_are_never_tested(experiment):
    uci = experiment("uci")
    np.testing.assert_array_equal(uci.never_tested("small"), np.arange(18, 60))
    y = uci.load("free")["y"]
    for split in uci.splits("free"):
        assert not set(y[uci.never_tested("free")]) & set(split.parts[3])
    assert len(uci.never_tested("free")) == 48


def test_candidates_begin_with_today_s_and_differ(experiment):
    defaults = experiment("defaults")
    for numbers in (True, False):
        found = defaults.candidates(numbers)
        assert found[0] == defaults.TODAY | (defaults.TODAY_NUMBERS if numbers else {})
        assert len({defaults.name_of(one) for one in found}) == len(found) > 40
        assert all(one.get("mean_first") is None or one["noise"] == "varying" for one in found)
    parameters = {name: value for name, value in defaults.Regressor().__dict__.items() if name in found[0]}
    today = defaults.TODAY | defaults.TODAY_NUMBERS
    assert all(today[name] == value for name, value in parameters.items())  # what estimators have today


def test_a_search_goes_on_where_it_stopped(experiment, monkeypatch, tmp_path):
    defaults, out = experiment("defaults"), tmp_path / "defaults.jsonl"
    fitted = []
    monkeypatch.setattr(defaults, "score", lambda *given: fitted.append(given) or {"nll": 1.0, "seconds": 2.0})
    defaults.run("small", out, most=2)
    assert len(fitted) == 2 * defaults.FOLDS
    defaults.run("small", out, most=3)
    assert len(fitted) == 3 * defaults.FOLDS
    defaults.show(out)


def test_what_is_left_out_has_a_reason(experiment, monkeypatch):
    cells, uci = experiment("uci_comparison"), experiment("uci")
    split = uci.splits("small")[0]
    assert cells.left_out(split, "SAERegressor") is None
    assert "once on each of" in cells.left_out(split, "bde")
    assert "ANCHORWALK_BDE" in cells.left_out(split._replace(table="boston"), "bde")
    monkeypatch.setattr(cells, "find_spec", lambda name: None)
    assert "anchorwalk[compare]" in cells.left_out(split, "NGBoost")
    monkeypatch.setattr(cells, "MOST_OF_PROCESS", 50)
    assert "more than 50 training rows" in cells.left_out(split, "GaussianProcessRegressor")


def test_cells_are_fitted_in_a_process_and_once(experiment, monkeypatch, tmp_path):
    cells, out = experiment("uci_comparison"), tmp_path / "uci.jsonl"
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([str(EXPERIMENTS.parent / "src"), os.environ.get("PYTHONPATH", "")])
    )
    cells.run("small", "standard", "RandomForestRegressor", out, patience=300, most=2)
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(one["number"], one["first"]) for one in found] == [(0, True), (1, False)]
    assert all(0 <= one["scores"]["coverage"] <= 1 and one["scores"]["crps"] > 0 for one in found)
    monkeypatch.setattr(cells, "Worker", None)
    cells.run("small", "standard", "RandomForestRegressor", out, patience=300, most=2)
    assert len(out.read_text().splitlines()) == 2


def test_a_fit_that_takes_too_long_is_cut_and_ends_its_method(experiment, tmp_path):
    cells, out = experiment("uci_comparison"), tmp_path / "uci.jsonl"
    for _ in range(2):
        cells.run("small", "standard", "MLPRegressor", out, patience=0.01)
    (found,) = [json.loads(line) for line in out.read_text().splitlines()]
    assert found["cut"] == 0.01
    assert "scores" not in found


def test_a_mixture_is_scored_as_one(experiment):
    competitors = experiment("competitors")
    mean, std = np.array([[0.0, 1.0], [2.0, 1.0]]), np.ones((2, 2))
    found = competitors.mixture(mean, std, 0, 3.0)
    density = (np.exp(-0.5 * 0.5**2) + np.exp(-0.5 * 1.5**2)) / 2 / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(found.log_prob([0.5, 1.0]), np.log([density, 1 / np.sqrt(2 * np.pi)]))
    np.testing.assert_allclose(found.mean, [1, 1])
    # Of 1000 draws, a mean is known to five times sqrt(2 / 1000), the mixture's variance being 2.
    assert np.all(np.abs(found.draws.mean(axis=0) - 1) < 5 * np.sqrt(2 / 1000))
    assert found.seconds == 3.0
