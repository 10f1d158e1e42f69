"""Anchored ensembles as scikit-learn estimators.

    from anchorwalk.integrations.sklearn import SAERegressor

    model = SAERegressor().fit(X, y)
    mean, std = model.predict(X_new, return_std=True)
    low, high = model.predict_interval(X_new, coverage=0.9)

They work in pipelines, searches and cross-validation. It needs scikit-learn: `pip install 'anchorwalk[sklearn]'`.
"""

from importlib.util import find_spec

if find_spec("sklearn") is None:
    raise ImportError("anchorwalk.integrations.sklearn needs scikit-learn: pip install 'anchorwalk[sklearn]'")

from anchorwalk.integrations.sklearn.checks import EXPECTED_FAILED_CHECKS
from anchorwalk.integrations.sklearn.classifier import SAEClassifier
from anchorwalk.integrations.sklearn.regressor import SAERegressor

__all__ = ["EXPECTED_FAILED_CHECKS", "SAEClassifier", "SAERegressor"]
