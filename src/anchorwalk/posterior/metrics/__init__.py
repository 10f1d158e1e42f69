"""Scores of predictions given the truth, and distances between the predictions of two posteriors.

Import the functions from here; `convergence` has R-hat and effective sizes.
"""

from anchorwalk.posterior.metrics.classification import accuracy, brier, expected_calibration_error, log_loss
from anchorwalk.posterior.metrics.distances import (
    agreement,
    pointwise_wasserstein,
    total_variation,
    wasserstein1,
    wasserstein2,
)
from anchorwalk.posterior.metrics.regression import coverage, crps, negative_log_likelihood, rmse

__all__ = [
    "accuracy",
    "agreement",
    "brier",
    "coverage",
    "crps",
    "expected_calibration_error",
    "log_loss",
    "negative_log_likelihood",
    "pointwise_wasserstein",
    "rmse",
    "total_variation",
    "wasserstein1",
    "wasserstein2",
]
