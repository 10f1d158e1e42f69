"""Predictions of an ensemble, and how their uncertainty splits."""

from anchorwalk.prediction.mixture import normal_mixture_quantiles
from anchorwalk.prediction.passes import Passes
from anchorwalk.prediction.prediction import Prediction

__all__ = ["Passes", "Prediction", "normal_mixture_quantiles"]
