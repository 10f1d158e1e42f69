"""Methods by name; a new one is a file here and a line below."""

from anchorwalk.benchmarks.methods.ae import AE
from anchorwalk.benchmarks.methods.base import Anchored, Method
from anchorwalk.benchmarks.methods.deep_ensemble import DEEP_ENSEMBLE
from anchorwalk.benchmarks.methods.map import MAP
from anchorwalk.benchmarks.methods.planned import PLANNED, PLANNED_AT
from anchorwalk.benchmarks.methods.sae import SAE

METHODS: dict[str, Method] = {method.name: method for method in (AE, SAE, PLANNED, PLANNED_AT, MAP, DEEP_ENSEMBLE)}

__all__ = ["METHODS", "Anchored", "Method"]
