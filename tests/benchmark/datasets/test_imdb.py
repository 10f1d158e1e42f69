"""IMDB against Keras' procedure, written out plainly on lists."""

import hashlib
import importlib

import numpy as np
import pytest

from anchorwalk.benchmark.datasets import imdb, source
from anchorwalk.benchmark.datasets.imdb import ENCODED, encode, orders
from anchorwalk.errors import InvalidInput

NAMES = ("x_train", "y_train", "x_test", "y_test")


def plain(review):
    tokens = [1] + [rank + 3 for rank in review]
    tokens = [token if token < 20_000 else 2 for token in tokens]
    tokens = tokens[-100:]
    return [0] * (100 - len(tokens)) + tokens


def make_reviews(rng, lengths):
    return [rng.integers(1, 30_000, size=length).tolist() for length in lengths]


def ragged(reviews):
    array = np.empty(len(reviews), object)
    array[:] = reviews
    return array


@pytest.fixture
def raw():
    """Reviews as the published file has them, and what they are once encoded: one generator orders both parts."""
    rng = np.random.default_rng(0)
    parts = {part: make_reviews(rng, rng.integers(2, 300, size=rows)) for part, rows in (("train", 23), ("test", 17))}
    arrays, expected = {}, {}
    generator = np.random.RandomState(113)
    for part, reviews in parts.items():
        labels = rng.integers(2, size=len(reviews))
        arrays |= {f"x_{part}": ragged(reviews), f"y_{part}": labels}
        pairs = list(zip(reviews, labels.tolist(), strict=True))
        generator.shuffle(pairs)
        expected |= {f"x_{part}": [plain(r) for r, _ in pairs], f"y_{part}": [label for _, label in pairs]}
    return arrays, expected


