"""What can be done with a stored run without the network that made it: look, verify, thin, merge, prune."""

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchorwalk import checks
from anchorwalk.errors import Status, StoreDamaged
from anchorwalk.files import Damaged
from anchorwalk.run.store import beside, folders
from anchorwalk.run.store.base import check_same
from anchorwalk.run.store.lock import LOCK, Lock
from anchorwalk.run.store.log import LOG, losses
from anchorwalk.run.store.manifest import COPY, NAME, Manifest, Part, check_counts, parse, read, understood
from anchorwalk.run.store.reader import Reader
from anchorwalk.run.store.writer import LARGE, MERGED, alike, joined, put_members, sweep

DAMAGED = ".damaged"  # behind the name of a file that `prune` took out of its run


class Summary(NamedTuple):
    """A run at a glance."""

    task: str  # likelihood, parameters and rows
    members: int  # that are there
    planned: int  # members of the plan, of the chains that run here
    epochs: int  # that are done
    epochs_planned: int
    seconds_left: float | None  # an estimate from the time of the members so far; None where that is not known
    diverged: int  # members that are not finite
    bytes: int  # of all files
    damaged: int  # files that are missing or not whole, those of the run as far as sizes and headers tell
    losses: int  # workers that died with a call of the run
    given_up: tuple[int, ...]  # chains that were given up for that, and have not continued since


def find(folder: Path) -> list[Path]:
    """All runs in a folder and those below it, and folders that were not finished, in order."""
    found = []
    for path, inside, names in os.walk(folder):
        if {NAME, COPY} & {*inside, *names} or path.endswith(folders.UNFINISHED):
            found.append(Path(path))
    return sorted(found)


def summarize(folder: Path) -> Summary:
    """The summary of a run; no more than the headers of its members' files are read."""
    reader = _opened(folder, verify=False)
    about, derived = reader.manifest.about, reader.manifest.about.get("derived")
    with understood(folder):
        plan = about["plan"]
        infos = [info for info in reader.infos.values() if info.index < plan["members"]]
        epochs = sum(_passes(plan, done.calls) for done in reader.progress().values())
        epochs_planned = len(plan["selected"]) * _passes(plan, sum(count for _, _, _, count in plan["calls"]))
        size = sum(int(np.prod(leaf["shape"], dtype=object)) for leaf in about["leaves"])
        noise = any(leaf["name"] == "params/noise" for leaf in about["leaves"])
        task = f"{_targets(about['likelihood']['name'], noise)}, {size:,} parameters, {about['rows']:,} rows"
    spent = sum(info.seconds for info in infos)
    left = spent / epochs * max(0, epochs_planned - epochs) if epochs and not derived else math.nan
    lost = losses(folder, {chain: done.calls for chain, done in reader.progress().items()})
    return Summary(
        task=task,
        members=len(infos),
        planned=len(infos) if derived else len(plan["selected"]) * plan["members"],
        epochs=round(epochs),
        epochs_planned=round(epochs if derived else epochs_planned),
        seconds_left=left if math.isfinite(left) else None,
        diverged=sum(info.status != Status.OK for info in infos),
        bytes=sum(part.bytes for part in reader.manifest.parts),
        damaged=len(reader.damaged) + len(beside.damaged(folder, reader.manifest)) + bool(lost.damaged),
        losses=lost.workers,
        given_up=lost.given_up,
    )


def _targets(likelihood: str, noise: bool) -> str:
    """A likelihood in words; with `noise` as a parameter, as the estimators learn it, it is the same everywhere."""
    if likelihood == "HeteroscedasticNormal":
        return f"normal, {'constant' if noise else 'varying'} noise"
    return likelihood


def _passes(plan: Mapping[str, Any], calls: int) -> float:
    """Passes over the data of a chain's first calls."""
    total = 0.0
    for _, _, passes, count in plan["calls"]:
        total += float(passes) * min(count, calls)
        calls -= min(count, calls)
    return total


def verify(folder: Path) -> dict[str, str]:
    """Read every file of a run and compare its checksum: files that are not whole, and why."""
    reader = _opened(folder, verify=True)
    return {**_damaged_manifests(folder), **reader.damaged, **_damaged_others(folder, reader.manifest)}


def _damaged_manifests(folder: Path) -> dict[str, str]:
    """Which of the manifest and its copy is missing or not whole; one at least is."""
    found = {}
    for name in (NAME, COPY):
        try:
            parse(folder / name)
        except Damaged as reason:
            found[name] = str(reason)
    return found


