"""The methods that the benchmark compares, by name: plans and walks for a case and a budget.

A new one is a file here and a line below, or an entry point of the group `anchorwalk.methods` in another package.
Import `METHODS`, `RELATED`, `known`, `find`, `Method`, `Entry` and `Searched` from here.
"""

from importlib.metadata import entry_points

from anchorwalk import checks
from anchorwalk.benchmark.methods.ae import AE
from anchorwalk.benchmark.methods.base import Entry, Method, Searched
from anchorwalk.benchmark.methods.csghmc import CSGHMC
from anchorwalk.benchmark.methods.deep_ensemble import DEEP_ENSEMBLE
from anchorwalk.benchmark.methods.fge import FGE
from anchorwalk.benchmark.methods.hmc import HMC
from anchorwalk.benchmark.methods.ivon import IVON
from anchorwalk.benchmark.methods.laplace import LAPLACE
from anchorwalk.benchmark.methods.map import MAP
from anchorwalk.benchmark.methods.mclmc import MCLMC
from anchorwalk.benchmark.methods.planned import PLANNED
from anchorwalk.benchmark.methods.sae import SAE
from anchorwalk.benchmark.methods.sae_low_precision import SAE_LOW_PRECISION
from anchorwalk.benchmark.methods.sae_simplex import SAE_SIMPLEX
from anchorwalk.benchmark.methods.sghmc import SGHMC
from anchorwalk.benchmark.methods.sgld import SGLD
from anchorwalk.benchmark.methods.snapshot import SNAPSHOT
from anchorwalk.benchmark.methods.spro import SPRO
from anchorwalk.benchmark.methods.swa import SWA
from anchorwalk.benchmark.methods.swag import SWAG
from anchorwalk.benchmark.methods.swalp import SWALP

RELATED: tuple[Searched, ...] = (
    SNAPSHOT,
    FGE,
    SWA,
    SWAG,
    SWALP,
    SPRO,
    SGLD,
    SGHMC,
    CSGHMC,
    MCLMC,
    IVON,
    LAPLACE,
    HMC,
    SAE_SIMPLEX,
    SAE_LOW_PRECISION,
)
"""The related work, each with settings to choose among."""

METHODS: dict[str, Method] = {method.name: method for method in (AE, SAE, PLANNED, MAP, DEEP_ENSEMBLE, *RELATED)}

GROUP = "anchorwalk.methods"
"""Entry points under which other packages offer methods; each is an object such as `Entry`."""

__all__ = ["METHODS", "RELATED", "Entry", "Method", "Searched", "find", "known"]


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
