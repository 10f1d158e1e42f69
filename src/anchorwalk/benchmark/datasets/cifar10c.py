"""The test set of the paper's CIFAR-10-C: a fifth of the rows as they are, the others corrupted (Table 2)."""

from typing import NamedTuple

import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark.datasets import corruptions
from anchorwalk.benchmark.datasets.cifar10 import cifar10
from anchorwalk.types import HostArray

KINDS = ("clean", "gaussian_noise", "brightness", "pixelate", "zoom_blur")


class Corrupted(NamedTuple):
    """Pictures, some of them corrupted, in the order of the clean ones.

    Attributes:
        x: Pictures, uint8 of shape (rows, 32, 32, 3).
        y: Their classes, int32 of shape (rows,).
        kind: What was done to each, int8 of shape (rows,): a place in `kinds`.
        kinds: Names, the first for nothing done.
    """

    x: HostArray
    y: HostArray
    kind: HostArray
    kinds: tuple[str, ...]


def cifar10c(level: int = 4, clean: float = 0.2, *, seed: int) -> Corrupted:
    """CIFAR-10's test rows, a share of them clean and the others corrupted.

    Args:
        level: How strongly, from 1 to 5.
        clean: Share of rows that are left as they are.
        seed: Decides which rows are corrupted how, and the noise.

    Returns:
        All test rows in their order, with what was done to each.

    Raises:
        InvalidInput: A level, share or seed out of range, or a file that does not hold what it should.
        DataMissing: CIFAR-10 is nowhere, and cannot be downloaded.
        DataDamaged: The download is not the published file.

    Example:
        >>> from anchorwalk.benchmark.datasets import cifar10c
        >>> (cifar10c(seed=0).kind == 0).mean()  # doctest: +SKIP
        np.float64(0.2)
    """
    rng = np.random.default_rng(checks.count("seed", seed, least=0))
    checks.within("clean", clean, 0.0, 1.0)
    images = cifar10()
    x, kind = corrupt_some(rng, images.x_test, level, clean)
    return Corrupted(x, images.y_test, kind, KINDS)


def corrupt_some(rng: np.random.Generator, images: HostArray, level: int, clean: float) -> tuple[HostArray, HostArray]:
    """Leave a share of pictures as they are, and spread the corruptions evenly over the others.

    Args:
        rng: Decides which picture is corrupted how, and draws the noise.
        images: uint8 of shape (rows, 32, 32, 3).
        level: From 1 to 5.
        clean: Share of rows that are left as they are.

    Returns:
        The pictures in their order, and for each the place in `KINDS` of what was done to it.

    Raises:
        InvalidInput: Other pictures, or a level or share out of range.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets.cifar10c import corrupt_some
        >>> images = np.full((10, 32, 32, 3), 128, np.uint8)
        >>> x, kind = corrupt_some(np.random.default_rng(0), images, level=4, clean=0.2)
        >>> np.bincount(kind)
        array([2, 2, 2, 2, 2])
    """
    # Differs from the paper: it names neither the corruptions nor the rows. We take one of each of CIFAR-10-C's
    # four groups, and draw the rows.
    rows = len(images)
    untouched = round(checks.within("clean", clean, 0.0, 1.0) * rows)
    kind = np.zeros(rows, np.int8)
    order = rng.permutation(rows)
    kind[order[untouched:]] = 1 + np.arange(rows - untouched) % (len(KINDS) - 1)
    noisy, bright, coarse, zoomed = (np.flatnonzero(kind == i) for i in range(1, len(KINDS)))
    x = images.copy()
    x[noisy] = corruptions.gaussian_noise(rng, images[noisy], level)
    x[bright] = corruptions.brightness(images[bright], level)
    x[coarse] = corruptions.pixelate(images[coarse], level)
    x[zoomed] = corruptions.zoom_blur(images[zoomed], level)
    return x, kind
