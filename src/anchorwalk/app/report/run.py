"""What a run says of itself: method, plan, network, prior, walk, time."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.app.report.formatting import count, duration, number
from anchorwalk.likelihoods import HeteroscedasticNormal, Likelihood
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.store import DiskStore
from anchorwalk.serial import from_json
from anchorwalk.walks.base import Walk

Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Run:
    """What is known of a run.

    Attributes:
        method: The method's name; empty where it is not known.
        chains: Number of chains.
        longest: Members of the longest chain, left out ones and those between thinned ones included.
        first: Epochs of a first training; 0 where members have no trace of their training.
        then: Epochs of a later one; 0 where there is none.
        walk: The walk, where it is known and there is one.
        facts: Names and values, to be read.
        remarks: Sentences on what is not as planned.
    """

    method: str
    chains: int
    longest: int
    first: int
    then: int
    walk: Walk | None
    facts: Facts
    remarks: list[str]


def read(posterior: Posterior, walk: Walk | None = None, target: str | None = None) -> Run:
    """Gather what the run's settings, its manifest and its members tell.

    Args:
        posterior: Of one member at least.
        target: What is predicted, where it is known.
        walk: The run's walk, where its settings do not tell.
    """
    about, settings = posterior.about, posterior.settings
    described: Mapping[str, Any] = about["method"] if isinstance(about.get("method"), dict) else {}
    walk = _walk(described) if walk is None else walk
    chains = sorted({info.chain for info in posterior.infos})
    longest = 1 + max(info.index for info in posterior.infos)
    first, then = (_epochs(posterior, later) for later in (False, True))
    method = str(described.get("title", ""))
    example = next(iter(posterior)).params
    plan = f"{count(len(chains), 'chain')} of {count(longest, 'member')}"
    epochs = len(chains) * (first + (longest - 1) * then)
    spent = f"{epochs:,} ({first:,} for a first member" + (f", {then:,} for a later one)" if then else ")")
    seconds = float(np.sum([info.seconds for info in posterior.infos]))
    facts = [
        ("Target", target or ""),
        ("Method", method),
        ("Members", f"{len(posterior):,} ({plan})"),
        ("Epochs", spent if first else _passes(about, len(chains))),
        ("First training", settings.get("first", settings.get("training", ""))),
        ("Later trainings", settings.get("then", "") if longest > 1 else ""),
        ("Network", f"{tree.size(example):,} parameters in {count(len(jax.tree.leaves(example)), 'array')}"),
        ("Likelihood", _likelihood(posterior.likelihood, example)),
        ("Prior", _prior(about.get("prior"))),
        ("Walk", repr(walk) if walk is not None else _other_walk(described)),
        ("Perturbed targets", _yes_or_no(settings.get("perturb_targets", ""))),
        ("Training rows", f"{about['rows']:,}" if isinstance(about.get("rows"), int) else ""),
        ("Blocks", _blocks(settings)),
        ("Training time", f"{duration(seconds)}, without compiling" if seconds else ""),
        ("Versions", _versions(_environments(posterior))),
        ("Run", _written(posterior)),
    ]
    return Run(
        method, len(chains), longest, first, then, walk, [fact for fact in facts if fact[1]], _remarks(posterior)
    )


def _likelihood(likelihood: Likelihood, params: Any) -> str:
    """A likelihood in words; with the noise as a parameter, as the estimators learn it, it is the same everywhere."""
    if not isinstance(likelihood, HeteroscedasticNormal):
        return repr(likelihood)
    constant = isinstance(params, Mapping) and "noise" in params
    return f"normal, with {'one standard deviation for all rows' if constant else 'a standard deviation for each row'}"


def _walk(method: Mapping[str, Any]) -> Walk | None:
    """The walk of a method's JSON, where it is one of this package's."""
    try:
        found = from_json(method["settings"]["walk"])
    except (KeyError, TypeError, ValueError, OverflowError):  # no walk, or a manifest of another hand
        return None
    return found if isinstance(found, Walk) else None


def _other_walk(method: Mapping[str, Any]) -> str:
    """The name of a walk that is not of this package."""
    try:
        return str(method["settings"]["walk"]["name"])
    except (KeyError, TypeError):
        return ""


def _epochs(posterior: Posterior, later: bool) -> int:
    for info in posterior.infos:
        if (info.index > 0) == later:
            trace = posterior[info.chain, info.index].trace
            return len(trace) if np.ndim(trace) == 1 else 0  # other methods may have others
    return 0


def _passes(about: Mapping[str, Any], chains: int) -> str:
    """What the plan's calls cost, for members without a trace; empty where it is not known."""
    try:
        calls = about["plan"]["calls"]
        cost = chains * sum(float(passes) * int(times) for _, _, passes, times in calls)
    except (KeyError, TypeError, ValueError, OverflowError):  # no run, or a manifest of another hand
        return ""
    return f"{cost:,.0f} in all, as passes over the training rows" if np.isfinite(cost) and cost > 0 else ""


