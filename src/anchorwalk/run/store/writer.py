"""The writing side of a stored run: one process at a time, and every call is safe when its commit returns.

A call's draws are one file, its chains' states another. MERGED files of the same chains become one. Files come first,
the manifest next, and then what it no longer names is removed: at every moment the manifest's files are all there.
"""

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
from safetensors.numpy import save

from anchorwalk import files
from anchorwalk.errors import DamagedWarning, StoreFailed, warn
from anchorwalk.files import Damaged
from anchorwalk.run.store import serialise
from anchorwalk.run.store.base import Round
from anchorwalk.run.store.lock import Lock
from anchorwalk.run.store.manifest import COPY, FILE, NAME, Manifest, Part, StatePart
from anchorwalk.run.store.reader import INFO, Reader
from anchorwalk.run.store.tensors import names
from anchorwalk.types import HostArray

MERGED = 64  # files of the same chains that become one
LARGE = 64 * 2**20  # bytes of files from which on they become one


def put_members(
    folder: Path, tensors: Mapping[str, HostArray], chains: tuple[int, ...], first: int, step: int = 1, call: str = ""
) -> Part:
    """Write a file of members; the manifest may name it once the folder is synchronised. See `Part`."""
    count = len(tensors["chain"])
    name = f"members-{first:06d}-{chains[0]:06d}" + (f"-{count}" if count > 1 else "")
    return Part(*_put(folder, name, tensors), chains, first, count, step, call)


def _put(folder: Path, stem: str, tensors: Mapping[str, HostArray]) -> tuple[str, int, str]:
    """Write a file of tensors; its name, size and checksum."""
    name = f"{stem}.safetensors"
    content = save({key: np.asarray(tensor, order="C") for key, tensor in tensors.items()})
    files.put(folder / name, content)
    return name, len(content), hashlib.sha256(content).hexdigest()


def joined(pieces: Sequence[Mapping[str, HostArray]]) -> dict[str, HostArray]:
    """The tensors of members that follow each other."""
    return {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}


def alike(one: Mapping[str, HostArray], other: Mapping[str, HostArray]) -> bool:
    """Whether two groups of members can be in one file: traces can be of different lengths."""
    return {name: t.shape[2:] for name, t in one.items()} == {name: t.shape[2:] for name, t in other.items()}


def sweep(folder: Path, listed: Collection[str]) -> list[str]:
    """Remove what a kill left behind and is not listed, and name it; only for who holds the lock."""
    removed = []
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(files.TEMPORARY)
        ours = FILE.fullmatch(name) or (path.name != name and name in (NAME, COPY))
        if ours and path.name not in listed and (path.is_symlink() or path.is_file()):
            path.unlink()
            removed.append(path.name)
    return removed


