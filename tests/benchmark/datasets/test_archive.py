"""Files that do not hold what they should are refused by name."""

import numpy as np
import pytest

from anchorwalk.benchmark.datasets.archive import Layout, read_arrays, read_labels
from anchorwalk.errors import InvalidInput

LAYOUTS = {"x": Layout("uint8", (2, 3))}


def save(path, **arrays):
    with open(path, "wb") as file:
        np.savez(file, **arrays)


def test_a_good_file_is_read(tmp_path):
    x = np.arange(24, dtype=np.uint8).reshape(4, 2, 3)
    save(tmp_path / "a.npz", x=x, y=np.arange(4), more=np.zeros(1))
    arrays = read_arrays(tmp_path / "a.npz", LAYOUTS, others=("y",))
    assert set(arrays) == {"x", "y"}
    np.testing.assert_array_equal(arrays["x"], x)
    np.testing.assert_array_equal(arrays["y"], np.arange(4))


@pytest.mark.parametrize(
    ("x", "given"),
    [
        (np.zeros((4, 2, 3)), "x float64 (4, 2, 3)"),
        (np.zeros((4, 2, 2), np.uint8), "x uint8 (4, 2, 2)"),
        (np.zeros((2, 3), np.uint8), "x uint8 (2, 3)"),
        (np.zeros((), np.uint8), "x uint8 ()"),
        (np.zeros((0, 2, 3), np.uint8), "x uint8 (0, 2, 3)"),
    ],
)
def test_another_array_in_its_place_is_refused(tmp_path, x, given):
    save(tmp_path / "a.npz", x=x)
    with pytest.raises(InvalidInput) as caught:
        read_arrays(tmp_path / "a.npz", LAYOUTS)
    for part in (str(tmp_path / "a.npz"), given, "x uint8 (rows, 2, 3)"):
        assert part in str(caught.value)


def test_missing_arrays_are_named(tmp_path):
    save(tmp_path / "a.npz", x=np.zeros((4, 2, 3), np.uint8))
    with pytest.raises(InvalidInput, match=r"a\.npz: got a file without y, z, expected an npz file with x uint8"):
        read_arrays(tmp_path / "a.npz", LAYOUTS, others=("y", "z"))


def test_files_of_another_kind_cut_short_or_changed_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    save(path, x=np.zeros((400, 2, 3), np.uint8))
    content = path.read_bytes()
    changed = bytearray(content)
    changed[len(content) // 2] ^= 255  # in the array, so that its checksum in the archive no longer holds
    for bad in (b"", b"no archive at all", content[:-100], content[: len(content) // 2], bytes(changed)):
        path.write_bytes(bad)
        with pytest.raises(InvalidInput, match=r"a\.npz: got a file that cannot be read"):
            read_arrays(path, LAYOUTS)
    with open(path, "wb") as file:
        np.save(file, np.zeros((4, 2, 3), np.uint8))
    with pytest.raises(InvalidInput, match="a single array"):
        read_arrays(path, LAYOUTS)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_arrays(tmp_path, LAYOUTS)


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.mkdir, (self.path,)


def test_nothing_is_ever_unpickled(tmp_path):
    trapped = np.array([Trap(str(tmp_path / "sprung"))], object)
    save(tmp_path / "a.npz", x=trapped)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read_arrays(tmp_path / "a.npz", LAYOUTS)
    assert not (tmp_path / "sprung").exists()
    np.load(tmp_path / "a.npz", allow_pickle=True)["x"]  # the trap works: this one does spring it
    assert (tmp_path / "sprung").exists()


@pytest.mark.parametrize("shape", [(3,), (3, 1)])
@pytest.mark.parametrize("dtype", ["uint8", "int64"])
def test_labels_come_flat_and_of_one_type(tmp_path, shape, dtype):
    labels = read_labels(tmp_path, "y", np.array([2, 0, 1], dtype).reshape(shape), rows=3, classes=3)
    assert labels.dtype == np.int32
    np.testing.assert_array_equal(labels, [2, 0, 1])


@pytest.mark.parametrize(
    "labels",
    [
        np.zeros(4, int),
        np.zeros((3, 2), int),
        np.zeros((1, 3), int),
        np.zeros(3),
        np.array([0, 1, 3]),
        -np.ones(3, int),
    ],
)
def test_other_labels_are_refused(tmp_path, labels):
    with pytest.raises(InvalidInput, match=r"a\.npz: got y "):
        read_labels(tmp_path / "a.npz", "y", labels, rows=3, classes=3)
