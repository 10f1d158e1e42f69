"""What a run says of itself: method, plan, network, prior, walk, time."""

import ast
import re
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
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.store import DiskStore, MemoryStore
from anchorwalk.walks import Autoregressive, GuidedWalk, Hamiltonian, Independent, RandomWalk, Rotation
from anchorwalk.walks.base import Walk

WALKS: dict[str, Any] = {
    cls.__name__: cls for cls in (Autoregressive, GuidedWalk, Hamiltonian, Independent, RandomWalk, Rotation)
}
NO_WALK = "AtMean"
"""What stands in the walk's place for methods without anchors."""
Facts = list[tuple[str, str]]


@dataclass(frozen=True)
class Run:
    """What is known of a run.

    Attributes:
        method: The method's name.
        chains: Number of chains.
        longest: Members of the longest chain, left out ones and those between thinned ones included.
        first: Epochs of a first training.
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


def read(posterior: Posterior, walk: Walk | None = None) -> Run:
    """Gather what the run's settings, its manifest and its members tell.

    Args:
        posterior: Of one member at least.
        walk: The run's walk, where its settings do not tell.
    """
    about, environments = _manifest(posterior)
    settings = posterior.settings
    text = re.sub(r" [0-9a-f]{16}$", "", settings.get("walk", ""))
    walk = parse_walk(text) if walk is None else walk
    text = text or ("" if walk is None else repr(walk))
    chains = sorted({int(info.chain) for info in posterior.infos})  # type: ignore[arg-type]
    longest = 1 + max(int(info.index) for info in posterior.infos)  # type: ignore[arg-type]
    first, then = (_epochs(posterior, later) for later in (False, True))
    method = _method(text, longest, len(posterior.infos))
    example = next(iter(posterior)).params
    plan = f"{count(len(chains), 'chain')} of {count(longest, 'member')}"
    epochs = len(chains) * (first + (longest - 1) * then)
    facts = [
        ("Method", method),
        ("Members", f"{len(posterior):,} ({plan})"),
        ("Epochs", f"{epochs:,} ({first:,} for a first member" + (f", {then:,} for a later one)" if then else ")")),
        ("First training", settings.get("first", "")),
        ("Later trainings", settings.get("then", "") if longest > 1 else ""),
        ("Network", f"{tree.size(example):,} parameters in {count(len(jax.tree.leaves(example)), 'array')}"),
        ("Likelihood", repr(posterior.likelihood)),
        ("Prior", _prior(about.get("prior"))),
        ("Walk", "none" if text.startswith(NO_WALK) else text),
        ("Perturbed targets", {"True": "yes", "False": "no"}.get(settings.get("perturb_targets", ""), "")),
        ("Training rows", f"{about['rows']:,}" if isinstance(about.get("rows"), int) else ""),
        ("Runner", settings.get("runner", "")),
        ("Training time", duration(float(np.sum([info.seconds for info in posterior.infos])))),
        ("Versions", _versions(environments)),
        ("Run", _written(posterior)),
    ]
    return Run(
        method, len(chains), longest, first, then, walk, [fact for fact in facts if fact[1]], _remarks(posterior)
    )


def parse_walk(text: str) -> Walk | None:
    """One of this package's walks from its text, or None; nothing of the text is run.

    Example:
        >>> parse_walk("GuidedWalk(step_size=0.1)")
        GuidedWalk(step_size=0.1)
        >>> parse_walk("open('file')")
    """
    found = re.fullmatch(r"(\w+)\(([\w.=, +-]*)\)", text)
    if found is None or found[1] not in WALKS:
        return None
    try:
        pairs = [part.split("=") for part in found[2].split(",") if part.strip()]
        return WALKS[found[1]](**{name.strip(): ast.literal_eval(value.strip()) for name, value in pairs})  # type: ignore[no-any-return]
    except (ValueError, TypeError, SyntaxError):  # a text that is not quite what a walk writes
        return None


def _method(walk: str, longest: int, members: int) -> str:
    if walk.startswith(NO_WALK):
        return "Maximum a posteriori estimate" if members == 1 else "Deep ensemble, without anchors"
    return "Anchored ensemble" if longest == 1 else "Sequential anchored ensemble"


def _epochs(posterior: Posterior, later: bool) -> int:
    for info in posterior.infos:
        if (info.index > 0) == later:  # type: ignore[operator]
            return len(posterior[int(info.chain), int(info.index)].losses)  # type: ignore[arg-type]
    return 0


def _manifest(posterior: Posterior) -> tuple[Mapping[str, Any], tuple[Mapping[str, Any], ...]]:
    store = posterior._store
    if isinstance(store, DiskStore):
        return store.manifest.about, store.manifest.environments
    return (store._about if isinstance(store, MemoryStore) else {}), ()


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
        by_chain = Counter(int(info.chain) for info in posterior.infos if info.status)  # type: ignore[arg-type]
        where = f"chain {next(iter(by_chain))}" if len(by_chain) == 1 else f"{len(by_chain)} chains"
        remarks.append(
            f"{posterior.diverged:,} of {count(len(posterior.infos), 'member')} did not stay finite (in {where}) and "
            "are left out. That is a selection: anchors whose training diverges are not represented."
        )
    if not posterior.complete:
        remarks.append("The run was ended before its plan was done; the report shows the members so far.")
    return remarks
