"""Simplexes of low loss: most of the budget for the vertices."""

from dataclasses import replace

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import spro as methods
from anchorwalk.plan.plan import Plan

VERTICES, MEMBERS = 3, 20


def choose(case: Case, budget: int, chains: int, gain: float) -> Plan:
    """Chains of a first vertex with half of the budget, and two more with the rest."""
    first, rest = parts(budget, chains, 0.5)
    then = replace(training(case, max(1, rest // (VERTICES - 1))), keep="last")
    return Plan(methods.SPRO(training(case, first), then, VERTICES, gain), chains, MEMBERS)


SPRO = Searched.of("spro", choose, chains=(2, 1), gain=(0.01, 0.001, 0.1, 1.0))
