"""Cyclical stochastic gradient Hamiltonian Monte Carlo, from an initialisation or from a trained start."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import batch_of, parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import cyclical_sghmc as methods
from anchorwalk.plan.plan import Plan

CYCLES, DRAWS, EXPLORE = 4, 5, 0.8


def choose(case: Case, budget: int, trained: bool, step_size: float) -> Plan:
    """One chain of four cycles, a training before them with half of the budget or none."""
    first, rest = parts(budget, 1, 0.5)
    cycle = (rest if trained else budget) // CYCLES
    draws = max(1, min(DRAWS, int((1 - EXPLORE) * cycle)))
    start = training(case, first) if trained else None
    method = methods.CyclicalSGHMC(step_size, cycle, draws, EXPLORE, batch_size=batch_of(case), first=start)
    return Plan(method, 1, CYCLES * draws)


CSGHMC = Searched.of("csghmc", choose, trained=(True, False), step_size=(1e-7, 1e-8, 1e-6, 1e-5))
