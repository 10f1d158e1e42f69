"""Anchored and sequential anchored ensembles: approximate posteriors of neural networks.

The method is that of "SAE: Sequential Anchored Ensembles" (Delaunoy and Louppe, 2021).
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from anchorwalk import errors, networks, testing, walks
    from anchorwalk.adapters import from_equinox, from_flax, from_haiku
    from anchorwalk.arviz import to_arviz
    from anchorwalk.ensembles import (
        Description,
        Diagnosis,
        Pilots,
        Plan,
        Planned,
        Posterior,
        Progress,
        Rates,
        Report,
        Sequential,
        Threaded,
        Vectorized,
        anchored_ensemble,
        deep_ensemble,
        describe,
        load,
        map_estimate,
        plan_for,
        sample,
        sequential_anchored_ensemble,
    )
    from anchorwalk.errors import Status
    from anchorwalk.likelihoods import Bernoulli, Categorical, HeteroscedasticNormal, Normal, Poisson
    from anchorwalk.prediction import Prediction
    from anchorwalk.prior import Prior, by_path, fan_in
    from anchorwalk.problem import Problem
    from anchorwalk.store import DiskStore, MemoryStore
    from anchorwalk.tracking import MLflow, TensorBoard
    from anchorwalk.training import SGD, Adam, Lion, Training
    from anchorwalk.types import Member, MemberInfo, Walk, WalkInfo, WalkState
    from anchorwalk.walks import Autoregressive, GuidedWalk, Hamiltonian, Independent, RandomWalk, Rotation

    __version__: str

__all__ = [
    "SGD",
    "Adam",
    "Autoregressive",
    "Bernoulli",
    "Categorical",
    "Description",
    "Diagnosis",
    "DiskStore",
    "GuidedWalk",
    "Hamiltonian",
    "HeteroscedasticNormal",
    "Independent",
    "Lion",
    "MLflow",
    "Member",
    "MemberInfo",
    "MemoryStore",
    "Normal",
    "Pilots",
    "Plan",
    "Planned",
    "Poisson",
    "Posterior",
    "Prediction",
    "Prior",
    "Problem",
    "Progress",
    "RandomWalk",
    "Rates",
    "Report",
    "Rotation",
    "Sequential",
    "Status",
    "TensorBoard",
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
    "from_equinox",
    "from_flax",
    "from_haiku",
    "load",
    "map_estimate",
    "networks",
    "plan_for",
    "sample",
    "sequential_anchored_ensemble",
    "testing",
    "to_arviz",
    "walks",
]

_MODULES = ("errors", "networks", "testing", "walks")
_WHERE = {
    "adapters": "from_equinox from_flax from_haiku",
    "arviz": "to_arviz",
    "ensembles": "Description Diagnosis Pilots Plan Planned Posterior Progress Rates Report Sequential Threaded "
    "Vectorized anchored_ensemble deep_ensemble describe load map_estimate plan_for sample "
    "sequential_anchored_ensemble",
    "errors": "Status",
    "likelihoods": "Bernoulli Categorical HeteroscedasticNormal Normal Poisson",
    "prediction": "Prediction",
    "prior": "Prior by_path fan_in",
    "problem": "Problem",
    "store": "DiskStore MemoryStore",
    "tracking": "MLflow TensorBoard",
    "training": "SGD Adam Lion Training",
    "types": "Member MemberInfo Walk WalkInfo WalkState",
    "walks": "Autoregressive GuidedWalk Hamiltonian Independent RandomWalk Rotation",
}
"""Public names by module. A module is imported when a name of it is used for the first time, so that importing the
package costs next to nothing; a test holds these to the imports above, which type checkers read."""
_HOME = {name: module for module, names in _WHERE.items() for name in names.split()}


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        return _import_module(f"anchorwalk.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("anchorwalk")
    if name not in _HOME:
        raise AttributeError(f"module 'anchorwalk' has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(f"anchorwalk.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
