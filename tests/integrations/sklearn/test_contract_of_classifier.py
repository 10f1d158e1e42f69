"""What scikit-learn asks of every classifier; a file of its own, so that it runs beside its twin."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from anchorwalk.integrations.sklearn import EXPECTED_FAILED_CHECKS, SAEClassifier


# One program a shape instead of two; the walk's are asked for in `make test-slow`.
@parametrize_with_checks([SAEClassifier("ae", budget=100)], expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS)
def test_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [SAEClassifier(budget=100), SAEClassifier("deep_ensemble", budget=100)],
    expected_failed_checks=lambda _: EXPECTED_FAILED_CHECKS,
)
def test_the_contract_with_every_method(estimator, check):
    check(estimator)
