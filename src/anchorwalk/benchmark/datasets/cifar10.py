"""CIFAR-10: 60,000 photographs, 32 x 32 pixels in colour, ten classes (Krizhevsky 2009)."""

import tarfile
from pathlib import Path, PurePosixPath

import numpy as np

from anchorwalk.benchmark.datasets import archive
from anchorwalk.benchmark.datasets.archive import Layout, read_arrays, read_labels
from anchorwalk.benchmark.datasets.images import Images
from anchorwalk.benchmark.datasets.source import find, local
from anchorwalk.types import HostArray

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
SIDE = 32
RECORD = 1 + 3 * SIDE * SIDE
"""Bytes of a picture in the binary version: its class, then the red, the green and the blue plane, row by row."""
TRAIN = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST = ("test_batch.bin",)


def cifar10() -> Images:
    """CIFAR-10 in its own order: 50,000 rows for training, 10,000 for testing, none for validation.

    Reads `cifar10.npz` with x_train, y_train, x_test and y_test where there is one, otherwise the publisher's
    `cifar-10-binary.tar.gz`; see `anchorwalk.benchmark.datasets.source` for where they are looked for.

    Raises:
        InvalidInput: The file does not hold what it should.
        DataMissing: The file is nowhere, and cannot be downloaded.
        DataDamaged: The download is not the published file.

    Example:
        >>> from anchorwalk.benchmark.datasets import cifar10
        >>> cifar10().x_train.shape  # doctest: +SKIP
        (50000, 32, 32, 3)
    """
    path = local("cifar10.npz")
    if path is None:
        path = find("cifar-10-binary.tar.gz")
        arrays = _read_binary(path)
    else:
        layouts = {name: Layout("uint8", (SIDE, SIDE, 3)) for name in ("x_train", "x_test")}
        arrays = read_arrays(path, layouts, others=("y_train", "y_test"))
    x_train, x_test = arrays["x_train"], arrays["x_test"]
    return Images(
        x_train,
        read_labels(path, "y_train", arrays["y_train"], len(x_train), len(CLASSES)),
        np.empty((0, *x_train.shape[1:]), np.uint8),
        np.empty(0, np.int32),
        x_test,
        read_labels(path, "y_test", arrays["y_test"], len(x_test), len(CLASSES)),
        CLASSES,
    )


def _read_binary(path: Path) -> dict[str, HostArray]:
    batches: dict[str, bytes] = {}
    try:
        with tarfile.open(path, "r:gz") as tar:
            for member in tar:  # in the order of the archive, so that it is unpacked once
                name, file = PurePosixPath(member.name).name, tar.extractfile(member)
                if file is not None and name in TRAIN + TEST:
                    batches[name] = file.read()
    except (*archive.DAMAGE, tarfile.TarError) as error:
        archive.refuse(path, f"a file that cannot be read ({error})", "the binary version of CIFAR-10 as a tar.gz")
    for name in TRAIN + TEST:
        if name not in batches:
            archive.refuse(path, f"an archive without {name}", f"one with {', '.join(TRAIN + TEST)}")
        if not batches[name] or len(batches[name]) % RECORD:
            given = f"{name} of {len(batches[name])} bytes"
            archive.refuse(path, given, f"{RECORD} bytes for each picture, and one picture at least")
    x_train, y_train = _pictures(b"".join(batches[name] for name in TRAIN))
    x_test, y_test = _pictures(batches[TEST[0]])
    return {"x_train": x_train, "y_train": y_train, "x_test": x_test, "y_test": y_test}


def _pictures(content: bytes) -> tuple[HostArray, HostArray]:
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    planes = records[:, 1:].reshape(-1, 3, SIDE, SIDE)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, 0]
