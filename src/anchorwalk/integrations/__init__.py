"""Adapters to other libraries: scikit-learn, Flax, Equinox, Haiku, ArviZ, TensorBoard and MLflow.

Import estimators from `integrations.sklearn`; `from_flax`, `from_equinox`, `from_haiku`, `to_arviz`, `TensorBoard` and
`MLflow` are public names of `anchorwalk`. Each needs its extra, and imports its library when it is used.
"""