def _environments(posterior: Posterior) -> tuple[Mapping[str, Any], ...]:
    store = posterior._store
    return store.manifest.environments if isinstance(store, DiskStore) else ()


def _yes_or_no(setting: str) -> str:
    return {"True": "yes", "False": "no"}.get(setting.split(" ")[0], "")


def _blocks(settings: Mapping[str, str]) -> str:
    """How chains were trained side by side."""
    if not {"lanes", "cores"} <= set(settings):
        return ""
    chains, cores = "chain" if settings["lanes"] == "1" else "chains", "core" if settings["cores"] == "one" else "cores"
    return f"{settings['lanes']} {chains} in a program, which may use {settings['cores']} {cores}"


def _prior(form: Any) -> str:
    """Scales and means of a prior in words; empty where they are not known."""
    try:
        scale, mean = (_range(form[part]) for part in ("scale", "mean"))
    except (KeyError, TypeError, ValueError, AttributeError):  # a manifest of another hand
        return ""
    return f"normal, standard deviation {scale}" + ("" if mean == "0" else f", mean {mean}")


def _range(leaves: Mapping[str, Any]) -> str:
    ends = [[leaf["min"], leaf["max"]] if isinstance(leaf, dict) else [leaf, leaf] for leaf in leaves.values()]
    low, high = (number(float(f(ends))) for f in (np.min, np.max))
    return low if low == high else f"{low} to {high}"


def _versions(environments: tuple[Mapping[str, Any], ...]) -> str:
    """Versions that the run ended with; of this process for a run in memory, which it made itself."""
    last = environments[-1] if environments else {f"version of {name}": version(name) for name in ("anchorwalk", "jax")}
    return ", ".join(f"{name} {last.get(f'version of {name}', '?')}" for name in ("anchorwalk", "jax"))


def _written(posterior: Posterior) -> str:
    store = posterior._store
    if not isinstance(store, DiskStore):
        return "in memory"
    try:
        when = datetime.fromtimestamp((store.folder / "run.json").stat().st_mtime, UTC)
    except OSError:
        return store.folder.name
    return f"{store.folder.name}, last written {when:%Y-%m-%d %H:%M} UTC"


def _remarks(posterior: Posterior) -> list[str]:
    remarks = []
    if posterior.diverged:
        by_chain = Counter(info.chain for info in posterior.infos if not info.good)
        where = f"chain {next(iter(by_chain))}" if len(by_chain) == 1 else f"{len(by_chain)} chains"
        remarks.append(
            f"{posterior.diverged:,} of {count(len(posterior.infos), 'member')} did not stay finite (in {where}) and "
            "are left out. That is a selection: anchors whose training diverges are not represented."
        )
    if posterior.failed:
        remarks.append(f"{count(len(posterior.failed), 'chain')} had no good first member and cannot be shown.")
    if not posterior.complete:
        remarks.append("The run was ended before its plan was done; the report shows the members so far.")
    return remarks
