"""How good predictions are, given the truth."""

from anchorwalk.metrics.regression import coverage, negative_log_likelihood, rmse

__all__ = ["coverage", "negative_log_likelihood", "rmse"]
