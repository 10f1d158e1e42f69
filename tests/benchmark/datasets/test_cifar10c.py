import numpy as np
import pytest

from anchorwalk.benchmark.datasets import cifar10c, corruptions
from anchorwalk.benchmark.datasets.cifar10c import KINDS, corrupt_some
from anchorwalk.errors import InvalidInput

ROWS = 40


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(256, size=(ROWS, 32, 32, 3), dtype=np.uint8)


@pytest.fixture
def labels(images, tmp_path, monkeypatch):
    labels = np.arange(ROWS, dtype=np.uint8) % 10
    np.savez(tmp_path / "cifar10.npz", x_train=images[:1], y_train=labels[:1], x_test=images, y_test=labels)
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path))
    return labels


def test_a_fifth_is_clean_and_the_others_share_the_corruptions(images, labels):
    mixed = cifar10c(seed=3)
    assert mixed.kinds == KINDS
    np.testing.assert_array_equal(np.bincount(mixed.kind), [8, 8, 8, 8, 8])
    np.testing.assert_array_equal(mixed.y, labels)
    assert mixed.x.dtype == np.uint8
    changes = {"clean": lambda x, _: x} | {name: getattr(corruptions, name) for name in KINDS[2:]}
    for row in range(ROWS):
        name = mixed.kinds[mixed.kind[row]]
        if name != "gaussian_noise":
            np.testing.assert_array_equal(mixed.x[row], changes[name](images[row : row + 1], 4)[0])
    noisy = mixed.kind == KINDS.index("gaussian_noise")
    inner = noisy[:, None, None, None] & (images > 127) & (images < 129)  # far from the ends, where clipping is none
    noise = mixed.x[inner] - images[inner].astype(float)
    # About 96 values; the variance's relative standard error is sqrt(2 / n), here at five of them.
    assert abs(noise.var() / (0.09 * 255) ** 2 - 1) < 5 * np.sqrt(2 / noise.size)


def test_the_seed_decides_everything(labels):
    one, same, other = cifar10c(seed=1), cifar10c(seed=1), cifar10c(seed=2)
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.kind, other.kind)
    with pytest.raises(TypeError, match="seed"):
        cifar10c()


@pytest.mark.parametrize(("rows", "clean", "untouched"), [(40, 1.0, 40), (40, 0.0, 0), (23, 0.2, 5), (3, 0.5, 2)])
def test_shares_hold_whatever_the_number_of_rows(images, rows, clean, untouched):
    before = images.copy()
    x, kind = corrupt_some(np.random.default_rng(0), images[:rows], 2, clean)
    counts = np.bincount(kind, minlength=len(KINDS))
    assert counts[0] == untouched
    assert np.ptp(counts[1:]) <= 1
    np.testing.assert_array_equal(x[kind == 0], images[:rows][kind == 0])
    assert all((x[row] != images[row]).any() for row in np.flatnonzero(kind))
    np.testing.assert_array_equal(images, before)


def test_bad_arguments_are_refused(labels):
    for arguments in ({"level": 0}, {"level": 6}, {"clean": -0.1}, {"clean": 1.1}, {"seed": -1}, {"seed": 1.5}):
        with pytest.raises(InvalidInput, match=f"{next(iter(arguments))}: got"):
            cifar10c(**({"seed": 0} | arguments))
