"""Estimators on disk: a run of the store, and beside it what the estimator knows, as JSON."""

import json
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, files
from anchorwalk.errors import StoreDamaged
from anchorwalk.integrations.sklearn.encoding import Encoder
from anchorwalk.methods.base import Draws
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.load import load as load_run
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.prior import Prior
from anchorwalk.run.store import DiskStore, MemoryStore, Round
from anchorwalk.run.store.lock import LOCK
from anchorwalk.serial import from_json

NAME = "estimator.json"
FORMAT = 2
PLAIN = str | int | float | bool | None
CLASS_KINDS = "biufU"
"""Kinds of NumPy arrays that classes may have: truth values, numbers, text."""


def save(estimator: Any, folder: Path) -> None:
    """Write the members, where they are not there yet, and then the estimator.

    Raises:
        InvalidInput: A prior or classes that have no JSON form, or a folder with something else in it.
    """
    about = _form(estimator)
    store = estimator._store
    if not (isinstance(store, DiskStore) and store.folder.resolve() == folder.resolve()):
        target = DiskStore(folder)
        if target.header():
            given = f"{str(folder)!r} with a run in it"
            checks.reject("save", given, "a new folder", "Choose another: nothing is overwritten.")
        if isinstance(store, DiskStore):
            shutil.copytree(store.folder, folder, ignore=shutil.ignore_patterns(LOCK, NAME), dirs_exist_ok=True)
        else:
            store.copy_to(target)
    files.write(folder / NAME, json.dumps(about, indent=1).encode())


def in_memory(posterior: Posterior) -> MemoryStore:
    """The members of a posterior in memory, to predict with; its chains cannot go on from there."""
    found = MemoryStore()
    for info in posterior.infos:
        member = posterior[info.chain, info.index]
        params, trace = jax.tree.map(lambda leaf: np.asarray(leaf)[None, None], (member.params, member.trace))
        values = {name: np.full((1, 1), value) for name, value in info.values.items()}
        draws = Draws(params, trace, np.full((1, 1), info.good), values)
        status = np.full((1, 1), info.status)
        found.commit(Round((info.chain,), info.index, "copy", 0, info.index, draws, status, info.seconds, ()))
    return found


def load(cls: type, folder: Path, network: Any) -> Any:
    """A saved estimator.

    Raises:
        InvalidInput: No saved estimator, one of another kind or format, or a network that is missing or not wanted.
        StoreDamaged: An estimator.json that cannot be read.
    """
    try:
        about = json.loads((folder / NAME).read_bytes())
        kind, params, form = str(about["estimator"]), dict(about["params"]), about["format"]
    except FileNotFoundError:
        remedy = "Pass the folder that save() wrote."
        checks.reject("load", f"{str(folder)!r} without {NAME}", "a saved estimator", remedy)
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    if form != FORMAT:
        checks.reject("load", f"{NAME} of format {form}", f"format {FORMAT}", "Load it with the version that wrote it.")
    if kind != cls.__name__:
        checks.reject("load", f"a saved {kind}", f"a {cls.__name__}", f"Call {kind}.load.")
    if about["own_network"] != (network is not None):
        given = "none" if network is None else "a network"
        expected = "the network that it was fitted with" if network is None else "none: it has the default network"
        checks.reject("load(network=)", given, expected, "Code is not stored, so it is passed again.")
    try:
        if isinstance(params.get("class_weight"), list):
            params["class_weight"] = dict(params["class_weight"])
        params |= {name: tuple(value) for name, value in params.items() if isinstance(value, list)}
        estimator = cls(**{**params, "network": network})
        _restore(estimator, about["fitted"])
        apply = estimator._network().apply
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    estimator._store, estimator._frozen = DiskStore(folder), False
    estimator.posterior_ = load_run(folder, apply)
    return estimator


def _form(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    if isinstance(params["prior"], Prior):
        remedy = "Pass one number, or keep the members alone with posterior_ and anchorwalk's own store."
        checks.reject("save", "an estimator with a Prior", "prior=None or a number, which have a JSON form", remedy)
    own = params.pop("network") is not None
    if not isinstance(params["random_state"], PLAIN):
        params["random_state"] = None  # the seed that was drawn from it is kept
    params["store"] = None
    if params.get("quantiles") is not None:
        params["quantiles"] = np.asarray(params["quantiles"], np.float64).tolist()
    if isinstance(params.get("class_weight"), dict):  # pairs, since JSON has texts alone as names
        pairs = params["class_weight"].items()
        params["class_weight"] = [
            [name.item() if isinstance(name, np.generic) else name, float(weight)] for name, weight in pairs
        ]
    fitted: dict[str, Any] = {
        "seed": estimator._seed,
        "features": estimator.n_features_in_,
        "plan": estimator.plan_.to_json(),
        "scaling": _scaling(estimator.scaling_),
    }
    if estimator.encoder_ is not None:
        fitted["encoder"] = estimator.encoder_.to_json()
    if hasattr(estimator, "feature_names_in_"):
        fitted["feature_names"] = estimator.feature_names_in_.tolist()
    if hasattr(estimator, "classes_"):
        fitted["classes"] = _classes(estimator.classes_)
    else:
        fitted["target_scaling"] = _scaling(estimator.target_scaling_)
        fitted["target_shape"] = list(estimator._target_shape)
    return {
        "format": FORMAT,
        "version": version("anchorwalk"),
        "estimator": type(estimator).__name__,
        "params": {**params, "hidden": list(params["hidden"])},
        "own_network": own,
        "fitted": fitted,
    }


def _restore(estimator: Any, fitted: dict[str, Any]) -> None:
    from anchorwalk.integrations.sklearn.base import Scaling

    def scaling(form: dict[str, Any]) -> Scaling:
        return Scaling(np.asarray(form["mean"], np.float64), np.asarray(form["scale"], np.float64))

    estimator._seed = int(fitted["seed"])
    estimator.n_features_in_ = int(fitted["features"])
    plan = fitted["plan"]
    estimator.plan_ = Plan(from_json(plan["method"]), plan["chains"], plan["members"])
    estimator.n_iter_ = estimator.plan_.epochs
    estimator.scaling_ = scaling(fitted["scaling"])
    estimator.encoder_ = Encoder.from_json(fitted["encoder"]) if "encoder" in fitted else None
    if "feature_names" in fitted:
        estimator.feature_names_in_ = np.array(fitted["feature_names"], dtype=object)
    if "classes" in fitted:
        estimator.classes_ = np.array(fitted["classes"]["values"], dtype=fitted["classes"]["dtype"])
    else:
        estimator.target_scaling_ = scaling(fitted["target_scaling"])
        estimator._target_shape = tuple(fitted["target_shape"])


def _scaling(scaling: Any) -> dict[str, Any]:
    return {"mean": scaling.mean.tolist(), "scale": scaling.scale.tolist()}


def _classes(classes: Any) -> dict[str, Any]:
    if classes.dtype.kind == "O":
        values = classes.tolist()
        if not all(type(value) is type(values[0]) and isinstance(value, str | int | float) for value in values):
            checks.reject("save", "classes of mixed kinds", "text, or numbers, alone", "Use text for all classes.")
        return {"dtype": "O", "values": values}
    if classes.dtype.kind not in CLASS_KINDS:
        checks.reject("save", f"classes of type {classes.dtype}", "text, numbers or truth values", "Use text.")
    return {"dtype": classes.dtype.str, "values": classes.tolist()}
