"""What can be done with a stored run without the network that made it: look, verify, thin, merge, prune."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from anchorwalk import checks, files
from anchorwalk.errors import Status, StoreDamaged
from anchorwalk.run.store.base import check_same
from anchorwalk.run.store.disk import LOCK
from anchorwalk.run.store.lock import Lock
from anchorwalk.run.store.manifest import (
    COPY,
    LARGEST,
    NAME,
    Manifest,
    OtherFormat,
    Part,
    calls_for,
    decode,
    members_file,
    read,
)
from anchorwalk.run.store.reader import MISSING, Reader
from anchorwalk.run.store.tensors import Damaged
from anchorwalk.run.store.writer import LARGE, MERGED, put, sweep

DAMAGED = ".damaged"
"""Behind the name of a file that `prune` took out of its run."""


class Summary(NamedTuple):
    """A run at a glance.

    Attributes:
        folder: Where it is.
        task: Likelihood, parameters and rows.
        members: Members that are there.
        planned: Members of its plan, of the chains that run here.
        epochs: Epochs that are done.
        epochs_planned: The same of its plan.
        seconds_left: An estimate from the time of the members so far; None without any.
        diverged: Members that are not finite.
        bytes: Size of all files.
        damaged: Files that are missing or not whole, as far as sizes and headers tell.
    """

    folder: Path
    task: str
    members: int
    planned: int
    epochs: int
    epochs_planned: int
    seconds_left: float | None
    diverged: int
    bytes: int
    damaged: int


def find(folder: Path) -> list[Path]:
    """All runs in a folder and those below it, in order."""
    return sorted({path.parent for name in (NAME, COPY) for path in folder.rglob(name) if path.is_file()})


def summarize(folder: Path) -> Summary:
    """A run at a glance; no more than the headers of its files are read."""
    reader = _opened(folder, verify=False)
    about = reader.manifest.about
    try:
        plan, leaves = about["plan"], about["leaves"]
        infos = [info for info in reader.infos.values() if info.index < plan["members"]]
        chains, planned = len(plan["selected"]), len(plan["selected"]) * plan["members"]
        costs = [(int(count), float(passes)) for _, _, passes, count in plan["calls"]]
        calls = {chain: calls_for(plan, count) for chain, count in reader.members().items()}  # where states were pruned
        calls |= {chain: part.number + 1 for chain, part in reader.latest().items()}
        epochs = sum(_passes(costs, done) for done in calls.values())
        epochs_planned = chains * _passes(costs, sum(count for count, _ in costs))
        size = sum(int(np.prod(leaf["shape"], dtype=object)) for leaf in leaves)
        task = f"{about['likelihood']['name']}, {size:,} parameters, {about['rows']:,} rows"
    except (KeyError, TypeError, ValueError) as error:
        raise StoreDamaged(f"{folder / NAME} lacks or garbles what a run needs ({error!r})") from None
    spent = float(np.sum([info.seconds for info in infos]))
    return Summary(
        folder=folder,
        task=task,
        members=len(infos),
        planned=len(infos) if about.get("derived") else planned,
        epochs=round(epochs),
        epochs_planned=round(epochs if about.get("derived") else epochs_planned),
        seconds_left=spent / epochs * max(0, epochs_planned - epochs) if epochs and not about.get("derived") else None,
        diverged=sum(1 for info in infos if info.status != Status.OK),
        bytes=sum(part.bytes for part in reader.manifest.parts),
        damaged=len(reader.damaged),
    )


def _passes(costs: list[tuple[int, float]], calls: int) -> float:
    """Passes over the data of a chain's first calls."""
    total = 0.0
    for count, passes in costs:
        total += passes * min(count, calls)
        calls -= min(count, calls)
    return total


def verify(folder: Path) -> dict[str, str]:
    """Read every file of a run and compare its checksum.

    Returns:
        Files that are not whole, and why.

    Raises:
        InvalidInput: No run, or one of another version.
        StoreDamaged: No readable manifest.
    """
    store = _opened(folder, verify=True)
    return {**_damaged_manifests(folder), **store.damaged}


