"""What of scikit-learn's contract cannot hold here."""

EXPECTED_FAILED_CHECKS = {
    "check_sample_weight_equivalence_on_dense_data": (
        "A row of weight two and a row that stands there twice have the same loss and the same optimum, but other "
        "minibatches on the way to it: predictions agree closely, not to the last digits that the check compares."
    ),
}
"""Checks of `sklearn.utils.estimator_checks.check_estimator` that fail, and why."""
