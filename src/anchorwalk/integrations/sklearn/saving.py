"""Estimators on disk: a run of the store, and beside it what the estimator knows, as JSON."""

import json
import re
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, files
from anchorwalk.errors import StoreDamaged
from anchorwalk.integrations.sklearn import conformal, networks
from anchorwalk.integrations.sklearn.encoding import Encoder
from anchorwalk.integrations.sklearn.scaling import Scaling
from anchorwalk.methods.base import Draws
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.load import load as load_run
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.prior import Prior
from anchorwalk.run.store import DiskStore, MemoryStore, Round, beside, folders
from anchorwalk.run.store.base import check_same
from anchorwalk.run.store.manifest import NAME as RUN
from anchorwalk.run.store.manifest import read
from anchorwalk.run.store.serialise import leaves_to_json
from anchorwalk.serial import from_json

NAME = "estimator.json"
FORMAT = 4
PLAIN = str | int | float | bool | None
LISTS: dict[str, Any] = {"hidden": list, "quantiles": list | None, "class_weight": list | str | None}
"""Parameters that may be lists, and what they are in JSON."""
KINDS = {"number", "date", "moment", "one_hot", "target"}
"""What columns of a table may be."""
CLASS_KINDS = "biufU"
"""Kinds of NumPy arrays that classes may have: truth values, numbers, text."""
CLASS_DTYPE = re.compile(r"O|\|b1|[<>|]?[iuf][1248]|[<>]U(\d{1,9})")


def save(estimator: Any, folder: Path) -> None:
    """Write the members, where they are not there yet, and then the estimator.

    Raises:
        InvalidInput: A prior or classes that have no JSON form, a folder with something else in it, or no chains.
        StoreDamaged: The folder of the members has no run any more.
    """
    if estimator._frozen:
        given, remedy = (
            "an estimator unpickled without its chains",
            "Save the one that was pickled, or pickle this one.",
        )
        checks.reject("save", given, "one with its chains", remedy)
    encoded = _encoded(type(estimator), _form(estimator))
    store = estimator._store
    found = read(store.folder) if isinstance(store, DiskStore) else None
    if isinstance(store, DiskStore):
        if found is None:
            raise StoreDamaged(f"{store.folder}, which holds the members, has no {RUN} any more")
        check_same(found.header, estimator.posterior_.settings, f"the folder {store.folder}")
    _check_network(estimator)
    if isinstance(store, DiskStore) and store.folder.resolve() == folder.resolve():
        beside.write(folder, NAME, encoded)
        return
    if DiskStore(folder).header():
        checks.reject(
            "save", f"{str(folder)!r} with a run in it", "a new folder", "Choose another: nothing is overwritten."
        )
    with folders.new(folder) as (new, lock):
        if found is not None:
            folders.copy_files(store.folder, found, new)
            replace(found, beside=()).write(new)
        else:
            target = DiskStore(new)
            target._lock = lock
            store.copy_to(target)
        beside.write(new, NAME, encoded, lock)


def _check_network(estimator: Any) -> None:
    """Refuse members of another network than the parameters say now: `load` makes it from these."""
    posterior = estimator.posterior_
    if posterior.infos:
        members = posterior[posterior.infos[0][:2]].params
        like = jax.eval_shape(estimator._network().init, jax.random.key(0))
        if leaves_to_json(like) != leaves_to_json(members):
            given, remedy = "an estimator whose parameters were changed after its fit", "Set them back, or fit again."
            checks.reject("save", given, "those that it was fitted with", remedy)


