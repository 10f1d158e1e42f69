"""Anchored and sequential anchored ensembles: approximate posteriors of neural networks.

The method is that of "SAE: Sequential Anchored Ensembles" (Delaunoy and Louppe, 2021).
"""

from importlib.metadata import version as _version

from anchorwalk import errors, networks, testing, walks
from anchorwalk.ensembles import (
    Description,
    Plan,
    Posterior,
    Progress,
    Report,
    Sequential,
    Threaded,
    Vectorized,
    anchored_ensemble,
    deep_ensemble,
    describe,
    load,
    map_estimate,
    sample,
    sequential_anchored_ensemble,
)
from anchorwalk.errors import Status
from anchorwalk.likelihoods import Bernoulli, Categorical, HeteroscedasticNormal, Normal, Poisson
from anchorwalk.prediction import Prediction
from anchorwalk.prior import Prior, by_path, fan_in
from anchorwalk.problem import Problem
from anchorwalk.store import DiskStore, MemoryStore
from anchorwalk.training import SGD, Adam, Training
from anchorwalk.types import Member, MemberInfo, Walk, WalkInfo, WalkState
from anchorwalk.walks import Autoregressive, GuidedWalk, Hamiltonian, Independent, RandomWalk, Rotation

__version__ = _version("anchorwalk")

__all__ = [
    "SGD",
    "Adam",
    "Autoregressive",
    "Bernoulli",
    "Categorical",
    "Description",
    "DiskStore",
    "GuidedWalk",
    "Hamiltonian",
    "HeteroscedasticNormal",
    "Independent",
    "Member",
    "MemberInfo",
    "MemoryStore",
    "Normal",
    "Plan",
    "Poisson",
    "Posterior",
    "Prediction",
    "Prior",
    "Problem",
    "Progress",
    "RandomWalk",
    "Report",
    "Rotation",
    "Sequential",
    "Status",
    "Threaded",
    "Training",
    "Vectorized",
    "Walk",
    "WalkInfo",
    "WalkState",
    "anchored_ensemble",
    "by_path",
    "deep_ensemble",
    "describe",
    "errors",
    "fan_in",
    "load",
    "map_estimate",
    "networks",
    "sample",
    "sequential_anchored_ensemble",
    "testing",
    "walks",
]
