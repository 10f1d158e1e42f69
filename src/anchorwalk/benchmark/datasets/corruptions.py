"""Four corruptions of CIFAR-10-C, one of each of its groups: noise, weather, digital, blur.

By the definitions and constants of Hendrycks and Dietterich (2019), "Benchmarking Neural Network Robustness to Common
Corruptions and Perturbations", in their variant for pictures of 32 x 32 pixels. There too, results are
cut, not rounded, to whole numbers.
"""

from collections.abc import Callable
from functools import lru_cache

import numpy as np

from anchorwalk import checks
from anchorwalk.types import HostArray

SIDE = 32
LEVELS = 5
NOISE = (0.04, 0.06, 0.08, 0.09, 0.10)
"""Standard deviation of the noise, of pixels in [0, 1], by level."""
SHIFT = (0.05, 0.10, 0.15, 0.20, 0.30)
"""What is added to the value of hue, saturation and value."""
SHRINK = (0.95, 0.90, 0.85, 0.75, 0.65)
"""Side of the small picture, as a share of the side."""
ZOOM_END = (1.06, 1.11, 1.16, 1.21, 1.26)
"""Zoom factors go from 1 by 0.01 to below this, in float64: that makes 1.06 and 1.11 part of it, the others not."""
SECTORS = np.array([[0, 3, 1], [2, 0, 1], [1, 0, 3], [1, 2, 0], [3, 1, 0], [0, 1, 2]])
"""For each sixth of the circle of hues, where red, green and blue stand in (value, low, falling, rising)."""
CHUNK = 512
"""Pictures worked on at once; bounds the memory."""


def gaussian_noise(rng: np.random.Generator, images: HostArray, level: int) -> HostArray:
    """Independent normal noise on every channel of every pixel.

    Args:
        rng: Draws the noise.
        images: uint8 of shape (rows, 32, 32, 3).
        level: From 1 to 5.

    Returns:
        Pictures of the same shape and type.

    Raises:
        InvalidInput: Other pictures, or another level.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets.corruptions import gaussian_noise
        >>> grey = np.full((1, 32, 32, 3), 128, np.uint8)
        >>> noisy = gaussian_noise(np.random.default_rng(0), grey, level=4)
        >>> bool(abs(noisy.std() - 0.09 * 255) < 1)
        True
    """
    scale = NOISE[_check(images, level)]
    if not isinstance(rng, np.random.Generator):
        checks.reject("rng", repr(rng), "a NumPy generator", "Pass np.random.default_rng(seed).")
    return _chunked(lambda x: _cut(x / 255.0 + rng.normal(scale=scale, size=x.shape)), images)


def brightness(images: HostArray, level: int) -> HostArray:
    """Adds to the value of hue, saturation and value, up to the brightest.

    Args:
        images: uint8 of shape (rows, 32, 32, 3).
        level: From 1 to 5.

    Returns:
        Pictures of the same shape and type.

    Raises:
        InvalidInput: Other pictures, or another level.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets.corruptions import brightness
        >>> brightness(np.zeros((1, 32, 32, 3), np.uint8), level=4)[0, 0, 0]
        array([51, 51, 51], dtype=uint8)
    """
    shift = SHIFT[_check(images, level)]

    def brighten(x: HostArray) -> HostArray:
        hue, saturation, value = _hsv(x / 255.0)
        return _cut(_rgb(hue, saturation, np.minimum(value + shift, 1.0)))

    return _chunked(brighten, images)


def pixelate(images: HostArray, level: int) -> HostArray:
    """Shrinks and enlarges, each pixel the mean of the pixels whose centres fall into its box.

    Columns come first, then rows, with rounding to whole numbers after each, half up.

    Args:
        images: uint8 of shape (rows, 32, 32, 3).
        level: From 1 to 5.

    Returns:
        Pictures of the same shape and type.

    Raises:
        InvalidInput: Other pictures, or another level.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets.corruptions import pixelate
        >>> ramp = np.tile(np.arange(32, dtype=np.uint8)[:, None], (1, 32, 1, 3))
        >>> pixelate(ramp, level=5)[0, 0, :8, 0]
        array([1, 1, 2, 4, 4, 5, 7, 7], dtype=uint8)
    """
    small = int(SIDE * SHRINK[_check(images, level)])
    for size in (small, SIDE):
        for axis in (2, 1):
            images = _resize(images, size, axis)
    return images


