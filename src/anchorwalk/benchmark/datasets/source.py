"""Where data files come from: a folder of one's own, the cache, or those who publish them.

A folder of one's own is named by the environment variable ANCHORWALK_DATA. The cache is `anchorwalk` in
$XDG_CACHE_HOME, or in `~/.cache`. What is downloaded goes to the cache, and only if its checksum is right.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, NamedTuple

from anchorwalk import checks
from anchorwalk.errors import AnchorwalkError

VARIABLE = "ANCHORWALK_DATA"
BLOCK = 1 << 18
"""Bytes that are read at once."""
PATIENCE = 30.0
"""Seconds to wait for a server's next bytes."""


class DataMissing(AnchorwalkError, FileNotFoundError):
    """A data file that is not on this machine and could not be downloaded."""


class DataDamaged(AnchorwalkError, OSError):
    """A data file whose checksum is not that of the published one."""


class Source(NamedTuple):
    """Where a file is published.

    Attributes:
        url: Its address.
        algorithm: The kind of checksum, as `hashlib` names it.
        checksum: In hexadecimal digits.
    """

    url: str
    algorithm: str
    checksum: str


SOURCES = {
    "dermamnist.npz": Source(
        "https://zenodo.org/records/10519652/files/dermamnist.npz?download=1",
        "md5",
        "0744692d530f8e62ec473284d019b0c7",
    ),
    "imdb.npz": Source(
        "https://storage.googleapis.com/tensorflow/tf-keras-datasets/imdb.npz",
        "sha256",
        "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
    ),
    "cifar-10-binary.tar.gz": Source(
        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
        "md5",
        "c32a1d4ab5d03f1284b67883e8d87530",
    ),
}
"""The published files by name."""


def find(name: str) -> Path:
    """The path of a data file, downloaded where it is not on this machine yet.

    Looks in the folder that ANCHORWALK_DATA names, then in the cache, then downloads into the cache.

    Args:
        name: A key of `SOURCES`.

    Raises:
        InvalidInput: An unknown name, or ANCHORWALK_DATA names no folder.
        DataMissing: The file is nowhere, and cannot be downloaded.
        DataDamaged: What was downloaded is not the published file; nothing of it is kept.

    Example:
        >>> from anchorwalk.benchmark.datasets.source import find
        >>> find("imdb.npz").name  # doctest: +SKIP
        'imdb.npz'
    """
    checks.choice("find(name)", name, tuple(SOURCES))
    path = local(name)
    if path is None:
        path = cache_folder() / name
        _download(name, SOURCES[name], path)
    return path


def local(name: str) -> Path | None:
    """The path of a file in one's own folder or in the cache; None where it is in neither.

    Raises:
        InvalidInput: ANCHORWALK_DATA names no folder.

    Example:
        >>> from anchorwalk.benchmark.datasets.source import local
        >>> local("no such file.npz") is None
        True
    """
    given, cached = own(name), cache_folder() / name
    return given or (cached if cached.is_file() else None)


def own(name: str) -> Path | None:
    """The path of a file in the folder that ANCHORWALK_DATA names; None where it is not there.

    Raises:
        InvalidInput: ANCHORWALK_DATA names no folder.

    Example:
        >>> from anchorwalk.benchmark.datasets.source import own
        >>> own("no such file.npz") is None
        True
    """
    folder = own_folder()
    path = None if folder is None else folder / name
    return path if path is not None and path.is_file() else None


def own_folder() -> Path | None:
    """The folder that ANCHORWALK_DATA names; None where it is not set.

    Raises:
        InvalidInput: ANCHORWALK_DATA names no folder.
    """
    value = os.environ.get(VARIABLE)
    if not value:
        return None
    folder = Path(value).expanduser()
    if not folder.is_dir():
        checks.reject(VARIABLE, repr(value), "a folder that is there", "Correct the variable, or unset it.")
    return folder


def cache_folder() -> Path:
    """The folder that downloads go to; it is made at the first one.

    Example:
        >>> from anchorwalk.benchmark.datasets.source import cache_folder
        >>> cache_folder().name
        'anchorwalk'
    """
    # The standard for these folders has relative paths ignored: they would scatter caches over working directories.
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".cache") / "anchorwalk"


def read_verified(path: Path, name: str) -> bytes:
    """The content of a file, if its checksum is the published one's.

    Args:
        path: The file.
        name: A key of `SOURCES`.

    Raises:
        DataDamaged: The checksum is another.

    Example:
        >>> from anchorwalk.benchmark.datasets.source import find, read_verified
        >>> read_verified(find("imdb.npz"), "imdb.npz")[:2]  # doctest: +SKIP
        b'PK'
    """
    content = path.read_bytes()
    digest = hashlib.new(SOURCES[name].algorithm, content, usedforsecurity=False)
    _compare(name, str(path), digest.hexdigest())
    return content


@contextmanager
def whole(path: Path) -> Iterator[IO[bytes]]:
    """A file to write to, which takes its name once it is whole and on disk; otherwise nothing of it stays.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from anchorwalk.benchmark.datasets.source import whole
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with whole(Path(folder) / "a") as file:
        ...         _ = file.write(b"abc")
        ...     (Path(folder) / "a").read_bytes()
        b'abc'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # A name of its own for each writer: two processes may download the same file at the same time.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:  # Ctrl-C too
        os.unlink(temporary)
        raise


def _download(name: str, source: Source, path: Path) -> None:
    # Imported here, for most programs download nothing.
    from http.client import HTTPException
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from tqdm import tqdm

    digest = hashlib.new(source.algorithm, usedforsecurity=False)
    request = Request(source.url, headers={"User-Agent": "anchorwalk"})
    try:
        with urlopen(request, timeout=PATIENCE) as response, whole(path) as file:
            size = int(response.headers.get("Content-Length") or 0)
            # disable=None: no bar where nobody watches, as in a log file
            with tqdm(total=size or None, desc=name, unit="B", unit_scale=True, disable=None) as bar:
                while block := response.read(BLOCK):
                    file.write(block)
                    digest.update(block)
                    bar.update(len(block))
            _compare(name, f"the download from {source.url} ({file.tell()} bytes)", digest.hexdigest())
    except DataDamaged:
        raise
    except (OSError, HTTPException) as error:
        if isinstance(error, HTTPError):
            error.close()  # it holds the connection
        raise DataMissing(
            f"{name}: not on this machine, and the download failed ({error}). Get it from {source.url} "
            f"and put it at {path}, or into a folder of your own that the variable {VARIABLE} names."
        ) from error


def _compare(name: str, what: str, found: str) -> None:
    source = SOURCES[name]
    if found != source.checksum:
        raise DataDamaged(
            f"{name}: {what} has the {source.algorithm} {found}, expected {source.checksum}. "
            f"It is incomplete, or not the published file; get it anew from {source.url}."
        )
