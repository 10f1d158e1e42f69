"""A posterior as ArviZ takes it: chains and draws as axes, in its groups.

ArviZ before 1.0 has a class of its own for that, `InferenceData`; since 1.0 it is xarray's `DataTree`.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.likelihoods import ClassLikelihood, Likelihood
from anchorwalk.methods.base import MemberInfo
from anchorwalk.posterior.diagnose import Rectangle, rectangle
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.types import Array, HostArray, Inputs, Key

Group = Mapping[str, tuple[tuple[str, ...], HostArray]]
"""Variables of a group: the names of their axes, and their values."""
ARVIZ = {"acceptance": "acceptance_rate", "log_density": "lp", "divergent": "diverging"}
"""What a method says of its members that has a name of ArviZ's own; the rest keeps its name."""
PLAN = ("method", "first", "then", "training")
"""Settings that belong to the plan."""


def to_arviz(
    posterior: Posterior, x: Inputs, y: Any = None, *, key: Key | None = None, batch_size: int | None = None
) -> Any:
    """A posterior's members, predictions and log-likelihoods for ArviZ.

    | group | variables |
    |---|---|
    | `posterior` | `norm` and `average` of each leaf of the parameters (axis `leaf`), not the parameters |
    | `posterior_predictive`, without y `predictions` | `y`, a draw of each member; `mean`, `std` or `probability` |
    | `log_likelihood` | `y`, for each row, where y is given |
    | `sample_stats` | what the method says of each member, `seconds`, `diverging`, and the member's `index` |
    | `observed_data` | `y`, where it is given |

    Chains are made equally long as `posterior.diagnose` does it: diverged members are skipped, and those after them
    move up; good members beyond the common length are left out, and so are chains of less than half the
    longest one's members. `sample_stats.index` tells which member each draw is, and the attributes `diverged` and
    `unused` count what is left out.

    Args:
        posterior: From `sample` or `load`.
        x: Inputs as in training. Memory holds the predictions of all members on all rows.
        y: Their targets.
        key: Decides the noise of the draws; `jax.random.key(0)` unless given.
        batch_size: As in `posterior.predict`.

    Returns:
        `arviz.InferenceData` with ArviZ before 1.0, else `xarray.DataTree`.

    Raises:
        ImportError: Without ArviZ.
        InvalidInput: Inputs or targets that do not fit.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.5), epochs=50, batch_size=32)), chains=4)
        >>> posterior = aw.sample(jax.random.key(0), problem, plan, callbacks=[])
        >>> data = aw.to_arviz(posterior, x, 2 * x)  # doctest: +SKIP
        >>> data.log_likelihood["y"].shape  # doctest: +SKIP
        (4, 1, 32)
    """
    wrap = _library()
    if not isinstance(posterior, Posterior):
        checks.reject("to_arviz", type(posterior).__name__, "a Posterior", "Pass what sample or load returned.")
    if key is not None:
        checks.key("to_arviz(key=)", key)
    used = rectangle(posterior.infos)
    members = [info for chain in used.chains for info in chain]
    passes = posterior.passes("to_arviz", members, x, batch_size)
    targets = None
    if y is not None:
        outputs = next(iter(passes.outputs([0])))[1]
        targets = _targets(posterior.likelihood, outputs, y)
    draws_key = jax.random.key(0) if key is None else key
    found = [
        jax.device_get(_predict(posterior.likelihood, jax.random.fold_in(draws_key, i), outputs, targets))
        for i, outputs in passes.outputs()
    ]
    shape = len(used.chains), len(used.chains[0])
    groups = {
        "posterior": _summaries(posterior, members, shape),
        "posterior_predictive" if y is not None else "predictions": _predictive(posterior.likelihood, found, shape),
        "sample_stats": _statistics(members, shape),
    }
    if targets is not None:
        groups["log_likelihood"] = {"y": (("chain", "draw", "row"), _grid([one["log_prob"] for one in found], shape))}
        groups["observed_data"] = {"y": (("row", *_outputs(targets.ndim - 1)), targets)}
    coords = {
        "chain": np.array([chain[0].chain for chain in used.chains]),
        "draw": np.arange(shape[1]),
        "leaf": _leaves(posterior, members),
    }
    return wrap(groups, coords, _attributes(posterior, used))