def zoom_blur(images: HostArray, level: int) -> HostArray:
    """The mean of a picture and of its centre at growing zoom, the factor 1 included.

    Args:
        images: uint8 of shape (rows, 32, 32, 3).
        level: From 1 to 5.

    Returns:
        Pictures of the same shape and type.

    Raises:
        InvalidInput: Other pictures, or another level.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets.corruptions import zoom_blur
        >>> dot = np.zeros((1, 32, 32, 3), np.uint8)
        >>> dot[0, 8, 8] = 255
        >>> blurred = zoom_blur(dot, level=4)[0, :, :, 0]
        >>> bool(0 < blurred[6, 6] < blurred[8, 8] < 255)
        True
    """
    factors = np.arange(1, ZOOM_END[_check(images, level)], 0.01)

    def blur(x: HostArray) -> HostArray:
        # float32 and this order of sums as in the definition: cutting makes a last bit a whole step.
        planes = np.ascontiguousarray((x / 255.0).astype(np.float32).transpose(0, 3, 1, 2))
        exact = planes.astype(np.float64)
        total = np.zeros_like(planes)
        for factor in factors:
            matrix = _zoom(float(factor))
            total += (matrix @ exact @ matrix.T).astype(np.float32)
        return _cut(((planes + total) / (len(factors) + 1)).transpose(0, 2, 3, 1))

    return _chunked(blur, images)


def _check(images: HostArray, level: int) -> int:
    """The place of a level in a table of constants."""
    if not isinstance(images, np.ndarray) or images.dtype != np.uint8 or images.shape[1:] != (SIDE, SIDE, 3):
        given = f"{getattr(images, 'dtype', type(images).__name__)} {getattr(images, 'shape', '')}".strip()
        checks.reject("images", given, "uint8 (rows, 32, 32, 3)", "Pass pictures like those of cifar10().")
    if checks.count("level", level) > LEVELS:
        checks.reject("level", level, f"a whole number from 1 to {LEVELS}", "Choose one of them.")
    return int(level) - 1


def _chunked(change: Callable[[HostArray], HostArray], images: HostArray) -> HostArray:
    result = np.empty_like(images)
    for start in range(0, len(images), CHUNK):
        result[start : start + CHUNK] = change(images[start : start + CHUNK])
    return result


def _cut(x: HostArray) -> HostArray:
    """From [0, 1] to whole numbers, downwards."""
    return (np.clip(x, 0, 1) * 255).astype(np.uint8)


def _hsv(rgb: HostArray) -> tuple[HostArray, HostArray, HostArray]:
    """Hue (in turns, from 0 to below 1), saturation and value, each of the shape without the last axis."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    value = rgb.max(axis=-1)
    spread = value - rgb.min(axis=-1)
    divisor = np.where(spread > 0, spread, 1.0)  # greys have no hue: 0 by convention
    sixths = np.select(
        [spread == 0, value == red, value == green],
        [0.0, (green - blue) / divisor, 2.0 + (blue - red) / divisor],
        4.0 + (red - green) / divisor,
    )
    return (sixths / 6.0) % 1.0, spread / np.where(value > 0, value, 1.0), value


def _rgb(hue: HostArray, saturation: HostArray, value: HostArray) -> HostArray:
    sixths = hue * 6.0
    sector = np.floor(sixths)
    part = sixths - sector
    low = value * (1.0 - saturation)
    falling = value * (1.0 - part * saturation)
    rising = value * (1.0 - (1.0 - part) * saturation)
    levels = np.stack([value, low, falling, rising], axis=-1)
    return np.take_along_axis(levels, SECTORS[sector.astype(np.int64) % 6], axis=-1)


def _resize(images: HostArray, size: int, axis: int) -> HostArray:
    before = images.shape[axis]
    scale = before / size
    centre = (np.arange(size) + 0.5) * scale
    half = max(scale, 1.0) / 2.0  # enlarging, a box is as wide as a pixel, and so holds one
    start = np.floor(centre - half + 0.5).astype(np.int64).clip(0)
    stop = np.floor(centre + half + 0.5).astype(np.int64).clip(max=before)
    sums = np.cumsum(np.moveaxis(images, axis, -1), axis=-1, dtype=np.int32)
    sums = np.concatenate([np.zeros_like(sums[..., :1]), sums], axis=-1)
    count = (stop - start).astype(np.int32)
    means = (2 * (sums[..., stop] - sums[..., start]) + count) // (2 * count)
    return np.ascontiguousarray(np.moveaxis(means, -1, axis).astype(np.uint8))


@lru_cache
def _zoom(factor: float) -> HostArray:
    """The matrix that crops the centre of 32 values and zooms it back to 32, by linear interpolation.

    The first and the last value of the crop stay the first and the last of the zoomed, of which surplus
    ones are cut off at both ends, the odd one behind.
    """
    crop = int(np.ceil(SIDE / factor))
    zoomed = round(crop * factor)
    position = (np.arange(SIDE) + (zoomed - SIDE) // 2) * (crop - 1) / (zoomed - 1)
    below = np.floor(position).astype(np.int64).clip(max=crop - 2)
    share = position - below
    matrix = np.zeros((SIDE, SIDE))
    rows, first = np.arange(SIDE), (SIDE - crop) // 2
    matrix[rows, first + below] = 1.0 - share
    matrix[rows, first + below + 1] = share
    return matrix