def _damaged_others(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Files beside a run and its log that are not whole, and why."""
    reason = losses(folder, {}).damaged
    return {**beside.damaged(folder, manifest), **({LOG: reason} if reason else {})}


def thin(folder: Path, out: Path, every: int) -> int:
    """Copy every `every`-th member of each chain, the first included; members keep their numbers. Returns how many.

    The copy can be loaded but not resumed: it has no chain states.
    """
    checks.count("thin(every=)", every)
    store = _opened(folder, verify=True)
    _refuse_damage(store)
    places = sorted(place for place in store.infos if place[1] % every == 0)
    derived = {"every": every, "complete": store.complete()}
    manifest = replace(store.manifest, about={**store.manifest.about, "derived": derived}, beside=())
    with folders.new(out) as (new, _):
        manifest.with_parts(_rewritten(store, new, places, every), ()).write(new)
    return len(places)


def merge(runs: Sequence[Path], out: Path) -> int:
    """Put chains of one plan, run in different places, into one run that can be resumed. Returns how many members."""
    if len(runs) < 2:
        checks.reject("merge", f"{len(runs)} run", "two or more", "Name every run that holds chains of the plan.")
    stores = [_opened(folder, verify=True) for folder in runs]
    merged, owner = stores[0].manifest, dict[int, Path]()
    for folder, store in zip(runs, stores, strict=True):
        _refuse_damage(store)
        if store.manifest.about.get("derived"):
            checks.reject("merge", f"{str(folder)!r}, a thinned run", "whole runs", "Merge first, then thin.")
        check_same(merged.header, store.manifest.header, f"{str(folder)!r}, beside {str(runs[0])!r},")
        for name in ("leaves", "stored_as", "likelihood"):
            if merged.about.get(name) != store.manifest.about.get(name):
                checks.reject("merge", f"runs that differ in {name!r}", "runs of one plan", "Merge runs of one plan.")
        for chain in store.progress():
            if chain in owner:
                given = f"chain {chain} in {str(owner[chain])!r} and in {str(folder)!r}"
                checks.reject("merge", given, "each chain once", "Leave one of the two out.")
            owner[chain] = folder
        if store is not stores[0]:
            merged = _merged(merged, store.manifest)
    with folders.new(out) as (new, _):
        for run, store in zip(runs, stores, strict=True):
            folders.copy_files(run, store.manifest, new)
        merged.write(new)
    return sum(part.size for part in merged.members)


def prune(folder: Path, states: bool = False) -> list[str]:
    """Take damaged files out of a run, and leftovers of killed processes out of its folder; say in words what was done.

    What was damaged is kept beside the run under another name. The rest loads without a warning and, where the last
    states of its chains are whole, resumes. With `states` these are removed too: the run is smaller, and at its end.
    """
    lock = Lock(folder / LOCK)
    _manifest(folder)  # nothing is made in a folder without a run
    lock.acquire()
    try:
        broken = _damaged_manifests(folder)
        store = _opened(folder, verify=True)
        manifest, actions = store.manifest, [f"{name}: {reason}; written anew" for name, reason in broken.items()]
        other = _damaged_others(folder, manifest)
        whole = [part for part in manifest.members if part.file not in store.damaged]
        kept = manifest.with_parts(whole, [s for s in manifest.states if s.file not in store.damaged and not states])
        kept = replace(kept, beside=tuple(one for one in manifest.beside if one.file not in other))
        actions += [
            f"{name}: {reason}; left out{'' if name == LOG else ', save again'}" for name, reason in other.items()
        ]
        for name, reason in store.damaged.items():
            lost = sum(part.size for part in manifest.members if part.file == name)
            actions.append(f"{name}: {reason}; {f'{lost} members' if lost else 'chain states'} left out")
        if states and manifest.states:
            actions.append(f"chain states removed, {sum(part.bytes for part in manifest.states):,} bytes")
        lock.check()
        for name in other:
            with suppress(FileNotFoundError):
                (folder / name).rename(folder / (name + DAMAGED))
        if store.damaged or broken:  # what is not listed may be all that is left of something
            for path in sorted(folder.glob("*.safetensors")):
                if path.name not in kept.files and not (states and path.name.startswith("state-")):
                    path.rename(folder / (path.name + DAMAGED))
        if actions:
            kept.write(folder)
        return actions + [f"{name}: a leftover, removed" for name in sweep(folder, kept.files)]
    finally:
        lock.release()


def _opened(folder: Path, verify: bool) -> Reader:
    manifest = _manifest(folder)
    with understood(folder):
        plan = manifest.about["plan"]
        check_counts([plan["members"], manifest.about["rows"], *plan["selected"]])
        for _, draws, passes, count in plan["calls"]:
            check_counts([draws, count, math.floor(float(passes))])
        str(manifest.about["likelihood"]["name"]).encode()
        return Reader(folder, manifest, None, verify, states=True)


def _manifest(folder: Path) -> Manifest:
    folders.refuse_unfinished(folder)
    manifest = read(folder)
    if manifest is None:
        checks.reject("run", repr(str(folder)), "the folder of a run, with run.json", "`anchorwalk runs` lists them.")
    return manifest


def _refuse_damage(store: Reader) -> None:
    for name, reason in store.damaged.items():
        raise StoreDamaged(
            f"the file {store.folder / name} is damaged: {reason}. Bring it back from a copy, or take it out of its "
            f"run with `anchorwalk prune {store.folder}` first."
        )


def _merged(one: Manifest, other: Manifest) -> Manifest:
    """Two manifests as one; the larger plan counts."""
    plan, further = one.about["plan"], other.about["plan"]
    larger = max(plan, further, key=lambda p: (p["members"], p["chains"]))
    both = {
        **larger,
        "chains": max(plan["chains"], further["chains"]),
        "selected": sorted({*plan["selected"], *further["selected"]}),
    }
    stretches = [stretch for stretch in other.environments if stretch not in one.environments]
    return Manifest(
        header={**other.header, **one.header},
        about={**one.about, "plan": both},
        environments=(*one.environments, *stretches),
        members=one.members + other.members,
        states=one.states + other.states,
        failed=tuple(sorted({*one.failed, *other.failed})),
    )


def _rewritten(store: Reader, out: Path, places: list[tuple[int, int]], every: int) -> Iterator[Part]:
    """Write members anew, those that follow each other in one file."""
    pieces: list[dict[str, Any]] = []
    chain = first = 0
    for place in places:
        new = store.raw(*place)
        size = sum(tensor.nbytes for piece in pieces for tensor in piece.values())
        fits = place == (chain, first + len(pieces) * every) and len(pieces) < MERGED and size < LARGE
        if pieces and not (fits and alike(new, pieces[0])):
            yield put_members(out, joined(pieces), (chain,), first, every)
            pieces = []
        if not pieces:
            chain, first = place
        pieces.append(new)
    if pieces:
        yield put_members(out, joined(pieces), (chain,), first, every)
