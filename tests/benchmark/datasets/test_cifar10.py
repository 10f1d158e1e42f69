import io
import tarfile

import numpy as np
import pytest

from anchorwalk.benchmark.datasets import cifar10, source
from anchorwalk.errors import InvalidInput

BATCHES = [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    entry = source.Source((tmp_path / "nothing").as_uri(), "md5", "0" * 32)
    monkeypatch.setitem(source.SOURCES, "cifar-10-binary.tar.gz", entry)
    return tmp_path


def records(rng, rows):
    labels = rng.integers(10, size=(rows, 1), dtype=np.uint8)
    return np.concatenate([labels, rng.integers(256, size=(rows, 3072), dtype=np.uint8)], axis=1)


@pytest.fixture
def batches():
    """Batches of different sizes, so that their order shows."""
    rng = np.random.default_rng(0)
    return {name: records(rng, 2 + i) for i, name in enumerate(BATCHES)}


def write_tar(path, contents, order=None):
    with tarfile.open(path, "w:gz") as tar:
        for name in order or contents:
            information = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            information.size = len(contents[name])
            tar.addfile(information, io.BytesIO(contents[name]))
        folder = tarfile.TarInfo("cifar-10-batches-bin/more")
        folder.type = tarfile.DIRTYPE
        tar.addfile(folder)


def picture(record):
    """Pixel by pixel: red, green and blue planes after the label, row by row."""
    return [
        [[record[1 + channel * 1024 + row * 32 + column] for channel in range(3)] for column in range(32)]
        for row in range(32)
    ]


def test_the_binary_version_is_read_in_the_batches_order(folder, batches):
    contents = {name: batch.tobytes() for name, batch in batches.items()} | {"batches.meta.txt": b"names"}
    write_tar(folder / "cifar-10-binary.tar.gz", contents, order=sorted(contents, reverse=True))
    images = cifar10()
    train = np.concatenate([batches[name] for name in BATCHES[:5]])
    np.testing.assert_array_equal(images.x_train, [picture(record) for record in train])
    np.testing.assert_array_equal(images.y_train, train[:, 0])
    np.testing.assert_array_equal(images.x_test, [picture(record) for record in batches["test_batch.bin"]])
    np.testing.assert_array_equal(images.y_test, batches["test_batch.bin"][:, 0])
    assert images.x_train.dtype == images.x_test.dtype == images.x_validation.dtype == np.uint8
    assert images.y_train.dtype == images.y_test.dtype == images.y_validation.dtype == np.int32
    assert images.x_validation.shape == (0, 32, 32, 3)
    assert images.y_validation.shape == (0,)


def test_an_npz_file_comes_first(folder, batches):
    write_tar(folder / "cifar-10-binary.tar.gz", {name: batch.tobytes() for name, batch in batches.items()})
    rng = np.random.default_rng(1)
    x_train, x_test = (rng.integers(256, size=(rows, 32, 32, 3), dtype=np.uint8) for rows in (6, 4))
    y_train, y_test = np.arange(6, dtype=np.uint8), np.arange(4, dtype=np.uint8)
    np.savez(folder / "cifar10.npz", x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)
    images = cifar10()
    for name, expected in (("x_train", x_train), ("y_train", y_train), ("x_test", x_test), ("y_test", y_test)):
        np.testing.assert_array_equal(getattr(images, name), expected)


def test_a_bad_binary_version_is_refused_by_name(folder, batches):
    path = folder / "cifar-10-binary.tar.gz"
    good = {name: batch.tobytes() for name, batch in batches.items()}
    wrong_label = bytes([10]) + good["data_batch_1.bin"][1:]
    cases = {
        "without data_batch_3.bin": {name: content for name, content in good.items() if name != "data_batch_3.bin"},
        "test_batch.bin of 3072 bytes": good | {"test_batch.bin": bytes(3072)},
        "data_batch_2.bin of 0 bytes": good | {"data_batch_2.bin": b""},
        "y_train from": good | {"data_batch_1.bin": wrong_label},
    }
    for given, contents in cases.items():
        write_tar(path, contents)
        with pytest.raises(InvalidInput, match=rf"cifar-10-binary\.tar\.gz: got .*{given}"):
            cifar10()
    write_tar(path, good)
    whole = path.read_bytes()
    for content in (whole[: len(whole) // 2], b"nothing of the kind", b""):
        path.write_bytes(content)
        with pytest.raises(InvalidInput, match="got a file that cannot be read"):
            cifar10()


@pytest.mark.parametrize(
    "changes",
    [
        {"y_test": np.zeros(3, np.uint8)},
        {"x_train": np.zeros((2, 3, 32, 32), np.uint8)},
        {"y_train": np.array([0, 10])},
    ],
)
def test_a_bad_npz_file_is_refused_by_name(folder, changes):
    x, y = np.zeros((2, 32, 32, 3), np.uint8), np.zeros(2, np.uint8)
    np.savez(folder / "cifar10.npz", **({"x_train": x, "y_train": y, "x_test": x, "y_test": y} | changes))
    with pytest.raises(InvalidInput, match=rf"cifar10\.npz: got {next(iter(changes))}"):
        cifar10()


def test_without_any_file_the_publisher_is_named(folder):
    with pytest.raises(source.DataMissing, match=r"cifar-10-binary\.tar\.gz"):
        cifar10()


def test_the_published_pictures(data_folder):
    if source.local("cifar10.npz") is None and source.local("cifar-10-binary.tar.gz") is None:
        pytest.skip("neither cifar10.npz nor cifar-10-binary.tar.gz is in the folder of data files")
    images = cifar10()
    assert images.x_train.shape == (50_000, 32, 32, 3)
    np.testing.assert_array_equal(np.bincount(images.y_train), [5000] * 10)
    np.testing.assert_array_equal(np.bincount(images.y_test), [1000] * 10)
    np.testing.assert_array_equal(images.y_train[:5], [6, 9, 9, 4, 1])  # a frog, two trucks, a deer, a car
    np.testing.assert_array_equal(images.y_test[:5], [3, 8, 8, 0, 6])
    # The channel means that everyone standardises with, to their four digits.
    np.testing.assert_allclose(images.x_train.mean((0, 1, 2)) / 255, [0.4914, 0.4822, 0.4465], atol=5e-5)
