"""Tasks, methods and records on the smallest task."""

import json

import jax
import numpy as np
import pytest

from anchorwalk import tree
from anchorwalk.benchmark import METHODS, TASKS, Request, Variant, open_case, records, run
from anchorwalk.benchmark.methods import Entry
from anchorwalk.benchmark.scores import score
from anchorwalk.errors import InvalidInput
from anchorwalk.methods.ae import AE
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior import metrics
from anchorwalk.run.runners import Local
from anchorwalk.run.sample import sample, sample_many
from anchorwalk.walks import GuidedWalk
from helpers import leaves_equal


def quick(case, budget):
    """Two chains of two members of two epochs and one."""
    settings, rows = case.settings, case.problem.n
    walk = GuidedWalk(step_size=settings.relative_step)
    return Plan(SAE(settings.training("first", 2, rows), settings.training("then", 1, rows), walk), 2, 2)


@pytest.fixture
def quick_method(monkeypatch):
    monkeypatch.setitem(METHODS, "quick", Entry("quick", quick))


@pytest.fixture(scope="module")
def case():
    return open_case("uci_gap", Variant(split=5))


def request_of(tmp_path, **changes):
    given = {"method": "quick", "budget": 3, "runs": 3, "results": tmp_path / "results", "members": tmp_path / "runs"}
    return Request(**(given | changes))


def remove(path, name):
    """Take one record out of its file."""
    kept = [record for record in records.read(path).values() if record["name"] != name]
    path.write_text("".join(json.dumps(record) + "\n" for record in kept))


def test_settings_are_the_authors():
    first = {name: (task.settings.prior_variance, *task.settings.first) for name, task in TASKS.items()}
    assert first == {
        "cifar10": (1 / 5, 2.145e-3, 6.03e-5, 0.8547, 0.9997),
        "cifar10c": (0.05, 9.332e-4, 5.5e-6, 0.8947, 0.999),
        "imdb": (1.0, 7.436e-4, 2.82e-4, 0.8866, 0.9989),
        "dermamnist": (0.01, 7.893e-4, 3.87e-8, 0.8774, 0.9989),
        "uci_gap": (1 / 30, 8.989e-3, 4.83e-5, 0.8921, 0.9962),
    }
    then = {name: task.settings.then for name, task in TASKS.items()}
    assert then == {
        "cifar10": (2.145e-3, 1e-4, 0.8547, 0.9997),
        "cifar10c": (2.3e-3, 5.39e-5, 0.8731, 0.998),
        "imdb": (2.392e-3, 1.43e-5, 0.8961, 0.9994),
        "dermamnist": (1.173e-3, 4.47e-5, 0.8295, 0.9944),
        "uci_gap": (2.724e-3, 1.518e-4, 0.8109, 0.9959),
    }
    steps = {name: round(task.settings.relative_step, 3) for name, task in TASKS.items()}
    assert steps == {"cifar10": 0.045, "cifar10c": 0.089, "imdb": 0.02, "dermamnist": 0.1, "uci_gap": 0.055}
    batches = {name: task.settings.batch_size for name, task in TASKS.items()}
    assert batches == {"cifar10": 155, "cifar10c": 86, "imdb": 141, "dermamnist": 56, "uci_gap": 58}


def test_plans_are_those_of_the_papers_tables(case):
    for budget, ae, sae in ((200, 2, 11), (500, 5, 32), (1000, 10, 72), (10_000, 100, 910)):
        assert METHODS["ae"].settings(case, budget)["plan"]["members"] == ae
        assert METHODS["sae"].settings(case, budget)["plan"]["members"] == sae
        assert METHODS["deep_ensemble"].settings(case, budget)["plan"]["members"] == ae
        assert METHODS["map"].settings(case, budget)["plan"]["epochs"] == budget
    assert METHODS["sae"].settings(case, 1000)["plan"]["epochs"] == 990


def test_records_hold_what_decides_a_run(case):
    """In the words that records have had from the beginning, so that old ones are found."""
    first = repr(case.settings.training("first", 100, 512))
    then = repr(case.settings.training("then", 10, 512))
    walk = f"GuidedWalk(step_size={case.settings.relative_step})"
    plan = {"chains": 1, "members": 11, "epochs": 200, "first": first, "then": then}
    assert METHODS["sae"].settings(case, 200) == {"plan": plan, "walk": walk}
    plan = {"chains": 2, "members": 2, "epochs": 200, "first": first}
    assert METHODS["ae"].settings(case, 200) == {"plan": plan, "walk": "Independent()"}
    assert METHODS["deep_ensemble"].settings(case, 200) == {"plan": plan, "walk": "None"}
    training = case.settings.training("first", 100, 512)
    perturbed = Entry("perturbed", lambda case, budget: Plan(AE(training, perturb_targets=True), 2))
    assert perturbed.settings(case, 200) == {"plan": plan, "walk": "Independent()", "perturb_targets": True}