@pytest.fixture
def places(tmp_path, monkeypatch):
    """One's own folder, the cache, and a publisher that has nothing."""
    own, cache, published = tmp_path / "own", tmp_path / "cache" / "anchorwalk", tmp_path / "published.npz"
    own.mkdir()
    monkeypatch.setenv("ANCHORWALK_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(source.SOURCES, "imdb.npz", source.Source(published.as_uri(), "sha256", "0" * 64))
    return own, cache, published


def publish(monkeypatch, published, *copies):
    content = published.read_bytes()
    entry = source.Source(published.as_uri(), "sha256", hashlib.sha256(content).hexdigest())
    monkeypatch.setitem(source.SOURCES, "imdb.npz", entry)
    for copy in copies:
        copy.write_bytes(content)


def assert_equal(reviews, expected):
    for name in NAMES:
        np.testing.assert_array_equal(getattr(reviews, name), expected[name], err_msg=name)
    assert reviews.x_train.dtype == reviews.x_test.dtype == np.uint16
    assert reviews.y_train.dtype == reviews.y_test.dtype == np.int32


def test_encoding_equals_the_plain_one():
    reviews = make_reviews(np.random.default_rng(1), [0, 1, 2, 50, 98, 99, 100, 101, 250])
    reviews.append([1, 19_995, 19_996, 19_997, 88_000])  # the last rank that is kept is 19,996: token 19,999
    tokens = encode(reviews)
    np.testing.assert_array_equal(tokens, [plain(review) for review in reviews])
    np.testing.assert_array_equal(tokens[-1, -7:], [0, 1, 4, 19_998, 19_999, 2, 2])
    assert tokens[5, 0] == 1  # 99 words and the start: nothing is lost and nothing padded
    assert tokens[6, 0] != 1  # 100 words: the start is


def test_the_order_is_one_generators_for_both_parts():
    train, test = orders(50, 40)
    generator = np.random.RandomState(113)
    for part in (train, test):
        rows = list(range(len(part)))
        generator.shuffle(rows)
        np.testing.assert_array_equal(part, rows)
    assert not np.array_equal(test, orders(40, 0)[0])


def test_an_encoded_file_is_read_as_it_is(places, raw):
    np.savez(
        places[0] / "imdb.npz", **{n: np.array(v, np.uint16 if n[0] == "x" else np.uint8) for n, v in raw[1].items()}
    )
    assert_equal(imdb(), raw[1])
    assert not places[1].exists()


def test_the_published_file_in_ones_own_folder_is_encoded(places, raw, monkeypatch):
    own, cache, published = places
    np.savez(published, **raw[0])
    publish(monkeypatch, published, own / "imdb.npz")
    assert_equal(imdb(), raw[1])
    assert not cache.exists()


def test_a_download_is_encoded_once_and_kept_under_a_name_of_its_own(places, raw, monkeypatch):
    _, cache, published = places
    np.savez(published, **raw[0])
    publish(monkeypatch, published)
    assert_equal(imdb(), raw[1])
    assert sorted(path.name for path in cache.iterdir()) == [ENCODED, "imdb.npz"]
    (cache / "imdb.npz").unlink()
    published.unlink()
    assert_equal(imdb(), raw[1])  # from the encoded one: the other is gone


def test_a_cache_that_cannot_take_the_encoded_file_does_no_harm(places, raw, monkeypatch):
    _, _, published = places
    np.savez(published, **raw[0])
    publish(monkeypatch, published)
    source.find("imdb.npz")

    def full(path):
        raise OSError("no space left")

    monkeypatch.setattr(importlib.import_module("anchorwalk.benchmark.datasets.imdb"), "whole", full)
    assert_equal(imdb(), raw[1])


class Trap:
    """Makes a folder when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        import os

        return os.mkdir, (self.path,)


def test_pickled_reviews_of_another_checksum_are_never_unpickled(places, raw):
    own = places[0]
    sprung = own / "sprung"
    raw[0]["x_train"][3] = Trap(str(sprung))
    np.savez(own / "imdb.npz", **raw[0])
    found = hashlib.sha256((own / "imdb.npz").read_bytes()).hexdigest()
    with pytest.raises(source.DataDamaged, match=rf"imdb\.npz.*{found}.*{'0' * 64}"):
        imdb()
    assert not sprung.exists()


def encoded_with(**changes):
    arrays = {"x_train": np.ones((3, 100), np.uint16), "y_train": np.zeros(3, np.uint8)}
    arrays |= {"x_test": np.ones((2, 100), np.uint16), "y_test": np.zeros(2, np.uint8)}
    return {name: value for name, value in (arrays | changes).items() if value is not None}


@pytest.mark.parametrize(
    "changes",
    [
        {"y_test": None},
        {"x_train": None},
        {"x_train": np.ones((3, 99), np.uint16)},
        {"x_train": np.ones((3, 100), np.int64)},
        {"x_test": np.full((2, 100), 20_000, np.uint16)},
        {"y_train": np.full(3, 2, np.uint8)},
        {"y_train": np.zeros(4, np.uint8)},
    ],
)
def test_a_bad_file_is_refused_by_name(places, changes):
    np.savez(places[0] / "imdb.npz", **encoded_with(**changes))
    with pytest.raises(InvalidInput, match=rf"imdb\.npz: got .*{next(iter(changes))}"):
        imdb()


def test_a_file_that_is_no_archive_is_refused_by_name(places):
    (places[0] / "imdb.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(InvalidInput, match=r"imdb\.npz: got a file that cannot be read"):
        imdb()


def test_the_published_reviews(data_folder):
    reviews = imdb()
    assert reviews.x_train.shape == reviews.x_test.shape == (25_000, 100)
    for x, y in ((reviews.x_train, reviews.y_train), (reviews.x_test, reviews.y_test)):
        np.testing.assert_array_equal(np.bincount(y), [12_500, 12_500])
        padding = (x == 0).sum(axis=1)
        short = padding > 0
        assert short.any()
        assert (x[short, padding[short]] == 1).all()  # after the padding the start
        assert ((np.cumsum(x != 0, axis=1) == 0).sum(axis=1) == padding).all()  # and padding nowhere else
    # As Keras' tutorials print them: the first review of 218 tokens and the first labels.
    np.testing.assert_array_equal(reviews.x_train[0, -4:], [5345, 19, 178, 32])
    np.testing.assert_array_equal(reviews.y_train[:5], [1, 0, 0, 1, 0])
