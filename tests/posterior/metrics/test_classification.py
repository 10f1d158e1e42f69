import numpy as np
import pytest

from anchorwalk.errors import InvalidInput
from anchorwalk.posterior.metrics import accuracy, brier, expected_calibration_error, log_loss, negative_log_likelihood

TABLE = np.array([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8], [0.3, 0.6, 0.1], [0.2, 0.3, 0.5]])
LABELS = np.array([0, 2, 0, 1])
SCORES = [accuracy, log_loss, brier, expected_calibration_error]


def test_accuracy_by_hand():
    assert accuracy(TABLE, LABELS) == 0.5  # most probable: 0, 2, 1, 2


def test_of_classes_that_tie_the_first_counts():
    assert accuracy([[0.5, 0.5]], [0]) == 1
    assert accuracy([[0.5, 0.5]], [1]) == 0
    assert expected_calibration_error([[0.5, 0.5], [0.5, 0.5]], [0, 1]) == 0  # one hit of two, at confidence 1/2
    assert expected_calibration_error([[0.5, 0.5], [0.5, 0.5]], [1, 1]) == 0.5


def test_log_loss_by_hand():
    # Of the true classes: 0.5, 0.8, 0.3, 0.3.
    assert log_loss(TABLE, LABELS) == pytest.approx(-np.log(0.5 * 0.8 * 0.3 * 0.3) / 4, rel=1e-14)
    assert log_loss(TABLE, LABELS) == pytest.approx(negative_log_likelihood(np.log([0.5, 0.8, 0.3, 0.3])), rel=1e-14)


def test_log_loss_is_infinite_where_the_truth_was_ruled_out():
    assert log_loss([[0.5, 0.5], [1.0, 0.0]], [0, 1]) == np.inf
    assert log_loss([[0.5, 0.5], [1.0, 0.0]], [0, 0]) == pytest.approx(np.log(2) / 2, rel=1e-14)


def test_brier_by_hand():
    # Row 1: 0.25 + 0.0625 + 0.0625 = 0.375; row 2: 0.01 + 0.01 + 0.04 = 0.06; row 3: 0.49 + 0.36 + 0.01 = 0.86;
    # row 4: 0.04 + 0.49 + 0.25 = 0.78.
    assert brier(TABLE, LABELS) == pytest.approx((0.375 + 0.06 + 0.86 + 0.78) / 4, rel=1e-14)
    assert brier([[1.0, 0.0]], [0]) == 0
    assert brier([[1.0, 0.0]], [1]) == 2


@pytest.mark.parametrize("score", [log_loss, brier])
def test_the_truth_scores_best_among_neighbours(score):
    # Proper scores: over labels in the shares (1/2, 3/10, 1/5), every other constant prediction is worse.
    labels = np.repeat([0, 1, 2], [5, 3, 2])
    truth = np.array([0.5, 0.3, 0.2])
    for shift in ([0.05, -0.05, 0.0], [-0.05, 0.05, 0.0], [0.0, 0.05, -0.05], [0.0, -0.05, 0.05], [0.05, 0.0, -0.05]):
        assert score(np.tile(truth, (10, 1)), labels) < score(np.tile(truth + shift, (10, 1)), labels)


def test_calibration_error_by_hand():
    # Five bins: (0.4, 0.6] holds confidences 0.5 (hit), 0.6 (miss, on its upper edge): |1.1 - 1| = 0.1;
    # (0.6, 0.8] holds 0.7 (hit) and 0.8 (miss, on its upper edge): |1.5 - 1| = 0.5; (0.8, 1] holds 1.0 (hit): 0.
    table = np.array([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [0.1, 0.7, 0.2], [0.1, 0.1, 0.8], [1.0, 0.0, 0.0]])
    labels = np.array([0, 1, 1, 0, 0])
    assert expected_calibration_error(table, labels, bins=5) == pytest.approx(0.6 / 5, rel=1e-13)
    # One bin: confidences sum to 3.6 and there are three hits.
    assert expected_calibration_error(table, labels, bins=1) == pytest.approx(0.6 / 5, rel=1e-13)
    # Ten bins hold one row each: 0.5 + 0.6 + 0.3 + 0.8 + 0.
    assert expected_calibration_error(table, labels, bins=10) == pytest.approx(2.2 / 5, rel=1e-13)
    # With four, 0.5 is on the upper edge of (0.25, 0.5], 0.6 and 0.7 share (0.5, 0.75]: 0.5 + 0.3 + |1.8 - 1|.
    assert expected_calibration_error(table, labels, bins=4) == pytest.approx(1.6 / 5, rel=1e-13)