def test_the_case_is_standardised_on_its_training_rows(case):
    x, y = np.asarray(case.problem.data.x), np.asarray(case.problem.data.y)
    np.testing.assert_allclose(x.mean(0), 0, atol=1e-5)
    np.testing.assert_allclose([*x.std(0), y.std()], 1, atol=1e-5)
    assert (len(y), len(case.y_test), case.problem.size) == (512, 256, 552)


def test_a_run_is_recorded_once_and_goes_on_where_it_stopped(case, quick_method, tmp_path):
    names = []
    request = request_of(tmp_path, save_predictions=True)
    assert run(case, request, lambda name, record: names.append(name), quiet=True) == (3, 0, True)
    assert names == [f"uci_gap-split5-quick-3-seed0-run00{r}" for r in range(3)]
    first = records.read(tmp_path / "results/uci_gap-quick.jsonl")
    remove(tmp_path / "results/uci_gap-quick.jsonl", names[1])
    assert run(case, request, quiet=True) == (1, 2, True)
    again = records.read(tmp_path / "results/uci_gap-quick.jsonl")[names[1]]
    # Alone in its block, its lane is another: equal to the last bit all the same.
    assert again["scores"] == first[names[1]]["scores"]
    assert len({record["scores"]["nll"] for record in first.values()}) == 3
    assert run(case, request_of(tmp_path, runs=4), quiet=True) == (1, 3, True)
    assert {"version", "commit", "seed", "plan", "data_hash", "device", "seconds", "scores"} <= set(again)


def test_scores_follow_from_the_saved_predictions(case, quick_method, tmp_path):
    run(case, request_of(tmp_path, runs=1, save_predictions=True), quiet=True)
    name = "uci_gap-split5-quick-3-seed0-run000"
    record = records.read(tmp_path / "results/uci_gap-quick.jsonl")[name]
    saved = np.load(tmp_path / f"results/{name}.predictions.npz")
    quantiles, levels = saved["quantiles"], saved["levels"]
    assert quantiles.shape == (256, 1000)
    assert record["scores"]["w1"] == pytest.approx(np.abs(quantiles - case.reference.values).mean(), rel=1e-4)
    low, high = quantiles[:, np.searchsorted(levels, 0.05)], quantiles[:, np.searchsorted(levels, 0.95)]
    assert record["scores"]["coverage_90"] == pytest.approx(metrics.coverage(low, high, case.y_test), abs=1e-6)
    assert record["reference"]["floor"] == case.reference.floor


def test_scores_agree_with_the_posteriors_own_predictions(case):
    posterior = sample(jax.random.key(3), case.problem, quick(case, 3), runner=Local(lanes=2), callbacks=[])
    found = score(case, posterior).scores
    prediction = posterior.predict(case.x_test)
    y = case.y_test.astype(np.float32)
    assert found["nll"] == pytest.approx(metrics.negative_log_likelihood(prediction.log_prob(y)), rel=1e-4)
    assert found["rmse"] == pytest.approx(metrics.rmse(prediction.mean, y), rel=1e-4)
    assert found["spread"] == pytest.approx(np.mean(prediction.std), rel=1e-4)


def test_runs_side_by_side_are_the_runs_by_themselves(case):
    plan = quick(case, 3)
    keys = [jax.random.fold_in(jax.random.key(7), r) for r in range(3)]
    together = sample_many(keys, case.problem, plan, runner=Local(threads=1, lanes=4), callbacks=[])
    for run_r, key in zip(together, keys, strict=True):
        alone = sample(key, case.problem, plan, runner=Local(lanes=2), callbacks=[])
        alike = sample(key, case.problem, plan, runner=Local(lanes=4), callbacks=[])
        assert len(run_r) == len(alone) == 4
        for chain in range(plan.chains):
            for index in range(plan.members):
                one = run_r[chain, index].params
                other = alone[chain, index].params
                # Three epochs apart by rounding only (measured on this network: 2e-7 after 10 epochs).
                np.testing.assert_allclose(tree.ravel(one), tree.ravel(other), atol=1e-4)
                assert leaves_equal(one, alike[chain, index].params)  # a block of the same width: to the last bit
    assert not leaves_equal(together[0][0, 0].params, together[1][0, 0].params)


def test_a_record_made_in_another_way_is_not_taken_for_this_run(case, quick_method, tmp_path):
    request = request_of(tmp_path, runs=1)
    run(case, request, quiet=True)
    (path,) = (tmp_path / "results").glob("*.jsonl")
    (record,) = records.read(path).values()
    record["walk"] = "GuidedWalk(step_size=0.5)"
    path.write_text(json.dumps(record) + "\n")
    with pytest.raises(InvalidInput, match="another walk"):
        run(case, request, quiet=True)
    assert records.read(path) == {record["name"]: record}  # nothing is lost


