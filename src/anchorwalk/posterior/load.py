"""A stored run, opened again: without its training data, on any machine."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.errors import DamagedWarning, OtherNetworkWarning, warn
from anchorwalk.likelihoods import Likelihood
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.store import DiskStore, fingerprint, folders, serialise
from anchorwalk.run.store.manifest import read, understood
from anchorwalk.run.store.tensors import MOST_AXES
from anchorwalk.serial import DTYPES
from anchorwalk.types import Apply, Init, Params


def load(
    folder: str | PathLike[str],
    apply: Apply,
    init: Init | None = None,
    *,
    likelihood: Likelihood | None = None,
    verify: bool = True,
) -> Posterior:
    """The posterior of a stored run.

    Members stay on disk and are read one at a time. A warning names missing and damaged files, whose members are left
    out. A run that is still being written gives the members so far.

    Args:
        folder: The run's folder, as it was given to `sample(store=)`.
        apply: The network that the run was made with.
        init: For parameters in other trees than dictionaries, lists and tuples: the network's `init`, which
            gives back their structure (it is only traced).
        likelihood: For a likelihood that is not one of this package; its `to_json`, if any, must give what was stored.
        verify: Whether to compare the checksums of all files now. Else sizes and headers are compared now, and each
            checksum when its file is first read.

    Returns:
        The members, in the order (chain, member).

    Raises:
        InvalidInput: No run, a run of another version, or a network that does not fit.
        StoreDamaged: A run without a readable manifest.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp, tempfile
        >>> x, init, apply = jnp.linspace(-1.0, 1.0, 32), lambda key: jnp.zeros(()), lambda w, x: w * x
        >>> problem = aw.Problem(init, apply, aw.Normal(scale=0.5), aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.5), epochs=50, batch_size=32)), chains=2)
        >>> folder = tempfile.mkdtemp()
        >>> _ = aw.sample(jax.random.key(0), problem, plan, store=folder, callbacks=[])
        >>> aw.load(folder, apply)
        Posterior(2 members in 2 chains)
    """
    path = Path(folder)
    if not path.is_dir():
        checks.reject("load", repr(str(folder)), "the folder of a run", "Pass what sample(store=) was given.")
    if not callable(apply):
        checks.reject("load(apply=)", repr(apply), "the network's function", "Pass apply, as in Problem(apply=).")
    folders.refuse_unfinished(path)
    manifest = read(path)
    if manifest is None:
        checks.reject("load", f"{str(folder)!r} without run.json", "the folder of a run", "Is it another folder?")
    store = DiskStore(path)
    with understood(path):
        like = _params(manifest.about, init)
        likelihood = _likelihood(manifest.about, likelihood)
        x = _inputs(manifest.about.get("inputs"))
        reader = store.open(like, manifest, verify)
        manifest, damaged, complete = reader.manifest, reader.damaged, reader.complete() and not reader.damaged
        members = manifest.about["plan"]["members"]
    if damaged:
        details = "; ".join(f"{name}: {reason}" for name, reason in damaged.items())
        lost = sum(part.size for part in manifest.members if part.file in damaged)
        warn(f"{lost} members of {path} are left out, their files are damaged: {details}", DamagedWarning)
    if x is not None:
        same_jax = manifest.environments and manifest.environments[-1].get("version of jax") == jax.__version__
        _check_network(apply, like, x, manifest.header.get("network", "") if same_jax else "")
    infos = tuple(info for info in store.infos() if info.index < members)  # a last call may make more than these
    return Posterior(store, apply, likelihood, infos, manifest.header, complete, manifest.failed)


def _params(about: Mapping[str, Any], init: Init | None) -> Params:
    """Shapes and dtypes of the parameters, in their tree."""
    leaves = [_array(leaf["shape"], serialise.dtype_of(leaf["dtype"])) for leaf in about["leaves"]]
    if init is None:
        if about["tree"] is None:
            expected = "init=, the network's own: its parameters are not only dictionaries, lists and tuples"
            checks.reject("load(init=)", None, expected, "Pass init, as in Problem(init=).")
        return serialise.tree_from_json(about["tree"], leaves)
    like = jax.eval_shape(init, jax.random.key(0))
    found = serialise.leaves_to_json(like)
    if found != about["leaves"]:
        expected = f"those of the run, {_described(about['leaves'])}"
        checks.reject("load(init=)", f"parameters {_described(found)}", expected, "Pass the run's own init.")
    return like


def _array(shape: Any, dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(tuple(checks.count("shape", n, least=0) for n in shape), dtype)  # type: ignore[no-untyped-call]


def _described(leaves: list[dict[str, Any]]) -> str:
    return ", ".join(f"{leaf['name']} {leaf['dtype']}{tuple(leaf['shape'])}" for leaf in leaves)


def _likelihood(about: Mapping[str, Any], given: Likelihood | None) -> Likelihood:
    described = about["likelihood"]
    name, stored = described["name"], serialise.likelihood_from_json(described)
    if given is None:
        if stored is None:
            checks.reject("load(likelihood=)", None, f"the run's own likelihood, {name}", "Pass likelihood=.")
        return stored
    checks.instance("load(likelihood=)", given, Likelihood, "the likelihood of the run")
    checks.pytree("load(likelihood=)", given, "a likelihood")
    found = serialise.likelihood_to_json(given)
    if any(found.get(key) != value for key, value in described.items()):
        own = f"the run's own, {stored or described.get('own', name)}"
        remedy = "Pass the one that the run was made with." if stored is None else "Leave it out."
        checks.reject("load(likelihood=)", found.get("own", repr(given)), own, remedy)
    return given


def _inputs(encoded: Any) -> Any:
    """One row of inputs, as shapes and dtypes; None where their tree is not known, and predict will tell."""
    if not encoded or encoded["tree"] is None:
        return None
    rows = []
    for leaf in encoded["leaves"]:
        if not DTYPES.fullmatch(leaf["dtype"]) or len(leaf["shape"]) > MOST_AXES:
            raise ValueError(f"inputs of type {leaf['dtype']!r}")
        rows.append(_array((1, *leaf["shape"]), jnp.dtype(leaf["dtype"])))
    return serialise.tree_from_json(encoded["tree"], rows)


def _check_network(apply: Apply, like: Params, x: Any, fingerprints: str) -> None:
    """Whether `apply` takes these parameters, and computes what the run's did, as far as can be seen."""
    try:
        jax.eval_shape(apply, like, x)
        found = fingerprint.of_function(apply, like, x) if fingerprints else ""
    except Exception as error:
        described = ", ".join(f"{leaf.dtype}{leaf.shape}" for leaf in jax.tree.leaves(x))
        given = f"a network that fails on the run's parameters and inputs {described} ({type(error).__name__}: {error})"
        checks.reject("load(apply=)", given, "the network that the run was made with", "Pass its apply.")
    if not fingerprints.endswith(found):
        warn(
            "the network's program is not the one that the run was made with; where it computes something else, "
            "predictions are wrong",
            OtherNetworkWarning,
        )
