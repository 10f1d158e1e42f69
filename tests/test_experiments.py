"""What the experiments with many cells promise: who sees which rows, and that nothing is run twice."""

import importlib
import json
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import anchorwalk as aw
from anchorwalk.benchmark import METHODS, Variant, open_case, records
from anchorwalk.errors import InvalidInput
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor

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
    today = defaults.TODAY | defaults.TODAY_NUMBERS
    assert today.items() <= SAERegressor().get_params().items()  # what estimators have today
    assert defaults.TODAY.items() <= SAEClassifier().get_params().items()


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


class Killed(Exception):
    pass


def quick(case, budget, chains, rate):
    """A plan of two short calls."""
    if chains > 2:
        raise InvalidInput("too many")
    return aw.Plan(aw.SGLD(None, rate, thin=1, batch_size=256), chains, 2)


@pytest.fixture
def methods(experiment, monkeypatch):
    """The comparison of methods, with one method of four settings, two of which want more."""
    script = experiment("methods")
    entry = script.Searched.of("sgld", quick, chains=(2, 3), rate=(0.01, 0.001))
    monkeypatch.setattr(script, "SEARCHED", {"sgld": entry})
    monkeypatch.setattr(script, "SEARCH_RUNS", {"uci_gap": 1})
    monkeypatch.setattr(script, "LONG", 0)
    monkeypatch.setattr(script, "runs_of", lambda task, budget: 2)
    return script


def test_methods_are_chosen_on_rows_that_are_held_back(methods):
    case = open_case("uci_gap", Variant(split=5))
    small = methods.held_back(case)
    train, held, test = (set(map(bytes, np.asarray(x))) for x in (small.problem.data.x, small.x_test, case.x_test))
    assert train | held == set(map(bytes, np.asarray(case.problem.data.x)))
    assert not train & held
    assert not test & (train | held)
    assert small.reference is None
    assert small.problem.n == case.problem.n - int(0.2 * case.problem.n)


def test_searches_of_all_methods_have_one_size(experiment):
    script, page = experiment("methods"), (EXPERIMENTS.parent / "tools" / "methods_page.py").read_text()
    assert {len(entry.grid) for entry in script.SEARCHED.values()} == {8}
    assert "\nSIZE = 8\n" in page
    assert set(script.NAMES) == set(METHODS)


def test_a_comparison_that_is_killed_goes_on(methods, monkeypatch, tmp_path):
    case, note = open_case("uci_gap", Variant(split=5)), methods.Clock.__call__
    whole, killed, calls = tmp_path / "whole.jsonl", tmp_path / "killed.jsonl", []

    def compared(path):
        methods.table(path, case, "sgld", 10, {"chains": 2, "rate": 1e-7}, tmp_path / "runs")

    def kill(clock, round_info):
        note(clock, round_info)
        calls.append(round_info.number)
        raise Killed

    compared(whole)
    monkeypatch.setattr(methods.Clock, "__call__", kill)
    for _ in range(2):
        with pytest.raises(Killed):
            compared(killed)
    compared(killed)
    assert calls == [0, 1]  # each call of the two was made once
    (found,), (expected,) = (records.read(path).values() for path in (killed, whole))
    assert found.pop("seconds") > 0
    assert expected.pop("seconds") > 0
    assert found == expected
    assert len(found["runs"]) == 2
    assert found["passes"] == 4
    assert not list((tmp_path / "runs").iterdir())


def test_the_best_setting_that_can_be_run_is_chosen(methods, monkeypatch, tmp_path):
    case, path, asked = open_case("uci_gap", Variant(split=5)), tmp_path / "methods.jsonl", []

    def made(case, plan, runs, folder):
        asked.append(plan)
        return [{"nll": plan.method.step_size}], 1.0

    monkeypatch.setattr(methods, "made", made)
    monkeypatch.setattr(methods, "scores_of", lambda case, posterior: posterior)
    for _ in range(2):  # what is recorded is not run again
        assert methods.search(path, case, "sgld", 10, tmp_path) == {"chains": 2, "rate": 0.001}
    assert len(asked) == 2
    found = list(records.read(path).values())
    assert [one["nll"] for one in found] == [0.01, 0.001, None, None]
    assert [one.get("refused") for one in found] == [None, None, "too many", "too many"]


def test_what_cannot_be_run_is_recorded_so(methods, tmp_path):
    case, path = open_case("uci_gap", Variant(split=5)), tmp_path / "methods.jsonl"
    methods.table(path, case, "sgld", 10, None, tmp_path)
    (found,) = records.read(path).values()
    assert found["runs"] == []
    assert "no setting" in found["refused"]
    with pytest.raises(KeyboardInterrupt):
        methods.whole(SimpleNamespace(complete=False))
    (tmp_path / "seconds").write_text("7.5")
    assert 7.5 <= methods.Clock(tmp_path / "seconds").seconds() < 9
