"""The methods that the benchmark compares, by name: plans and walks for a case and a budget.

A new one is a file here and a line below, or an entry point of the group `anchorwalk.methods` in another package.
Import `METHODS`, `known`, `find`, `Method` and `Entry` from here.
"""

from importlib.metadata import entry_points

from anchorwalk import checks
from anchorwalk.benchmark.methods.ae import AE
from anchorwalk.benchmark.methods.base import Entry, Method
from anchorwalk.benchmark.methods.deep_ensemble import DEEP_ENSEMBLE
from anchorwalk.benchmark.methods.map import MAP
from anchorwalk.benchmark.methods.planned import PLANNED
from anchorwalk.benchmark.methods.sae import SAE

METHODS: dict[str, Method] = {method.name: method for method in (AE, SAE, PLANNED, MAP, DEEP_ENSEMBLE)}

GROUP = "anchorwalk.methods"
"""Entry points under which other packages offer methods; each is an object such as `Entry`."""

__all__ = ["METHODS", "Entry", "Method", "find", "known"]


def known() -> dict[str, Method]:
    """The methods of this package, and those that other packages offer by an entry point."""
    offered = {point.name: point for point in entry_points(group=GROUP) if point.name not in METHODS}
    return METHODS | {name: point.load() for name, point in offered.items()}


def find(method: str | Method) -> Method:
    """A method by its name, or as it is.

    Raises:
        InvalidInput: An unknown name, or an object that is no method of the benchmark.
    """
    if isinstance(method, str):
        found = known()
        return found[checks.choice("method", method, tuple(found))]
    checks.instance("method", method, Method, "a name, or Entry(name, choose)")
    return method