class Writer:
    """Adds calls to a run, beginning with a manifest; the reader learns of what is written."""

    def __init__(self, reader: Reader, manifest: Manifest, lock: Lock) -> None:
        self.reader, self.folder, self._lock = reader, reader.folder, lock
        self._broken: set[str] = set()
        self._apart: set[str] = set()  # whole ones with other shapes than those that follow them
        with self._guarded():
            files.sync(self.folder.absolute().parent)
            if not manifest.is_in(self.folder):  # the copy as well: a kill may have come between the two
                manifest.write(self.folder)
            reader.manifest = manifest
            sweep(self.folder, manifest.files)

    def commit(self, round_: Round) -> None:
        """Take a finished call; when this returns, it is on disk."""
        with self._guarded():
            manifest, chains = self.reader.manifest, round_.chains
            members = list(manifest.members)
            if round_.size:
                tensors = self._tensors(round_)
                part = put_members(self.folder, tensors, chains, round_.first, call=round_.kind)
                members = [*(one for one in members if one.file != part.file), part]
            leaves = zip(names(round_.states, "state"), jax.tree.leaves(round_.states), strict=True)
            stem = f"state-{round_.number:06d}-{chains[0]:06d}" + (f"-{round_.attempt}" if round_.attempt else "")
            done = round_.first + round_.size
            state = StatePart(*_put(self.folder, stem, dict(leaves)), chains, round_.number, done, round_.attempt)
            files.sync(self.folder)
            states = (*(one for one in manifest.states if one.file != state.file), state)
            newest = replace(manifest, states=states).latest.values()
            self._replace(manifest.with_parts(members, [one for one in states if one in newest]))
            if round_.size:
                self.reader.add(part, tensors, trusted=True)
                self._merge(part)

    def fail(self, chain: int) -> None:
        """Mark a chain as failed."""
        manifest = self.reader.manifest
        with self._guarded():
            self._replace(replace(manifest, failed=tuple(sorted({*manifest.failed, chain}))))

    def _tensors(self, round_: Round) -> dict[str, HostArray]:
        """The tensors of a file of members, with the leading axes (member, chain)."""
        stored_as = self.reader.manifest.about["stored_as"]
        dtype = None if stored_as is None else serialise.dtype_of(stored_as)
        params = zip([leaf["name"] for leaf in self.reader.leaves], jax.tree.leaves(round_.draws.params), strict=True)
        lead = (len(round_.chains), round_.size)
        tensors = {
            **{name: np.asarray(leaf, dtype) for name, leaf in params},
            "trace": round_.draws.trace,
            "chain": np.broadcast_to(np.asarray(round_.chains, np.int64)[:, None], lead),
            "index": np.broadcast_to(round_.first + np.arange(round_.size), lead),
            "status": round_.status,
            "seconds": np.full(lead, round_.seconds),
            **{f"{INFO}{name}": value for name, value in round_.draws.info.items()},
        }
        return {name: np.swapaxes(np.asarray(value), 0, 1) for name, value in tensors.items()}

    def _merge(self, last: Part) -> None:
        """Make one file of the last ones of these chains and kind, once there are many; holes and damage end them."""
        ends = {
            part.first + part.count: part
            for part in self.reader.manifest.members
            if (part.chains, part.call, part.step) == (last.chains, last.call, 1)
            and part.bytes < LARGE
            and part.file not in self._broken | self._apart
        }
        parts: list[Part] = []
        end = last.first + last.count
        while end in ends and ends[end].count <= last.count:
            parts.insert(0, ends[end])
            end = parts[0].first
        if len(parts) < 2 or (len(parts) < MERGED and sum(part.bytes for part in parts) < LARGE):
            return
        pieces: list[dict[str, HostArray]] = []
        for part in parts:
            try:
                with closing(self.reader.open(part)) as file:
                    pieces.append({name: file.read(name) for name in self.reader.known(file)})
            except Damaged as reason:
                self._broken.add(part.file)
                warn(f"the file {self.folder / part.file} is damaged: {reason}. The run continues", DamagedWarning)
                return
            if not alike(pieces[-1], pieces[0]):  # the first training's trace, say: those before stay as they are
                self._apart |= {one.file for one in parts[: len(pieces) - 1]}
                return
        tensors = joined(pieces)
        merged = put_members(self.folder, tensors, last.chains, end, call=last.call)
        files.sync(self.folder)
        manifest = self.reader.manifest
        kept = [part for part in manifest.members if part not in parts]
        self._replace(manifest.with_parts([*kept, merged], manifest.states))
        self.reader.add(merged, tensors, trusted=True)

    def _replace(self, manifest: Manifest) -> None:
        """Put another manifest in place, and remove what it no longer names."""
        self._lock.check()
        manifest.write(self.folder)
        dropped = self.reader.manifest.files - manifest.files
        self.reader.manifest = manifest
        self.reader.close()  # the file that is open may be one of them
        for name in dropped:
            with suppress(OSError):  # the next writer sweeps it away, where a reader has it open on Windows
                (self.folder / name).unlink(missing_ok=True)

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        """Write something; say what is safe where it fails, or that the folder is another's now."""
        self._lock.check()
        try:
            yield
        except OSError as error:
            self._lock.check()
            raise StoreFailed(
                f"could not write to {self.folder}: {error.strerror or error}. The {len(self.reader.infos)} members "
                "that were finished before are safe; free some space or repair the disk, and repeat the call to resume."
            ) from error