def _damaged_manifests(folder: Path) -> dict[str, str]:
    """Which of the manifest and its copy is missing or not whole; one at least is."""
    found = {}
    for name in (NAME, COPY):
        try:
            decode((folder / name).read_bytes())
        except FileNotFoundError:
            found[name] = MISSING
        except (Damaged, OtherFormat) as reason:
            found[name] = str(reason) or "it is of another format"
    return found


def thin(folder: Path, out: Path, every: int) -> int:
    """Copy every `every`-th member of each chain, the first included; members keep their numbers.

    The copy can be loaded, not gone on with: it has no chain states.

    Returns:
        Number of members in the copy.
    """
    checks.count("thin(every=)", every)
    store = _opened(folder, verify=True)
    _refuse_damage(store)
    kept: dict[int, list[int]] = {}
    for chain, index in sorted(store.infos):
        if index % every == 0:
            kept.setdefault(chain, []).append(index)
    about = store.manifest.about
    plan, derived = about["plan"], about.get("derived")
    complete = bool(derived["complete"]) if derived else len(store.infos) == len(plan["selected"]) * plan["members"]
    manifest = replace(store.manifest, about={**about, "derived": {"every": every, "complete": complete}})
    with _new(out):
        parts = [part for chain in kept for part in _rewritten(store, out, chain, kept[chain], every)]
        files.sync(out)
        manifest.with_parts(parts, ()).write(out)
    return sum(map(len, kept.values()))


def merge(folders: Sequence[Path], out: Path) -> int:
    """Put chains of one plan, which were run in different places, into one run, which can be gone on with.

    Returns:
        Number of members in the merged run.

    Raises:
        InvalidInput: Runs of other arguments, a chain that is in two of them, or runs that are not whole.
    """
    if len(folders) < 2:
        checks.reject("merge", f"{len(folders)} run", "two or more", "Name every run that holds chains of the plan.")
    stores = [_opened(folder, verify=True) for folder in folders]
    merged, owner = stores[0].manifest, dict[int, Path]()
    for folder, store in zip(folders, stores, strict=True):
        _refuse_damage(store)
        if store.manifest.about.get("derived"):
            checks.reject("merge", f"{str(folder)!r}, a thinned run", "whole runs", "Merge first, then thin.")
        check_same(merged.header, store.manifest.header, f"{str(folder)!r}, beside {str(folders[0])!r},")
        for name in ("leaves", "stored_as", "likelihood"):
            if merged.about.get(name) != store.manifest.about.get(name):
                checks.reject("merge", f"runs that differ in {name!r}", "runs of one plan", "Merge runs of one plan.")
        for chain in {*store.latest(), *(chain for chain, _ in store.infos)}:
            if chain in owner:
                given = f"chain {chain} in {str(owner[chain])!r} and in {str(folder)!r}"
                checks.reject("merge", given, "each chain once", "Leave one of the two out.")
            owner[chain] = folder
        merged = _joined(merged, store.manifest)
    with _new(out):
        for folder, store in zip(folders, stores, strict=True):
            for part in store.manifest.parts:
                files.put(out / part.file, (folder / part.file).read_bytes())
        files.sync(out)
        manifests = [store.manifest for store in stores]
        members = [part for manifest in manifests for part in manifest.members]
        states = [part for manifest in manifests for part in manifest.states]
        failed = tuple(sorted({chain for manifest in manifests for chain in manifest.failed}))
        replace(merged.with_parts(members, states), failed=failed).write(out)
    return sum(part.count * len(part.chains) for part in members)