def test_records_of_two_ways_are_not_mixed_by_processes_that_run_at_once(case, quick_method, tmp_path):
    def another_process_writes(name, record):
        path = tmp_path / "results/uci_gap-quick.jsonl"
        records.append(path, record | {"walk": "GuidedWalk(step_size=0.5)"})

    with pytest.raises(InvalidInput, match="another walk"):
        run(case, request_of(tmp_path, runs=2), another_process_writes, quiet=True)
    assert len(records.read(tmp_path / "results/uci_gap-quick.jsonl")) == 1


def test_ctrl_c_leaves_no_record_and_says_so(case, quick_method, tmp_path, monkeypatch):
    from anchorwalk.benchmark.methods import base

    class Interrupted:
        complete = False

    monkeypatch.setattr(base, "sample_many", lambda keys, *_, **__: [Interrupted() for _ in keys])
    assert run(case, request_of(tmp_path), quiet=True) == (0, 0, False)
    assert list((tmp_path / "results").iterdir()) == []


def test_names_do_not_tell_defaults_apart():
    assert open_case("uci_gap", Variant(prior_variance=1 / 30)).label == "uci_gap-split0"
    assert open_case("uci_gap", Variant(prior_variance=0.05)).label == "uci_gap-split0-prior_variance0.05"
    assert open_case("uci_gap", Variant(prior_variance=0.05)).reference is None  # of another posterior


def test_the_authors_protocol_holds_rows_back(quick_method, tmp_path):
    case = open_case("uci_gap", Variant(split=5), "authors")
    run(case, request_of(tmp_path, runs=1, protocol="authors"), quiet=True)
    ((name, record),) = records.read(tmp_path / "results/uci_gap-quick.jsonl").items()
    assert name == "uci_gap-split5-quick-3-authors-seed0-run000"
    assert "keep='best'" in record["plan"]["first"]


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda tmp: open_case("mnist", Variant()), "uci_gap"),
        (lambda tmp: open_case("uci_gap", Variant(split=8)), "0 to 7"),
        (lambda tmp: open_case("uci_gap", Variant(level=3)), "level"),
        (lambda tmp: open_case("uci_gap", Variant(rows=9999)), "1 to 512"),
        (lambda tmp: open_case("uci_gap", Variant(), "best"), "authors"),
        (lambda tmp: run(open_case("uci_gap", Variant()), request_of(tmp, method="vi")), "deep_ensemble"),
        (lambda tmp: run(open_case("uci_gap", Variant()), request_of(tmp, method="ae", budget=300)), "10000"),
        (lambda tmp: run(open_case("uci_gap", Variant()), request_of(tmp, method="ae", budget=200, runs=0)), "runs"),
    ],
)
def test_bad_requests_are_refused_before_any_work(make, words, tmp_path):
    with pytest.raises(InvalidInput, match=words):
        make(tmp_path)
    assert not (tmp_path / "results").exists()


def test_splits_of_the_same_rows_share_a_posterior():
    one, other = (open_case("uci_gap", Variant(split=split)) for split in (0, 1))
    assert other.posterior_of == Variant(split=0)
    assert one.posterior_of is None
    for a, b in ((one.problem.data.x, other.problem.data.x), (one.x_test, other.x_test)):
        order = [np.lexsort(np.asarray(rows).round(4).T) for rows in (a, b)]
        np.testing.assert_allclose(np.asarray(a)[order[0]], np.asarray(b)[order[1]], atol=1e-6)
    assert open_case("uci_gap", Variant(split=5)).posterior_of is None


def test_a_method_of_ones_own_is_passed_as_an_object_or_found_by_its_entry_point(case, tmp_path, monkeypatch):
    from importlib.metadata import EntryPoint

    from anchorwalk.benchmark import methods

    own = Entry("own", quick)
    assert run(case, request_of(tmp_path, method=own, runs=1), quiet=True) == (1, 0, True)
    point = EntryPoint("offered", f"{__name__}:OFFERED", methods.GROUP)
    monkeypatch.setattr(EntryPoint, "load", lambda self: Entry("offered", quick))
    monkeypatch.setattr(methods, "entry_points", lambda group: [point] if group == methods.GROUP else [])
    assert run(case, request_of(tmp_path, method="offered", runs=1), quiet=True) == (1, 0, True)
    found = [records.read(tmp_path / f"results/uci_gap-{name}.jsonl") for name in ("own", "offered")]
    scores = [next(iter(one.values()))["scores"] for one in found]
    assert scores[0] == scores[1]
    with pytest.raises(InvalidInput, match="offered"):
        run(case, request_of(tmp_path, method="unknown", runs=1), quiet=True)
    with pytest.raises(InvalidInput, match="Entry"):
        run(case, request_of(tmp_path, method=3, runs=1), quiet=True)