def _library() -> Any:
    """What makes groups into the installed ArviZ's own kind of data."""
    try:
        newer = int(version("arviz").split(".")[0]) >= 1
        import xarray
    except (PackageNotFoundError, ImportError) as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'anchorwalk[arviz]'") from error

    def wrap(groups: Mapping[str, Group], coords: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
        datasets = {
            name: xarray.Dataset(dict(group), _coords(group, coords), attributes) for name, group in groups.items()
        }
        if newer:
            data = xarray.DataTree.from_dict(datasets)
            data.attrs.update(attributes)
            return data
        import arviz

        kind: Any = arviz.InferenceData
        return kind(attrs=dict(attributes), **datasets)

    return wrap


def _coords(group: Group, known: Mapping[str, Any]) -> dict[str, Any]:
    """Names along the axes of a group, or numbers where there are none."""
    sizes = {axis: size for axes, values in group.values() for axis, size in zip(axes, values.shape, strict=True)}
    return {axis: known.get(axis, np.arange(size)) for axis, size in sizes.items()}


def _targets(likelihood: Likelihood, outputs: Array, y: Any) -> HostArray:
    targets = np.asarray(y)
    checks.real("to_arviz(y=)", targets)
    checks.finite("to_arviz(y=)", targets, "Leave those rows out.")
    return likelihood.check(outputs, targets, "to_arviz(y=)")


@jax.jit
def _predict(likelihood: Likelihood, key: Key, outputs: Array, targets: Array | None) -> dict[str, Array]:
    found = {
        "y": likelihood.draw(key, outputs),
        "mean": likelihood.mean(outputs),
        "std": likelihood.variance(outputs) ** 0.5,
    }
    return found if targets is None else found | {"log_prob": likelihood.log_prob(outputs, targets)}


def _predictive(likelihood: Likelihood, found: Sequence[Mapping[str, HostArray]], shape: tuple[int, int]) -> Group:
    """Draws, means and standard deviations; for classes draws and probabilities."""
    draws, means = (_grid([one[name] for one in found], shape) for name in ("y", "mean"))
    rows = ("chain", "draw", "row")
    outputs = _outputs(draws.ndim - 3)
    group = {"y": ((*rows, *outputs), draws)}
    if isinstance(likelihood, ClassLikelihood):
        classes = ("class",) * (means.ndim - draws.ndim)  # none where there is one probability, of a 1
        return group | {"probability": ((*rows, *outputs, *classes), means)}
    stds = _grid([one["std"] for one in found], shape)
    return group | {"mean": ((*rows, *outputs), means), "std": ((*rows, *outputs), stds)}


def _outputs(axes: int) -> tuple[str, ...]:
    """Names of the axes of a target of several numbers."""
    return tuple(f"output_{axis}" for axis in range(axes))


def _summaries(posterior: Posterior, members: Sequence[MemberInfo], shape: tuple[int, int]) -> Group:
    """Euclidean norm and average of each leaf of the parameters."""
    norms, averages = [], []
    for params in _params(posterior, members):
        leaves = [np.asarray(leaf, np.float64) for leaf in jax.tree.leaves(params)]
        norms.append(np.array([np.sqrt(np.sum(leaf**2)) for leaf in leaves]))
        averages.append(np.array([np.mean(leaf) for leaf in leaves]))
    axes = ("chain", "draw", "leaf")
    return {"norm": (axes, _grid(norms, shape)), "average": (axes, _grid(averages, shape))}


def _params(posterior: Posterior, members: Sequence[MemberInfo]) -> Iterator[Any]:
    """Parameters of the members, in their order, which is the posterior's."""
    wanted = {(info.chain, info.index) for info in members}
    return (member.params for member in posterior if (member.info.chain, member.info.index) in wanted)


def _leaves(posterior: Posterior, members: Sequence[MemberInfo]) -> list[str]:
    names = [name for name, _ in tree.named_leaves(next(_params(posterior, members)))]
    return [name or "params" for name in names]


def _statistics(members: Sequence[MemberInfo], shape: tuple[int, int]) -> Group:
    said = {name for info in members for name in info.values}
    columns: dict[str, Any] = {ARVIZ.get(name, name): [info.value(name) for info in members] for name in sorted(said)}
    columns["seconds"] = [info.seconds for info in members]
    columns["index"] = [info.index for info in members]
    columns["diverging"] = [bool(info.values.get("divergent", False)) for info in members]
    return {name: (("chain", "draw"), _grid(values, shape)) for name, values in columns.items()}


def _grid(values: Sequence[Any], shape: tuple[int, int]) -> HostArray:
    stacked = np.stack([np.asarray(value) for value in values])
    return stacked.reshape(*shape, *stacked.shape[1:])


def _attributes(posterior: Posterior, used: Rectangle) -> dict[str, Any]:
    """Where the data come from, in kinds that every format can hold."""
    plan = {name: posterior.settings[name] for name in PLAN if name in posterior.settings}
    plan |= {"chains": str(len(used.chains)), "members": str(len(used.chains[0]))}
    return {
        "inference_library": "anchorwalk",
        "inference_library_version": version("anchorwalk"),
        "plan": json.dumps(plan),
        "walk": posterior.settings.get("walk", ""),
        "likelihood": repr(posterior.likelihood),
        "settings": json.dumps(dict(posterior.settings)),
        "complete": int(posterior.complete),
        "diverged": used.diverged,
        "unused": used.unused,
    }
