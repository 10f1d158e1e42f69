"""What a run leaves: the posterior, its predictions and diagnostics, stored runs opened again, and metrics.

Import from the modules: `posterior.posterior`, `posterior.load`, `posterior.prediction`, `posterior.diagnose`, and
`posterior.metrics`.
"""
