import numpy as np
import pytest

from anchorwalk.benchmark.datasets import dermamnist
from anchorwalk.errors import InvalidInput


@pytest.fixture
def arrays():
    rng = np.random.default_rng(0)
    arrays = {}
    for split, rows in (("train", 5), ("val", 2), ("test", 3)):
        arrays[f"{split}_images"] = rng.integers(256, size=(rows, 28, 28, 3), dtype=np.uint8)
        arrays[f"{split}_labels"] = rng.integers(7, size=(rows, 1), dtype=np.uint8)
    return arrays


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    return tmp_path / "dermamnist.npz"


def test_each_part_is_where_it_belongs(path, arrays):
    np.savez(path, **arrays)
    images = dermamnist()
    for part, split in (("train", "train"), ("validation", "val"), ("test", "test")):
        x, y = getattr(images, f"x_{part}"), getattr(images, f"y_{part}")
        np.testing.assert_array_equal(x, arrays[f"{split}_images"])
        np.testing.assert_array_equal(y, arrays[f"{split}_labels"][:, 0])
        assert x.dtype == np.uint8
        assert y.dtype == np.int32
    assert len(images.classes) == 7


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("val_images", None),
        ("test_labels", None),
        ("train_images", np.zeros((5, 28, 28), np.uint8)),
        ("train_images", np.zeros((4, 28, 28, 3), np.uint8)),
        ("test_images", np.zeros((3, 28, 28, 3), np.float32)),
        ("train_labels", np.full((5, 1), 7, np.uint8)),
    ],
)
def test_a_bad_file_is_refused_by_name(path, arrays, name, wrong):
    arrays[name] = wrong
    np.savez(path, **{key: value for key, value in arrays.items() if value is not None})
    with pytest.raises(InvalidInput, match=rf"dermamnist\.npz: got .*{name.split('_')[0]}_"):
        dermamnist()


def test_the_published_counts(data_folder):
    images = dermamnist()
    assert images.x_train.shape == (7007, 28, 28, 3)
    assert images.x_validation.shape == (1003, 28, 28, 3)
    assert images.x_test.shape == (2005, 28, 28, 3)
    np.testing.assert_array_equal(np.bincount(images.y_train), [228, 359, 769, 80, 779, 4693, 99])
    np.testing.assert_array_equal(np.bincount(images.y_test), [66, 103, 220, 23, 223, 1341, 29])
