"""Sequential anchored ensembles, with draws from simplexes of their optima."""

from anchorwalk.benchmark.methods.base import Searched
from anchorwalk.benchmark.methods.modes import parts, training
from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods import simplex_sae as methods
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.walks import GuidedWalk

LATER, DRAWS = 8, 4
"""Later trainings of a chain, and draws from each simplex."""


def choose(case: Case, budget: int, chains: int, step: float, vertices: int) -> Plan:
    """Chains of one long training and eight later ones, which share the budget evenly."""
    first, rest = parts(budget, chains, 0.3)
    later = max(1, rest // LATER)
    chain = SAE(training(case, first), training(case, later), GuidedWalk(step), keep_optimizer=True, shift_start=True)
    return Plan(methods.SimplexSAE(chain, vertices, DRAWS), chains, DRAWS * (LATER + 2 - vertices))


SAE_SIMPLEX = Searched.of("sae_simplex", choose, chains=(2, 1), step=(1.0, 0.3), vertices=(2, 4))