def prune(folder: Path, states: bool = False) -> list[str]:
    """Take damaged files out of a run, and leftovers of killed processes out of its folder.

    What was damaged is kept beside the run under another name. The rest loads without a warning and, where the last
    states of its chains are whole, goes on.

    Args:
        folder: The run.
        states: Whether to remove the chain states too: the run is smaller and can no longer be gone on with.

    Returns:
        What was done, in words.
    """
    lock = Lock(folder / LOCK)
    _manifest(folder)  # nothing is made in a folder without a run
    lock.acquire()
    try:
        broken = _damaged_manifests(folder)
        store = _opened(folder, verify=True)
        manifest, actions = store.manifest, [f"{name}: {reason}; written anew" for name, reason in broken.items()]
        members = [part for part in manifest.members if part.file not in store.damaged]
        kept = [part for part in manifest.states if part.file not in store.damaged and not states]
        for name, reason in store.damaged.items():
            lost = [part for part in manifest.members if part.file == name]
            lost_members = sum(part.count * len(part.chains) for part in lost)
            actions.append(f"{name}: {reason}; {f'{lost_members} members' if lost else 'chain states'} left out")
        if states and manifest.states:
            actions.append(f"chain states removed, {sum(part.bytes for part in manifest.states):,} bytes")
        listed = {part.file for part in members} | {part.file for part in kept}
        if store.damaged or broken:  # what is not listed may be all that is left of something
            for path in sorted(folder.glob("*.safetensors")):
                if path.name not in listed and not (states and path.name.startswith("state-")):
                    path.rename(folder / (path.name + DAMAGED))
        if actions:
            manifest.with_parts(members, kept).write(folder)
        actions.extend(f"{name}: a leftover, removed" for name in sweep(folder, listed))
        return actions
    finally:
        lock.release()


def _opened(folder: Path, verify: bool) -> Reader:
    manifest = _manifest(folder)
    try:
        plan = manifest.about["plan"]
        counts = [number for _, draws, _, count in plan["calls"] for number in (draws, count)]
        passes = [float(passes) for _, _, passes, _ in plan["calls"]]
        numbers = [plan["members"], manifest.about["rows"], *plan["selected"], *counts]
        if not all(type(number) is int and 0 <= number < LARGEST for number in numbers) or not all(
            0 <= number < LARGEST for number in passes
        ):
            raise ValueError("a plan of other numbers")
        str(manifest.about["likelihood"]["name"]).encode()
        return Reader(folder, manifest, None, verify, states=True)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise StoreDamaged(f"{folder / NAME} lacks or garbles what a run needs ({error!r})") from None


def _manifest(folder: Path) -> Manifest:
    manifest = read(folder) if folder.is_dir() else None
    if manifest is None:
        checks.reject("run", repr(str(folder)), "the folder of a run, with run.json", "`anchorwalk runs` lists them.")
    return manifest


def _refuse_damage(store: Reader) -> None:
    for name, reason in store.damaged.items():
        raise StoreDamaged(
            f"the file {store.folder / name} is damaged: {reason}. Bring it back from a copy, or take it out of its "
            f"run with `anchorwalk prune {store.folder}` first."
        )


def _joined(one: Manifest, other: Manifest) -> Manifest:
    """Two manifests' settings as one; the larger plan counts."""
    plan, further = one.about["plan"], other.about["plan"]
    larger = max(plan, further, key=lambda p: (p["members"], p["chains"]))
    both = {
        **larger,
        "chains": max(plan["chains"], further["chains"]),
        "selected": sorted({*plan["selected"], *further["selected"]}),
    }
    stretches = [stretch for stretch in other.environments if stretch not in one.environments]
    return replace(
        one,
        header={**other.header, **one.header},
        about={**one.about, "plan": both},
        environments=(*one.environments, *stretches),
    )


@contextmanager
def _new(out: Path) -> Iterator[None]:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        checks.reject("out", repr(str(out)), "a folder that is empty or not there yet", "Choose another name.")
    out.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # half a run would only be in the way
        raise


def _rewritten(store: Reader, out: Path, chain: int, indices: list[int], every: int) -> Iterator[Part]:
    """Write members of one chain as files of several."""
    rows: list[dict[str, Any]] = []
    first = 0

    def flushed() -> Part:
        tensors = {name: np.stack([row[name] for row in rows])[:, None] for name in rows[0]}
        count = len(rows)
        rows.clear()
        return Part(*put(out, members_file(first, chain, count), tensors), (chain,), first, count, every)

    for index in indices:
        new = store.raw(chain, index)
        size = sum(tensor.nbytes for row in rows for tensor in row.values())
        unlike = rows and {n: t.shape for n, t in new.items()} != {n: t.shape for n, t in rows[0].items()}
        gap = rows and index != first + len(rows) * every
        if rows and (unlike or gap or len(rows) >= MERGED or size >= LARGE):
            yield flushed()
        if not rows:
            first = index
        rows.append(new)
    if rows:
        yield flushed()
