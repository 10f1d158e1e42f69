"""The whole path of the tasks that are too long for a test: a few hundred rows, two epochs."""

import numpy as np
import pytest

from anchorwalk.benchmark import METHODS, Request, Variant, open_case, records, run
from anchorwalk.benchmark.methods import Entry
from anchorwalk.errors import InvalidInput
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.walks import GuidedWalk

ROWS, TEST_ROWS = 200, 60


def two_epochs(case, budget):
    """A chain of two members of one epoch each."""
    settings, rows = case.settings, case.problem.n
    walk = GuidedWalk(step_size=settings.relative_step)
    return Plan(SAE(settings.training("first", 1, rows), settings.training("then", 1, rows), walk), members=2)


@pytest.fixture
def data(tmp_path, monkeypatch):
    """Made-up files in the layout of the real ones: enough for the path, not for figures."""
    rng = np.random.default_rng(0)
    folder = tmp_path / "data"
    folder.mkdir()
    tokens = rng.integers(0, 20_000, (ROWS + TEST_ROWS, 100), dtype=np.uint16)
    labels = rng.integers(0, 2, ROWS + TEST_ROWS, dtype=np.uint8)
    np.savez(
        folder / "imdb.npz",
        x_train=tokens[:ROWS],
        y_train=labels[:ROWS],
        x_test=tokens[ROWS:],
        y_test=labels[ROWS:],
    )
    pictures = rng.integers(0, 256, (ROWS + TEST_ROWS, 32, 32, 3), dtype=np.uint8)
    classes = rng.integers(0, 10, ROWS + TEST_ROWS, dtype=np.uint8)
    np.savez(
        folder / "cifar10.npz",
        x_train=pictures[:ROWS],
        y_train=classes[:ROWS],
        x_test=pictures[ROWS:],
        y_test=classes[ROWS:],
    )
    probabilities = rng.dirichlet(np.ones(2), TEST_ROWS // 2)
    np.savez(folder / "hmc_imdb_first30.npz", probs=probabilities)
    probabilities = rng.dirichlet(np.ones(10), TEST_ROWS // 2)
    np.savez(folder / "hmc_cifar10_first30.npz", probs=probabilities)
    monkeypatch.setenv("ANCHORWALK_DATA", str(folder))
    return folder


@pytest.mark.parametrize(
    ("task", "classes", "referenced"), [("imdb", 2, True), ("cifar10c", 10, False), ("cifar10", 10, True)]
)
@pytest.mark.slow  # up to a minute and more of compilation each
def test_the_whole_path(task, classes, referenced, data, tmp_path, monkeypatch):
    monkeypatch.setitem(METHODS, "tiny", Entry("tiny", two_epochs))
    case = open_case(task, Variant())
    request = Request("tiny", 2, 1, results=tmp_path / "results", members=tmp_path / "members", save_predictions=True)
    assert run(case, request, quiet=True) == (1, 0, True)
    assert list((tmp_path / "members").iterdir()) == []  # kept until the run was recorded
    record = records.read(tmp_path / f"results/{task}-tiny.jsonl")[f"{task}-tiny-2-seed0-run000"]
    predictions = np.load(tmp_path / f"results/{task}-tiny-2-seed0-run000.predictions.npz")["probabilities"]
    assert predictions.shape == (TEST_ROWS, classes)
    np.testing.assert_allclose(predictions.sum(1), 1.0, atol=1e-5)
    assert record["members"] == 2
    assert record["diverged"] == 0
    assert (record["train_rows"], record["test_rows"]) == (ROWS, TEST_ROWS)
    truth = {"accuracy", "nll", "brier", "ece", "confidence"}
    assert set(record["scores"]) == truth | ({"agreement", "total_variation"} if referenced else set())
    if referenced:
        reference = np.load(data / f"hmc_{task}_first30.npz")["probs"]
        distance = 0.5 * np.abs(predictions[:30] - reference).sum(1).mean()
        assert record["scores"]["total_variation"] == pytest.approx(distance, abs=1e-5)  # six digits are kept
        assert record["reference"]["rows"] == 30
    accuracy = np.mean(predictions.argmax(1) == case.y_test)
    assert record["scores"]["accuracy"] == pytest.approx(accuracy, abs=1e-6)
    assert run(case, request, quiet=True) == (0, 1, True)


def test_images_are_scaled_as_asked(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    brightness = {"train": (0, 100), "val": (0, 256), "test": (0, 256)}
    images = {
        f"{split}_images": rng.integers(*levels, (ROWS, 28, 28, 3), dtype=np.uint8)
        for split, levels in brightness.items()
    }
    labels = {f"{split}_labels": rng.integers(0, 7, (ROWS, 1), dtype=np.uint8) for split in brightness}
    np.savez(tmp_path / "dermamnist.npz", **images, **labels)
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    plain, case, raw = (open_case("dermamnist", Variant(pixels=pixels)) for pixels in ("unit", "standardised", "raw"))
    assert (plain.label, case.label) == ("dermamnist", "dermamnist-pixelsstandardised")
    np.testing.assert_array_equal(raw.x_test, images["test_images"].astype(np.float32))
    train = np.asarray(case.problem.data.x)
    np.testing.assert_allclose(train.mean((0, 1, 2), np.float64), 0, atol=1e-6)
    np.testing.assert_allclose(train.std((0, 1, 2), np.float64), 1, atol=1e-6)
    red = images["train_images"][..., 0] / 255
    expected = (images["test_images"][..., 0] / 255 - red.mean()) / red.std()
    np.testing.assert_allclose(np.asarray(case.x_test)[..., 0], expected, atol=1e-4)
    np.testing.assert_array_equal(plain.x_test, images["test_images"] / np.float32(255))
    with pytest.raises(InvalidInput, match="standardised"):
        open_case("dermamnist", Variant(pixels="gray"))
    with pytest.raises(InvalidInput, match="pixels"):
        open_case("uci_gap", Variant(pixels="unit"))
