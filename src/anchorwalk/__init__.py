"""Anchored and sequential anchored ensembles: approximate posteriors of neural networks.

The method is that of "SAE: Sequential Anchored Ensembles" (Delaunoy and Louppe, 2021).
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

if _TYPE_CHECKING:
    from anchorwalk import errors, networks, testing, walks
    from anchorwalk.errors import Status
    from anchorwalk.integrations.arviz import to_arviz
    from anchorwalk.integrations.equinox import from_equinox
    from anchorwalk.integrations.flax import from_flax
    from anchorwalk.integrations.haiku import from_haiku
    from anchorwalk.integrations.tracking import MLflow, TensorBoard
    from anchorwalk.likelihoods import Bernoulli, Categorical, HeteroscedasticNormal, Likelihood, Normal, Poisson
    from anchorwalk.methods.ae import AE
    from anchorwalk.methods.base import Call, Draws, Keys, Member, MemberInfo, Method
    from anchorwalk.methods.cyclical_sghmc import CyclicalSGHMC
    from anchorwalk.methods.deep_ensemble import DeepEnsemble
    from anchorwalk.methods.fge import FGE
    from anchorwalk.methods.hmc import HMC
    from anchorwalk.methods.ivon import IVON
    from anchorwalk.methods.laplace import Laplace
    from anchorwalk.methods.low_precision_sae import LowPrecisionSAE
    from anchorwalk.methods.map import MAP
    from anchorwalk.methods.mclmc import MCLMC
    from anchorwalk.methods.sae import SAE
    from anchorwalk.methods.sghmc import SGHMC
    from anchorwalk.methods.sgld import SGLD
    from anchorwalk.methods.simplex_sae import SimplexSAE
    from anchorwalk.methods.snapshot import Snapshot
    from anchorwalk.methods.spro import SPRO
    from anchorwalk.methods.swa import SWA
    from anchorwalk.methods.swag import SWAG
    from anchorwalk.methods.swalp import SWALP
    from anchorwalk.methods.tempering import Tempering
    from anchorwalk.optimizers import SGD, SOAP, Adam, Lion, Optimizer, Training
    from anchorwalk.plan.describe import Description, describe
    from anchorwalk.plan.plan import Plan
    from anchorwalk.plan.planner import Planned, plan_for
    from anchorwalk.posterior.diagnose import Diagnosis
    from anchorwalk.posterior.load import load
    from anchorwalk.posterior.posterior import Posterior
    from anchorwalk.posterior.prediction import Prediction
    from anchorwalk.prior import Prior, by_path, fan_in
    from anchorwalk.problem import Problem
    from anchorwalk.run.callbacks import Progress, RoundInfo
    from anchorwalk.run.programs import cache_programs
    from anchorwalk.run.runners import Devices, Local, Ray, Runner
    from anchorwalk.run.sample import sample, sample_many
    from anchorwalk.run.store import DiskStore, MemoryStore, Store
    from anchorwalk.walks import (
        Autoregressive,
        GuidedWalk,
        Hamiltonian,
        Independent,
        RandomWalk,
        Rotation,
        Walk,
        WalkInfo,
        WalkState,
    )

    __version__: str

__all__ = [
    "AE",
    "FGE",
    "HMC",
    "IVON",
    "MAP",
    "MCLMC",
    "SAE",
    "SGD",
    "SGHMC",
    "SGLD",
    "SOAP",
    "SPRO",
    "SWA",
    "SWAG",
    "SWALP",
    "Adam",
    "Autoregressive",
    "Bernoulli",
    "Call",
    "Categorical",
    "CyclicalSGHMC",
    "DeepEnsemble",
    "Description",
    "Devices",
    "Diagnosis",
    "DiskStore",
    "Draws",
    "GuidedWalk",
    "Hamiltonian",
    "HeteroscedasticNormal",
    "Independent",
    "Keys",
    "Laplace",
    "Likelihood",
    "Lion",
    "Local",
    "LowPrecisionSAE",
    "MLflow",
    "Member",
    "MemberInfo",
    "MemoryStore",
    "Method",
    "Normal",
    "Optimizer",
    "Plan",
    "Planned",
    "Poisson",
    "Posterior",
    "Prediction",
    "Prior",
    "Problem",
    "Progress",
    "RandomWalk",
    "Ray",
    "Rotation",
    "RoundInfo",
    "Runner",
    "SimplexSAE",
    "Snapshot",
    "Status",
    "Store",
    "Tempering",
    "TensorBoard",
    "Training",
    "Walk",
    "WalkInfo",
    "WalkState",
    "by_path",
    "cache_programs",
    "describe",
    "errors",
    "fan_in",
    "from_equinox",
    "from_flax",
    "from_haiku",
    "load",
    "networks",
    "plan_for",
    "sample",
    "sample_many",
    "testing",
    "to_arviz",
    "walks",
]

_MODULES = ("errors", "networks", "testing", "walks")
_WHERE = {
    "errors": "Status",
    "integrations.arviz": "to_arviz",
    "integrations.equinox": "from_equinox",
    "integrations.flax": "from_flax",
    "integrations.haiku": "from_haiku",
    "integrations.tracking": "MLflow TensorBoard",
    "likelihoods": "Bernoulli Categorical HeteroscedasticNormal Likelihood Normal Poisson",
    "methods.ae": "AE",
    "methods.base": "Call Draws Keys Member MemberInfo Method",
    "methods.cyclical_sghmc": "CyclicalSGHMC",
    "methods.deep_ensemble": "DeepEnsemble",
    "methods.fge": "FGE",
    "methods.hmc": "HMC",
    "methods.ivon": "IVON",
    "methods.laplace": "Laplace",
    "methods.low_precision_sae": "LowPrecisionSAE",
    "methods.map": "MAP",
    "methods.mclmc": "MCLMC",
    "methods.sae": "SAE",
    "methods.sghmc": "SGHMC",
    "methods.sgld": "SGLD",
    "methods.simplex_sae": "SimplexSAE",
    "methods.snapshot": "Snapshot",
    "methods.spro": "SPRO",
    "methods.swa": "SWA",
    "methods.swag": "SWAG",
    "methods.swalp": "SWALP",
    "methods.tempering": "Tempering",
    "optimizers": "SGD SOAP Adam Lion Optimizer Training",
    "plan.describe": "Description describe",
    "plan.plan": "Plan",
    "plan.planner": "Planned plan_for",
    "posterior.diagnose": "Diagnosis",
    "posterior.load": "load",
    "posterior.posterior": "Posterior",
    "posterior.prediction": "Prediction",
    "prior": "Prior by_path fan_in",
    "problem": "Problem",
    "run.callbacks": "Progress RoundInfo",
    "run.programs": "cache_programs",
    "run.runners": "Devices Local Ray Runner",
    "run.sample": "sample sample_many",
    "run.store": "DiskStore MemoryStore Store",
    "walks": "Autoregressive GuidedWalk Hamiltonian Independent RandomWalk Rotation Walk WalkInfo WalkState",
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