def in_memory(posterior: Posterior) -> MemoryStore:
    """The members of a posterior in memory, to predict with; its chains cannot be continued."""
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
    folders.refuse_unfinished(folder)
    try:
        about = files.from_json(beside.read(folder, NAME))
        kind, params, form = str(about["estimator"]), dict(about["params"]), about["format"]
        own_network = about["own_network"]
    except files.Missing:
        remedy = "Pass the folder that save() wrote."
        checks.reject("load", f"{str(folder)!r} without {NAME}", "a saved estimator", remedy)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    if form != FORMAT:
        checks.reject("load", f"{NAME} of format {form}", f"format {FORMAT}", "Load it with the version that wrote it.")
    if kind != cls.__name__:
        checks.reject("load", f"a saved {kind}", f"a {cls.__name__}", f"Call {kind}.load.")
    if own_network != (network is not None):
        given = "none" if network is None else "a network"
        expected = "the network that it was fitted with" if network is None else "none: it has the default network"
        checks.reject("load(network=)", given, expected, "Code is not stored, so it is passed again.")
    try:
        estimator = cls(**_checked(cls, params), network=network)
        _restore(estimator, about["fitted"])
        apply = estimator._network().apply
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, IndexError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    estimator._store, estimator._frozen = DiskStore(folder), False
    estimator.posterior_ = load_run(folder, apply)
    return estimator


def _encoded(cls: type, form: dict[str, Any]) -> bytes:
    """JSON, with NumPy's numbers, which parameters may be, as plain ones; refused where `load` would refuse it."""

    def plain(value: Any) -> Any:
        if isinstance(value, np.generic):
            return value.item()
        raise TypeError(f"a {type(value).__name__}")

    try:
        form = {**form, "params": _listed(form["params"])}
        content = json.dumps(form, indent=1, allow_nan=False, default=plain).encode()
        _checked(cls, json.loads(content)["params"])
        return content
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "Use set_params(...) with such values, and save again."
        checks.reject("save", f"parameters that have no JSON form ({error})", "texts and finite numbers", remedy)


def _listed(params: dict[str, Any]) -> dict[str, Any]:
    """Parameters with lists for `LISTS`: class weights as pairs, since JSON has texts alone as names."""
    found = {**params, "hidden": list(params["hidden"])}
    if params.get("quantiles") is not None:
        found["quantiles"] = np.atleast_1d(np.asarray(params["quantiles"], np.float64)).tolist()
    if isinstance(params.get("class_weight"), dict):
        pairs = params["class_weight"].items()
        found["class_weight"] = [[name, checks.number("class_weight", weight)] for name, weight in pairs]
    return found


