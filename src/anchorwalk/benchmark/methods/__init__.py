"""Methods by name; a new one is a file here and a line below."""

from anchorwalk.benchmark.methods.ae import AE
from anchorwalk.benchmark.methods.base import Anchored, Method
from anchorwalk.benchmark.methods.deep_ensemble import DEEP_ENSEMBLE
from anchorwalk.benchmark.methods.map import MAP
from anchorwalk.benchmark.methods.planned import PLANNED, PLANNED_AT
from anchorwalk.benchmark.methods.sae import SAE

METHODS: dict[str, Method] = {method.name: method for method in (AE, SAE, PLANNED, PLANNED_AT, MAP, DEEP_ENSEMBLE)}

__all__ = ["METHODS", "Anchored", "Method"]