@pytest.mark.parametrize("bins", [7, 15, 100])
def test_an_edge_belongs_to_the_bin_below(bins):
    # A miss on the edge e and a hit a little above it: e + (1 - e) in bins of their own, |2 e - 1| in a common one.
    for b in range(bins // 2 + 1, bins):
        edge = b / bins
        above = edge + 1e-9
        table = [[edge, 1 - edge], [above, 1 - above]]
        assert expected_calibration_error(table, [1, 0], bins=bins) == pytest.approx(0.5, abs=1e-8)


def draw_labels(rng, table):
    return (rng.random((len(table), 1)) > np.cumsum(table, axis=1)[:, :-1]).sum(axis=1)


def chance(confidence, hit, bins):
    """Mean and largest deviation of Σ_b |noise in b| / rows, where a row is a hit with probability `hit`.

    The noise of a bin is close to N(0, v) with v = Σ h (1 - h): its size has mean sqrt(2 v / π) and variance
    (1 - 2 / π) v, and bins are independent. 5.33 standard deviations: a false alarm has probability 1e-7.
    """
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    v = np.bincount(bin_of, weights=hit * (1 - hit))
    rows = len(hit)
    return np.sqrt(2 / np.pi) * np.sqrt(v).sum() / rows, 5.33 * np.sqrt((1 - 2 / np.pi) * v.sum()) / rows


def test_calibration_error_of_a_calibrated_predictor_is_what_chance_makes():
    bins = 15
    rng = np.random.default_rng(0)
    table = rng.dirichlet([0.7, 0.7, 0.7], size=20_000)
    confidence = table.max(axis=1)
    noise, error = chance(confidence, confidence, bins)
    assert noise + error < 0.02
    assert abs(expected_calibration_error(table, draw_labels(rng, table), bins) - noise) < error


def test_calibration_error_of_an_overconfident_simulation():
    bins = 15
    rng = np.random.default_rng(1)
    table = rng.dirichlet([0.7, 0.7, 0.7], size=20_000)
    confidence = table.max(axis=1)
    # Labels of a less sure law, halfway to the uniform: every confidence is too high, by (c - 1/3) / 2.
    softer = (table + 1 / 3) / 2
    excess = np.mean(confidence - 1 / 3) / 2
    noise, error = chance(confidence, softer.max(axis=1), bins)
    assert excess > 5 * (noise + error)
    assert abs(expected_calibration_error(table, draw_labels(rng, softer), bins) - excess) < noise + error


def test_calibration_error_of_a_constant_overconfident_predictor():
    table, labels = np.tile([0.9, 0.1], (10, 1)), np.repeat([0, 1], [7, 3])
    assert expected_calibration_error(table, labels) == pytest.approx(0.2, rel=1e-13)


def test_a_confidence_rounded_above_one_stays_in_the_last_bin():
    assert expected_calibration_error([[1.0005, 0.0], [0.99, 0.01]], [0, 1]) == pytest.approx((1.9905 - 1) / 2)


@pytest.mark.parametrize("score", SCORES)
def test_types_of_labels_and_order_of_rows_do_not_matter(score):
    expected = score(TABLE, LABELS)
    for dtype in (np.uint8, np.int32, np.uint64):
        assert score(TABLE, LABELS.astype(dtype)) == expected
    assert score(TABLE.tolist(), LABELS.tolist()) == expected
    assert score(TABLE[::-1], LABELS[::-1]) == pytest.approx(expected, rel=1e-14)
    classes = np.array([2, 0, 1])
    assert score(TABLE[:, classes], np.argsort(classes)[LABELS]) == pytest.approx(expected, rel=1e-14)


BAD_LABELS = [
    (LABELS[:, None], ["shape (4, 1)", "shape (4,)", "y.ravel()"]),
    (LABELS[:3], ["shape (3,)", "shape (4,)", "as many labels"]),
    (np.eye(3)[LABELS], ["shape (4, 3)", "y.argmax(axis=1)"]),
    (LABELS.astype(float), ["type float64", "integer labels", "y.astype(int)"]),
    (LABELS > 0, ["type bool", "integer labels", "y.astype(int)"]),
    (LABELS + 1, ["3 in row 1", "labels from 0 to 2", "from 0"]),
    (LABELS - 1, ["-1 in row 0", "labels from 0 to 2", "from 0"]),
    (list("abca"), ["real numbers", "Encode"]),
]


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(("bad", "parts"), BAD_LABELS)
def test_bad_labels_are_refused(score, bad, parts):
    with pytest.raises(InvalidInput) as caught:
        score(TABLE, bad)
    message = str(caught.value)
    assert message.startswith("y: got ")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("bad", "parts"),
    [
        (np.log(TABLE), ["no negative number", "softmax"]),
        (2 * TABLE, ["4 rows that do not sum to one, the first row 0 with 2", "within 0.001", "softmax"]),
        (TABLE[:, 0], ["shape (4,)", "np.stack([1 - p, p], axis=1)"]),
        (TABLE * np.nan, ["12 values that are not finite"]),
        (TABLE[:0], ["shape (0, 3)", "at least one value"]),
    ],
)
def test_bad_probabilities_are_refused(score, bad, parts):
    with pytest.raises(InvalidInput) as caught:
        score(bad, LABELS)
    message = str(caught.value)
    assert message.startswith("probabilities: got ")
    assert all(part in message for part in parts), message


@pytest.mark.parametrize("bins", [0, 2.5, True])
def test_bad_numbers_of_bins_are_refused(bins):
    with pytest.raises(InvalidInput, match=r"bins: got .*, expected a whole number of at least 1"):
        expected_calibration_error(TABLE, LABELS, bins)
