"""The methods that the benchmark compares, by name: plans and walks for a case and a budget.

A new one is a file here and a line below. Import `METHODS`, `Method` and `Anchored` from here.
"""

from anchorwalk.benchmark.methods.ae import AE
from anchorwalk.benchmark.methods.base import Anchored, Method
from anchorwalk.benchmark.methods.deep_ensemble import DEEP_ENSEMBLE
from anchorwalk.benchmark.methods.map import MAP
from anchorwalk.benchmark.methods.planned import PLANNED, PLANNED_AT
from anchorwalk.benchmark.methods.sae import SAE

METHODS: dict[str, Method] = {method.name: method for method in (AE, SAE, PLANNED, PLANNED_AT, MAP, DEEP_ENSEMBLE)}

__all__ = ["METHODS", "Anchored", "Method"]