def _checked(cls: Any, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an estimator as they can have been written; ValueError for others."""
    from anchorwalk.integrations.sklearn.regressor import NOISES

    names = set(cls._get_param_names()) - {"network", "runner"}  # neither is stored
    if set(params) != names:
        raise ValueError(f"parameters {sorted(set(params) ^ names)} that are missing or not known")
    if params["store"] is not None:  # a later fit would write there
        raise ValueError("a store")
    if not all(isinstance(value, LISTS.get(name, PLAIN)) for name, value in params.items()):
        raise ValueError("a parameter that is no plain value, or not the list that it should be")
    if isinstance(params.get("noise"), str):
        checks.choice("noise", params["noise"], NOISES)
    elif "noise" in params:
        checks.positive("noise", params["noise"])
    if "calibrate" in params:
        checks.choice("calibrate", params["calibrate"], conformal.MODES)
    found = {**params, "hidden": tuple(checks.count("hidden", units) for units in params["hidden"])}
    weights = params.get("class_weight")
    if isinstance(weights, str):
        checks.choice("class_weight", weights, ("balanced",))
    elif weights is not None:
        found["class_weight"] = {name: checks.number("class_weight", weight) for name, weight in weights}
    if params.get("quantiles") is not None:
        found["quantiles"] = tuple(checks.within("quantiles", level, 0, 1) for level in params["quantiles"])
    return found


def _form(estimator: Any) -> dict[str, Any]:
    params = estimator.get_params(deep=False)
    if isinstance(params["prior"], Prior):
        remedy = "Pass one number, or keep the members alone with posterior_ and anchorwalk's own store."
        checks.reject("save", "an estimator with a Prior", "prior=None or a number, which have a JSON form", remedy)
    own = params.pop("network") is not None
    if not isinstance(params["random_state"], PLAIN):
        params["random_state"] = None  # the seed that was drawn from it is kept
    params["store"] = None
    params.pop("runner")  # a place, not a part of the model
    fitted: dict[str, Any] = {
        "seed": estimator._seed,
        "features": estimator.n_features_in_,
        "plan": estimator.plan_.to_json(),
        "prior": estimator._chosen,
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
        if (scores := estimator.calibration_scores_) is not None:  # JSON has no infinity
            finite: Any = np.where(np.isfinite(scores), scores, None)
            fitted["calibration_scores"] = finite.tolist()
    return {
        "format": FORMAT,
        "version": version("anchorwalk"),
        "estimator": type(estimator).__name__,
        "params": params,
        "own_network": own,
        "fitted": fitted,
    }


def _restore(estimator: Any, fitted: dict[str, Any]) -> None:
    estimator._seed = checks.count("seed", fitted["seed"], least=0)
    features = estimator.n_features_in_ = checks.count("features", fitted["features"])
    plan = fitted["plan"]
    estimator.plan_ = Plan(from_json(plan["method"]), plan["chains"], plan["members"])
    estimator.n_iter_ = estimator.plan_.epochs
    estimator._chosen = checks.count("prior", fitted["prior"], least=0)
    if estimator._chosen >= len(networks.SCALES):
        raise ValueError("a prior that is none of those to choose from")
    encoder = estimator.encoder_ = _encoder_from(fitted.get("encoder"), features, fitted.get("classes"))
    estimator.scaling_ = _scaling_from(fitted["scaling"], (features if encoder is None else len(encoder.names),))
    if "feature_names" in fitted:
        names = fitted["feature_names"]
        if not isinstance(names, list) or len(names) != features or not all(isinstance(name, str) for name in names):
            raise ValueError("names of features")
        if encoder is not None and names != [one.name for one in encoder.columns]:
            raise ValueError("names of features other than those of the columns")
        estimator.feature_names_in_ = np.array(names, dtype=object)
    if hasattr(estimator, "predict_proba"):
        estimator.classes_ = _classes_from(fitted["classes"])
    else:
        estimator._target_shape = tuple(checks.count("targets", size) for size in fitted["target_shape"])
        if len(estimator._target_shape) > 1:
            raise ValueError("targets of several axes")
        estimator.target_scaling_ = _scaling_from(fitted["target_scaling"], estimator._target_shape)
        estimator.calibration_scores_ = _scores_from(fitted.get("calibration_scores"), estimator._target_shape)


def _encoder_from(form: Any, columns: int, classes: Any) -> Encoder | None:
    """What makes numbers of so many columns; ValueError for another one, before it makes anything."""
    if form is None:
        return None
    kinds = {kind for _, kind, _ in form["columns"]}
    if len(form["columns"]) != columns or not kinds <= KINDS:
        raise ValueError("an encoding of other columns")
    if form["classes"] != (0 if classes is None else len(classes["values"])):
        raise ValueError("an encoding of other classes")
    found = Encoder.from_json(form)
    if found.to_json() != form:
        raise ValueError("an encoding that cannot have been learned")
    return found


def _scaling_from(form: dict[str, Any], shape: tuple[int, ...]) -> Scaling:
    mean, scale = (np.asarray(form[name], np.float64) for name in ("mean", "scale"))
    if not (mean.shape == scale.shape == shape and np.isfinite([mean, scale]).all() and (scale > 0).all()):
        raise ValueError("a scaling of other columns, or of numbers that are none")
    return Scaling(mean, scale)


def _classes_from(form: dict[str, Any]) -> Any:
    values, kind = form["values"], CLASS_DTYPE.fullmatch(form["dtype"])
    if kind is None or len(values) < 2 or int(kind[1] or 1) * len(values) > files.LONGEST:
        raise ValueError(f"classes of type {form['dtype']!r}")
    found = np.array(values, dtype=kind[0])
    if found.ndim != 1 or found.tolist() != values or not (found[:-1] < found[1:]).all():
        raise ValueError("classes that are not in order, or of another type")
    return found


def _scores_from(form: Any, shape: tuple[int, ...]) -> Any:
    if form is None:
        return None
    found = np.nan_to_num(np.asarray(form, np.float64), nan=np.inf)  # None becomes NaN
    fits = found.ndim > 0 and len(found) > 0 and found.shape[1:] == shape
    if not (fits and (found >= 0).all() and (np.sort(found, axis=0) == found).all()):
        raise ValueError("scores of other targets, or not in order")
    return found


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
