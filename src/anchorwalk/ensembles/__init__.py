"""From a budget to a posterior: plans, chains, runners, and the calls that use them."""

from anchorwalk.ensembles.anchored import anchored_ensemble
from anchorwalk.ensembles.baselines import deep_ensemble, map_estimate
from anchorwalk.ensembles.callbacks import Callback, Progress, Report
from anchorwalk.ensembles.describe import Description, describe
from anchorwalk.ensembles.diagnose import Diagnosis
from anchorwalk.ensembles.load import load
from anchorwalk.ensembles.pilots import Pilots
from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.planner import Planned, plan_for
from anchorwalk.ensembles.posterior import Posterior
from anchorwalk.ensembles.rates import Rates
from anchorwalk.ensembles.runners import Runner, Sequential, Threaded, Vectorized
from anchorwalk.ensembles.sample import sample
from anchorwalk.ensembles.sequential import sequential_anchored_ensemble

__all__ = [
    "Callback",
    "Description",
    "Diagnosis",
    "Pilots",
    "Plan",
    "Planned",
    "Posterior",
    "Progress",
    "Rates",
    "Report",
    "Runner",
    "Sequential",
    "Threaded",
    "Vectorized",
    "anchored_ensemble",
    "deep_ensemble",
    "describe",
    "load",
    "map_estimate",
    "plan_for",
    "sample",
    "sequential_anchored_ensemble",
]
