import tracemalloc

import numpy as np
import pytest
from scipy import stats

from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.metrics import (
    _blocks,
    agreement,
    pointwise_wasserstein,
    total_variation,
    wasserstein1,
    wasserstein2,
)

# Sums of up to a few thousand terms of size one, in float64: 1e-12 is far above their rounding and below any slip.
EXACT = {"rtol": 1e-12, "atol": 1e-12}
COUNTS = [(1, 1), (7, 7), (1, 5), (6, 4), (4, 6), (10, 5), (13, 8), (100, 64)]


def normal_sets(n, m, rows=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, rows)), 0.5 + 2 * rng.normal(size=(m, rows))


def paired(u, v):
    """Sorted samples, each repeated until there are equally many: pairing those is the best transport."""
    n, m = len(u), len(v)
    common = np.lcm(n, m)
    return [np.sort(np.repeat(x, common // len(x), axis=0), axis=0) for x in (u, v)]


def probabilities(rows=200, classes=10, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(classes, 0.5), size=rows)


def test_agreement_by_hand():
    p = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8], [0.6, 0.3, 0.1], [0.3, 0.4, 0.3]]  # classes 1, 2, 0, 1
    q = [[0.1, 0.8, 0.1], [0.0, 0.9, 0.1], [0.4, 0.3, 0.3], [0.0, 0.2, 0.8]]  # classes 1, 1, 0, 2
    assert agreement(p, q) == 0.5


def test_of_classes_that_tie_the_first_counts():
    tie = [[0.1, 0.45, 0.45]]
    assert agreement(tie, [[0.1, 0.8, 0.1]]) == 1
    assert agreement(tie, [[0.1, 0.1, 0.8]]) == 0


def test_total_variation_by_hand():
    p = [[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]]
    q = [[0.25, 0.25, 0.5], [0.3, 0.3, 0.4]]
    # Row 1: (0.25 + 0.25 + 0.5) / 2 = 0.5; row 2: (0.1 + 0 + 0.1) / 2 = 0.1; their mean is 0.3.
    assert total_variation(p, q) == pytest.approx(0.3, rel=1e-14)


@pytest.mark.parametrize(("distance", "of_equals", "of_opposites"), [(agreement, 1, 0), (total_variation, 0, 1)])
def test_tables_of_probabilities_have_the_bounds_and_symmetries(distance, of_equals, of_opposites):
    p, q = probabilities(seed=1), probabilities(seed=2)
    assert distance(p, p) == of_equals
    assert distance([[1.0, 0.0]], [[0.0, 1.0]]) == of_opposites
    assert 0 < distance(p, q) < 1
    assert distance(p, q) == distance(q, p)
    rng = np.random.default_rng(3)
    rows, classes = rng.permutation(200), rng.permutation(10)
    assert distance(p[rows], q[rows]) == pytest.approx(distance(p, q), rel=1e-13)
    assert distance(p[:, classes], q[:, classes]) == pytest.approx(distance(p, q), rel=1e-13)


def test_total_variation_is_the_largest_difference_of_an_events_probability():
    p, q = probabilities(rows=1, classes=6, seed=1), probabilities(rows=1, classes=6, seed=2)
    events = (np.arange(2**6)[:, None] >> np.arange(6)) & 1
    assert total_variation(p, q) == pytest.approx(np.max(events @ (p - q)[0]), rel=1e-12)


def test_probabilities_rounded_to_float16_are_taken():
    p = probabilities(rows=2000)
    rounded = p.astype(np.float16)
    assert np.abs(rounded.astype(float).sum(axis=1) - 1).max() > 1e-5  # a tolerance for float32 would refuse them
    # Each probability moves by a relative 2^-11 at the most (below 2^-14 by 2^-25), and the half of their sum counts.
    assert 0 < total_variation(p, rounded) < 2**-12 + 5 * 2**-25
    assert total_variation(rounded, rounded) == 0


def test_wasserstein_by_hand():
    u = [[0.0, 1.0], [3.0, 1.0]]
    v = [[4.0, 1.0], [1.0, 2.0], [1.0, 6.0]]
    # Sorted, row 1 is (0, 3) and (1, 1, 4). Levels 1/3, 1/2, 2/3, 1 cut [0, 1] into pieces of 1/3, 1/6, 1/6, 1/3, on
    # which the pairs are (0, 1), (0, 1), (3, 1), (3, 4).
    # W1 = 1/3 + 1/6 + 2/6 + 1/3 = 7/6, W2^2 = 1/3 + 1/6 + 4/6 + 1/3 = 3/2.
    # Row 2 is (1, 1) and (1, 2, 6): W1 = (0 + 1 + 5) / 3 = 2, W2^2 = (0 + 1 + 25) / 3 = 26/3.
    np.testing.assert_allclose(pointwise_wasserstein(u, v, order=1), [7 / 6, 2], **EXACT)
    np.testing.assert_allclose(pointwise_wasserstein(u, v, order=2), np.sqrt([3 / 2, 26 / 3]), **EXACT)
    assert wasserstein1(u, v) == pytest.approx((7 / 6 + 2) / 2, rel=1e-12)
    assert wasserstein2(u, v) == pytest.approx((np.sqrt(3 / 2) + np.sqrt(26 / 3)) / 2, rel=1e-12)


@pytest.mark.parametrize(("n", "m"), COUNTS)
def test_wasserstein_1_against_scipy(n, m):
    u, v = normal_sets(n, m)
    expected = [stats.wasserstein_distance(u[:, row], v[:, row]) for row in range(5)]
    np.testing.assert_allclose(pointwise_wasserstein(u, v, order=1), expected, **EXACT)
    assert wasserstein1(u, v) == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize(("n", "m"), COUNTS)
def test_wasserstein_2_against_sorted_pairs(n, m):
    u, v = normal_sets(n, m)
    expected = np.sqrt(np.mean(np.subtract(*paired(u, v)) ** 2, axis=0))
    np.testing.assert_allclose(pointwise_wasserstein(u, v, order=2), expected, **EXACT)
    assert wasserstein2(u, v) == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("order", [1, 2])
def test_wasserstein_has_the_properties_of_a_distance(order):
    def distance(u, v):
        return pointwise_wasserstein(u, v, order=order)

    u, v = normal_sets(30, 21)
    w, _ = normal_sets(11, 1, seed=4)
    forward = distance(u, v)
    assert np.all(forward > 0)
    assert np.all(distance(u, u[::-1]) == 0)
    np.testing.assert_allclose(distance(v, u), forward, **EXACT)
    assert np.all(forward <= distance(u, w) + distance(w, v))
    np.testing.assert_allclose(distance(7 - 3 * u, 7 - 3 * v), 3 * forward, **EXACT)
    np.testing.assert_allclose(distance(u, u + 0.25), np.full(5, 0.25), **EXACT)
    np.testing.assert_allclose(distance(np.repeat(u, 4, axis=0), v), forward, **EXACT)
    np.testing.assert_allclose(distance(u[:, ::-1], v[:, ::-1]), forward[::-1], **EXACT)


def test_wasserstein_1_is_at_most_wasserstein_2():
    u, v = normal_sets(30, 21)
    assert np.all(pointwise_wasserstein(u, v, order=1) < pointwise_wasserstein(u, v, order=2))


def expected_order_statistics(n):
    """Means of n sorted standard normals, by integrating z times the density of each over a fine grid."""
    z = np.linspace(-9, 9, 4001)
    rank = np.arange(1, n + 1)[:, None]
    density = stats.beta.pdf(stats.norm.cdf(z), rank, n - rank + 1) * stats.norm.pdf(z)
    return np.trapezoid(z * density, z, axis=1)


@pytest.mark.parametrize(("n", "m"), [(60, 60), (60, 25)])
def test_wasserstein_2_of_normal_samples(n, m):
    # Between N(a, s^2) and N(b, t^2), W2^2 = (a - b)^2 + (s - t)^2. Of n and m independent samples, expanding the
    # square gives
    #      E W2^2 = E (mean of u^2) + E (mean of v^2) - 2 E ∫ F_u^-1 F_v^-1
    #             = a^2 + s^2 + b^2 + t^2 - 2 (a b + s t c) = (a - b)^2 + (s - t)^2 + 2 s t (1 - c),
    # c being the mean product of the expected sorted standard normals: no approximation, whatever n and m.
    a, s, b, t, rows = 1.0, 0.5, 0.2, 1.5, 4000
    rng = np.random.default_rng(5)
    squares = pointwise_wasserstein(rng.normal(a, s, (n, rows)), rng.normal(b, t, (m, rows)), order=2) ** 2
    c = np.mean(np.multiply(*paired(expected_order_statistics(n), expected_order_statistics(m))))
    error = 5.33 * squares.std() / np.sqrt(rows)  # of the mean over rows; a false alarm has probability 1e-7
    closed_form = (a - b) ** 2 + (s - t) ** 2
    excess = 2 * s * t * (1 - c)
    assert error < excess  # so that the next line sees the finite number of samples
    assert abs(squares.mean() - closed_form - excess) < error
    assert abs(squares.mean() - closed_form) < excess + error


@pytest.mark.parametrize("values", [1, 60, 100])
def test_blocks_of_rows_change_nothing(values, monkeypatch):
    u, v = normal_sets(12, 8, rows=11)
    whole = [pointwise_wasserstein(u, v, order=order) for order in (1, 2)]
    monkeypatch.setattr(_blocks, "VALUES", values)  # 1, 3 and 5 rows at a time
    for order, expected in zip((1, 2), whole, strict=True):
        np.testing.assert_allclose(pointwise_wasserstein(u, v, order=order), expected, **EXACT)


@pytest.mark.parametrize("order", [1, 2])
def test_memory_does_not_grow_with_rows(order):
    u, v = (x.astype(np.float32) for x in normal_sets(2000, 500, rows=2000))  # 40 MB in float64
    tracemalloc.start()
    try:
        pointwise_wasserstein(u, v, order=order)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # A block's sorted samples, their gaps twice and a gather: four blocks, and a copy that the cast may make.
    assert peak < 5 * 8 * _blocks.VALUES + 1e5


def test_any_real_type_is_taken_and_computed_with_in_float64():
    u, v = np.array([[1], [200]], np.uint8), np.array([[255], [3]], np.uint8)  # uint8 differences would wrap around
    assert wasserstein1(u, v) == (2 + 55) / 2
    large = np.float16([[60000], [-60000]])  # the difference overflows float16
    assert wasserstein2(large, -large + 0) == 0
    assert wasserstein1(large[:1], large[1:]) == 2 * float(large[0, 0])


GOOD = [[0.5, 0.5], [0.1, 0.9]]
TABLES = [
    ([0.5, 0.1], ["shape (2,)", "shape (rows, classes)", "np.stack([1 - p, p], axis=1)"]),
    ([[0.5], [0.1]], ["shape (2, 1)", "two classes or more", "np.stack([1 - p, p], axis=1)"]),
    ([GOOD, GOOD], ["shape (2, 2, 2)", "Average over members"]),
    (np.empty((0, 2)), ["shape (0, 2)", "at least one value"]),
    ([[0.5, 0.5], [0.1, np.nan]], ["1 values that are not finite", "(1, 1)", "Leave such predictions out"]),
    ([[0.5, 0.5], [-np.inf, 0.9]], ["not finite", "(1, 0)"]),
    ([[0.5, 0.5], [1.0005, -0.0005]], ["-0.0005 at index (1, 1)", "no negative number", "softmax"]),
    ([[0.5, 0.5], [0.1, 0.902]], ["1 rows", "row 1 with 1.002", "within 0.001", "softmax"]),
    ([[0.5, 0.5], [0.5]], ["unequal length", "rectangular"]),
    ([["a", "b"], ["c", "d"]], ["real numbers", "Encode"]),
]


@pytest.mark.parametrize("distance", [agreement, total_variation])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(("bad", "parts"), TABLES)
def test_tables_that_are_no_probabilities_are_refused(distance, position, bad, parts):
    arguments = [GOOD, GOOD]
    arguments[position] = bad
    with pytest.raises(InvalidInput) as caught:
        distance(*arguments)
    message = str(caught.value)
    assert message.startswith("pq"[position] + ": got ")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("distance", [agreement, total_variation])
@pytest.mark.parametrize("other", [[[0.5, 0.5]], [[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]]])
def test_tables_of_unequal_shape_are_refused(distance, other):
    with pytest.raises(InvalidInput, match=r"q: got shape .*that of p\. Predict the same rows and classes\."):
        distance(GOOD, other)


SETS = [
    ([1.0, 2.0], ["shape (2,)", "shape (samples, rows)", "[:, None] for samples of one row"]),
    (np.zeros((3, 2, 1)), ["shape (3, 2, 1)", "[:, :, 0]"]),
    (np.empty((0, 2)), ["shape (0, 2)", "at least one value"]),
    (np.empty((2, 0)), ["shape (2, 0)", "at least one value"]),
    ([[1.0, 2.0], [np.nan, 1.0]], ["1 values that are not finite", "(1, 0)", "Leave such predictions out"]),
    ([[1.0, np.inf], [1.0, 1.0]], ["not finite", "(0, 1)"]),
    ([[1.0, 1j]], ["real numbers"]),
]


@pytest.mark.parametrize("distance", [wasserstein1, wasserstein2])
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize(("bad", "parts"), SETS)
def test_bad_sets_of_samples_are_refused(distance, position, bad, parts):
    arguments = [[[1.0, 2.0]], [[1.0, 2.0]]]
    arguments[position] = bad
    with pytest.raises(InvalidInput) as caught:
        distance(*arguments)
    message = str(caught.value)
    assert message.startswith("uv"[position] + ": got ")
    assert all(part in message for part in parts), message


def test_other_rows_and_orders_are_refused():
    with pytest.raises(InvalidInput, match=r"v: got 3 rows, expected 2, as u has\. Predict the same rows"):
        wasserstein1(np.zeros((4, 2)), np.zeros((4, 3)))
    with pytest.raises(InvalidInput, match=r"order: got 3, expected 1 or 2\. Choose W1 or W2\."):
        pointwise_wasserstein([[1.0]], [[1.0]], order=3)
