"""Laplace's approximation around several modes."""

from anchorwalk import tree
from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import laplace as methods
from anchorwalk.plan.plan import Plan

MEMBERS = 20


def choose(case: Case, budget: int, chains: int, curvature: str, last_layer: bool) -> Plan:
    """Modes that share the budget, but for what the curvature costs; a full matrix that is too large is a diagonal."""
    problem = case.problem
    layers = sorted({path.split("/")[0] for path, _ in tree.named_leaves(problem.params_like) if "dense" in path})
    if curvature == "full" and not last_layer and problem.size > methods.LARGEST:
        curvature = "diagonal"
    only = f"{layers[-1]}/*" if last_layer else "*"

    def method(epochs: int) -> methods.Laplace:
        return methods.Laplace(training(case, max(1, epochs)), curvature, only)  # type: ignore[arg-type]

    return Plan(method(budget // chains - method(1).passes(problem)), chains, MEMBERS)


LAPLACE = Searched.of("laplace", choose, chains=(3, 5), curvature=("full", "diagonal"), last_layer=(False, True))
