"""IMDB: 50,000 film reviews as numbers of words, good or bad (Maas et al. 2011), in Keras' encoding."""

import contextlib
import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from anchorwalk.benchmark.datasets import archive
from anchorwalk.benchmark.datasets.archive import Layout, read_arrays, read_labels
from anchorwalk.benchmark.datasets.source import cache_folder, find, own, read_verified, whole
from anchorwalk.types import HostArray

WORDS = 20_000
LENGTH = 100
PADDING, START, UNKNOWN, OFFSET = 0, 1, 2, 3
"""Keras' defaults: the tokens with a meaning of their own, and how far the words' ranks are shifted for them."""
SEED = 113
"""Keras' default for the order of rows."""
ENCODED = f"imdb-{WORDS}-{LENGTH}.npz"
"""The encoded reviews in the cache; the published file, in another form, is `imdb.npz`."""
NAMES = ("x_train", "y_train", "x_test", "y_test")


class Reviews(NamedTuple):
    """Encoded reviews.

    Attributes:
        x_train: Tokens for training, uint16 of shape (rows, 100): 0 padding, 1 start, 2 a word that is not among
            the most frequent, from 4 on words by frequency.
        y_train: 1 for good, 0 for bad, int32 of shape (rows,).
        x_test: Tokens for testing.
        y_test: Their classes.
    """

    x_train: HostArray
    y_train: HostArray
    x_test: HostArray
    y_test: HostArray


def imdb() -> Reviews:
    """The reviews with the 20,000 most frequent words, the last 100 tokens of each, 25,000 rows for each part.

    Reads `imdb.npz`; see `benchmark.datasets.source` for where it is looked for. It may be encoded already, or be
    the file that Keras publishes; then it is encoded, and the result kept in the cache.

    Raises:
        InvalidInput: The file does not hold what it should.
        DataMissing: The file is nowhere, and cannot be downloaded.
        DataDamaged: The download, or a file of pickled reviews, is not the published file.

    Example:
        >>> from anchorwalk.benchmark.datasets import imdb
        >>> imdb().x_train.shape  # doctest: +SKIP
        (25000, 100)
    """
    encoded = cache_folder() / ENCODED
    in_own_folder = own("imdb.npz") is not None
    if not in_own_folder and encoded.is_file():
        return _read_encoded(encoded)
    path = find("imdb.npz")
    if not _is_ragged(path):
        return _read_encoded(path)
    reviews = _read_ragged(path)
    if not in_own_folder:
        # A cache that cannot be written to costs some seconds at the next call, and no more.
        with contextlib.suppress(OSError), whole(encoded) as file:
            np.savez_compressed(file, **reviews._asdict())
    return reviews


def encode(reviews: Sequence[Sequence[int]]) -> HostArray:
    """Tokens of reviews: a start token, then each word's rank + 3, or 2 from token 20,000 on; the last 100 of them.

    Shorter reviews are padded with zeros in front.

    Args:
        reviews: Ranks of words by frequency, from 1.

    Returns:
        uint16 of shape (rows, 100).

    Example:
        >>> from anchorwalk.benchmark.datasets.imdb import encode
        >>> encode([[7, 30_000]])[0, -4:]
        array([ 0,  1, 10,  2], dtype=uint16)
    """
    tokens = np.full((len(reviews), LENGTH), PADDING, np.uint16)
    for row, review in zip(tokens, reviews, strict=True):
        # Only the last words can be seen, and the start token only if all of them are.
        words = np.asarray(review[-LENGTH:], np.int64) + OFFSET
        row[LENGTH - len(words) :] = np.where(words < WORDS, words, UNKNOWN)
        if len(words) < LENGTH:
            row[LENGTH - len(words) - 1] = START
    return tokens


def orders(train: int, test: int) -> tuple[HostArray, HostArray]:
    """The order in which Keras gives the published rows: one generator, first for training, then for testing.

    Args:
        train: Rows for training.
        test: Rows for testing.

    Example:
        >>> from anchorwalk.benchmark.datasets.imdb import orders
        >>> orders(4, 3)
        (array([3, 2, 0, 1]), array([1, 0, 2]))
    """
    generator = np.random.RandomState(SEED)  # the legacy generator is the fact to reproduce
    rows = np.arange(train), np.arange(test)
    for part in rows:
        generator.shuffle(part)
    return rows


def _is_ragged(path: Path) -> bool:
    """Whether reviews are stored as lists of different lengths, seen from the array's header alone."""
    try:
        with zipfile.ZipFile(path) as file, file.open("x_train.npy") as member:
            version = np.lib.format.read_magic(member)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            return bool(read(member)[2].hasobject)
    except (*archive.DAMAGE, KeyError):
        return False  # nothing to unpickle; what is wrong with it is said where it is read


def _read_encoded(path: Path) -> Reviews:
    layouts = {name: Layout("uint16", (LENGTH,)) for name in ("x_train", "x_test")}
    arrays = read_arrays(path, layouts, others=("y_train", "y_test"))
    for name in layouts:
        if arrays[name].max() >= WORDS:
            archive.refuse(path, f"{name} with token {arrays[name].max()}", f"tokens below {WORDS}")
    return _reviews(path, arrays)


def _read_ragged(path: Path) -> Reviews:
    # The published file holds pickled lists, and unpickling can run anything. So its bytes are unpickled only after
    # their SHA-256 showed that they are the published ones, and they are the very bytes that were looked at.
    content = read_verified(path, "imdb.npz")
    with np.load(io.BytesIO(content), allow_pickle=True) as file:
        raw = {name: file[name] for name in NAMES}
    arrays = {}
    for part, order in zip(("train", "test"), orders(len(raw["x_train"]), len(raw["x_test"])), strict=True):
        arrays[f"x_{part}"] = encode(raw[f"x_{part}"][order])
        arrays[f"y_{part}"] = raw[f"y_{part}"][order]
    return _reviews(path, arrays)


def _reviews(path: Path, arrays: dict[str, HostArray]) -> Reviews:
    for part in ("train", "test"):
        rows = len(arrays[f"x_{part}"])
        arrays[f"y_{part}"] = read_labels(path, f"y_{part}", arrays[f"y_{part}"], rows, classes=2)
    return Reviews(*(arrays[name] for name in NAMES))
