"""Corruptions against slow and obvious twins, SciPy's zoom and Pillow's resizing."""

import colorsys
import itertools

import numpy as np
import pytest
from scipy.ndimage import zoom

from anchorwalk.benchmark.datasets import corruptions
from anchorwalk.errors import InvalidInput

LEVELS = [1, 2, 3, 4, 5]


@pytest.fixture(scope="module")
def images():
    """Noise, smooth colours, flat colours with all ties, and black next to white."""
    rng = np.random.default_rng(0)
    noise = rng.integers(256, size=(2, 32, 32, 3), dtype=np.uint8)
    ramp = np.linspace(0, 255, 32)
    smooth = np.stack(np.broadcast_arrays(ramp[:, None], ramp, (ramp[:, None] + ramp[::-1]) / 2), axis=-1)
    values = list(itertools.product([0, 1, 77, 128, 204, 254, 255], repeat=3))
    ties = np.array((values * 3)[:1024]).reshape(32, 32, 3)
    edges = 255 * (np.indices((32, 32)).sum(axis=0) // 5 % 2)
    edges = np.repeat(edges[..., None], 3, axis=-1)
    return np.concatenate([noise, np.stack([smooth, ties, edges]).astype(np.uint8)])


def assert_cut(result, exact, error):
    """The result is `exact` cut to whole numbers, where `exact` itself is known up to an error."""
    difference = exact - result
    assert result.dtype == np.uint8
    assert difference.min() >= -error
    assert difference.max() < 1 + error


@pytest.mark.parametrize(("level", "shift"), list(zip(LEVELS, [0.05, 0.1, 0.15, 0.2, 0.3], strict=True)))
def test_brightness_equals_the_standard_librarys_colours(images, level, shift):
    def brighter(pixel):
        hue, saturation, value = colorsys.rgb_to_hsv(*(pixel / 255))
        return colorsys.hsv_to_rgb(hue, saturation, min(value + shift, 1.0))

    exact = 255 * np.apply_along_axis(brighter, -1, images)
    # A few roundings of numbers up to 255, amplified by less than 100 where the hue is a ratio: far below 1e-9.
    assert_cut(corruptions.brightness(images, level), exact, error=1e-9)


def test_brightness_moves_white_not_at_all_and_greys_by_the_shift():
    greys = np.zeros((1, 32, 32, 3), np.uint8)
    greys[0, :, :, :] = np.arange(32)[:, None, None] * 8
    brighter = corruptions.brightness(greys, 1)[0, :, 0]
    # 0.05 * 255 = 12.75, cut: 12 more, up to 255.
    np.testing.assert_array_equal(brighter, np.minimum(greys[0, :, 0].astype(int) + 12, 255))
    white = np.full((1, 32, 32, 3), 255, np.uint8)
    np.testing.assert_array_equal(corruptions.brightness(white, 5), white)


def plain_resize(picture, height, width):
    """Every pixel the mean of those whose centres lie in its box, which is a pixel wide at least; columns first."""

    def line(values, size):
        scale = len(values) / size
        half = max(scale, 1) / 2
        result = []
        for i in range(size):
            centre = (i + 0.5) * scale
            inside = [int(v) for j, v in enumerate(values) if centre - half < j + 0.5 <= centre + half]
            result.append(int(sum(inside) / len(inside) + 0.5))
        return result

    wide = [line(row, width) for row in picture]
    return np.array([line(column, height) for column in zip(*wide, strict=True)]).T


@pytest.mark.parametrize(("level", "side"), list(zip(LEVELS, [30, 28, 27, 24, 20], strict=True)))
def test_pixelate_equals_the_plain_one(images, level, side):
    result = corruptions.pixelate(images, level)
    assert result.dtype == np.uint8
    for picture, pixelated in zip(images, result, strict=True):
        for channel in range(3):
            small = plain_resize(picture[..., channel], side, side)
            np.testing.assert_array_equal(pixelated[..., channel], plain_resize(small, 32, 32))


@pytest.mark.parametrize(("level", "side"), list(zip(LEVELS, [30, 28, 27, 24, 20], strict=True)))
def test_pixelate_equals_pillow(images, level, side):
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    box = image.Resampling.BOX
    expected = [np.asarray(image.fromarray(x).resize((side, side), box).resize((32, 32), box)) for x in images]
    np.testing.assert_array_equal(corruptions.pixelate(images, level), expected)


@pytest.mark.parametrize(
    ("level", "end", "steps"), [(1, 1.06, 7), (2, 1.11, 12), (3, 1.16, 16), (4, 1.21, 21), (5, 1.26, 26)]
)
def test_zoom_blur_equals_the_mean_of_scipys_zooms(images, level, end, steps):
    def zoomed(picture, factor):
        side = int(np.ceil(32 / factor))
        first = (32 - side) // 2
        large = zoom(picture[first : first + side, first : first + side], (factor, factor, 1), order=1)
        surplus = (len(large) - 32) // 2
        return large[surplus : surplus + 32, surplus : surplus + 32]

    # The last bit counts: it brings in 1.06 and 1.11, and makes 26 pixels at 1.25 zoom to 33 and not to 32.
    factors = np.arange(1, end, 0.01)
    assert len(factors) == steps
    exact = np.empty(images.shape)
    for i, picture in enumerate(images.astype(float)):
        views = [zoomed(picture, factor) for factor in factors]
        exact[i] = (picture + sum(views)) / (steps + 1)
    # Sums of steps + 1 numbers in float32, and a few further roundings, each of 2**-24 of at most 255.
    assert_cut(corruptions.zoom_blur(images, level), exact, error=(steps + 8) * 255 * 2.0**-24)


@pytest.mark.parametrize(("level", "scale"), list(zip(LEVELS, [0.04, 0.06, 0.08, 0.09, 0.1], strict=True)))
def test_noise_has_its_mean_and_spread(level, scale):
    grey = np.full((32, 32, 32, 3), 127, np.uint8)
    noise = corruptions.gaussian_noise(np.random.default_rng(level), grey, level) - 127.0
    # Cutting takes half a step off the mean and adds 1/12 to the variance. At five standard errors, of the mean and
    # of a normal's variance, a false alarm has probability 6e-7. Clipping at five deviations is far below that.
    variance = (255 * scale) ** 2 + 1 / 12
    assert abs(noise.mean() + 0.5) < 5 * np.sqrt(variance / noise.size)
    assert abs(noise.var() - variance) < 5 * variance * np.sqrt(2 / noise.size)
    # Neighbours in every direction, channels and pictures are independent.
    for axis in range(4):
        along = np.moveaxis(noise, axis, 0)
        correlation = np.mean((along[1:] + 0.5) * (along[:-1] + 0.5)) / variance
        assert abs(correlation) < 5 / np.sqrt(along[1:].size)


def test_noise_stays_within_black_and_white():
    ends = np.zeros((4, 32, 32, 3), np.uint8)
    ends[2:] = 255
    noisy = corruptions.gaussian_noise(np.random.default_rng(0), ends, 5)
    # 6144 normals beyond seven deviations: probability 1e-8. A number that wrapped around would be on the other side.
    assert noisy[:2].max() < 7 * 25.5
    assert noisy[2:].min() > 255 - 7 * 25.5
    assert abs((noisy[2:] == 255).mean() - 0.5) < 5 * 0.5 / np.sqrt(noisy[2:].size)


def test_noise_is_the_generators_and_pictures_are_worked_on_in_any_chunks(images, monkeypatch):
    def noisy(seed):
        return corruptions.gaussian_noise(np.random.default_rng(seed), images, 4)

    first = noisy(1)
    blurred = corruptions.zoom_blur(images, 4)
    np.testing.assert_array_equal(first, noisy(1))
    assert not np.array_equal(first, noisy(2))
    monkeypatch.setattr(corruptions, "CHUNK", 2)
    np.testing.assert_array_equal(first, noisy(1))
    np.testing.assert_array_equal(blurred, corruptions.zoom_blur(images, 4))


FUNCTIONS = {
    "gaussian_noise": lambda x, level: corruptions.gaussian_noise(np.random.default_rng(0), x, level),
    "brightness": corruptions.brightness,
    "pixelate": corruptions.pixelate,
    "zoom_blur": corruptions.zoom_blur,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_goes_in_stays_as_it_is_and_no_rows_are_fine(images, name):
    before = images.copy()
    after = FUNCTIONS[name](images, 3)
    np.testing.assert_array_equal(images, before)
    assert not np.shares_memory(images, after)
    assert FUNCTIONS[name](images[:0], 3).shape == (0, 32, 32, 3)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_bad_arguments_are_refused(images, name):
    for level in (0, 6, 2.5, True, "4"):
        with pytest.raises(InvalidInput, match="level: got"):
            FUNCTIONS[name](images, level)
    for wrong in (images / 255.0, images[0], images[:, :28, :28], images[..., :1], images.tolist()):
        with pytest.raises(InvalidInput, match="images: got"):
            FUNCTIONS[name](wrong, 4)


def test_a_seed_in_place_of_a_generator_is_refused(images):
    with pytest.raises(InvalidInput, match="default_rng"):
        corruptions.gaussian_noise(0, images, 4)
