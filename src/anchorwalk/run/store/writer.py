"""The writing side of a stored run: one process at a time, and every call is safe when its commit returns.

A call's draws come as a file of their own, and its chains' states as another; when MERGED files of the same chains have
come together they become one. Files come first and the manifest last, and what the manifest no longer names is removed
after that: at every moment the manifest's files are all there.
"""

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from anchorwalk import files
from anchorwalk.errors import DamagedWarning, StoreFailed, warn
from anchorwalk.run.store import serialise
from anchorwalk.run.store.base import Round
from anchorwalk.run.store.manifest import COPY, FILE, NAME, Manifest, Part, StatePart, members_file, state_file
from anchorwalk.run.store.reader import INFO, MISSING, Reader, latest_states
from anchorwalk.run.store.tensors import Damaged, TensorFile, contiguous, names

MERGED = 64
"""Files of the same chains that become one."""
LARGE = 64 * 2**20
"""Bytes of files from which on they become one."""


def put(folder: Path, name: str, tensors: Mapping[str, Any]) -> tuple[str, int, str]:
    """Write a file of a run; the manifest may name it once the folder is synchronised.

    Returns:
        Its name, size and checksum.
    """
    content = save(contiguous(tensors))
    files.put(folder / name, content)
    return name, len(content), hashlib.sha256(content).hexdigest()


def sweep(folder: Path, listed: Collection[str]) -> list[str]:
    """Remove what a kill left behind; only for who holds the lock.

    Args:
        folder: The run.
        listed: Files that belong to it.

    Returns:
        What was removed.
    """
    removed = []
    for path in sorted(folder.iterdir()):
        name = path.name.removesuffix(files.TEMPORARY)
        ours = FILE.fullmatch(name) or (path.name != name and name in (NAME, COPY))
        if ours and path.name not in listed and (path.is_symlink() or path.is_file()):
            path.unlink()
            removed.append(path.name)
    return removed


class Writer:
    """Adds calls to a run.

    Args:
        reader: The run as it is; it learns of what is written.
        manifest: The run's manifest, with which it begins.
    """

    def __init__(self, reader: Reader, manifest: Manifest) -> None:
        self.reader, self.folder = reader, reader.folder
        self._broken: set[str] = set()
        self.guarded(lambda: files.sync(self.folder.absolute().parent))
        if not manifest.is_in(self.folder):  # the copy as well: a kill may have come between the two
            self.guarded(lambda: manifest.write(self.folder))
        reader.manifest = manifest
        self.guarded(lambda: sweep(self.folder, manifest.files))

    @property
    def manifest(self) -> Manifest:
        """The manifest as it is on disk."""
        return self.reader.manifest

    def commit(self, round_: Round) -> None:
        """Take a finished call; when this returns, it is on disk.

        Raises:
            StoreFailed: Where it cannot be written; what was there before stays.
        """
        self.guarded(lambda: self._commit(round_))

    def fail(self, chain: int) -> None:
        """Mark a chain as failed."""
        failed = tuple(sorted({*self.manifest.failed, chain}))
        self.guarded(lambda: self._replace(replace(self.manifest, failed=failed)))

    def _commit(self, round_: Round) -> None:
        chains, number, attempt = round_.chains, round_.number, round_.attempt
        members = [*self.manifest.members]
        tensors: dict[str, Any] = {}
        if round_.size:
            tensors = self._tensors(round_)
            name = members_file(round_.first, chains[0], round_.size)
            part = Part(*put(self.folder, name, tensors), chains, round_.first, round_.size, 1, round_.kind)
            members = [*(one for one in members if one.file != name), part]
        leaves = dict(zip(names(round_.states, "state"), jax.tree.leaves(round_.states), strict=True))
        done = round_.first + round_.size
        state = StatePart(
            *put(self.folder, state_file(number, chains[0], attempt), leaves), chains, number, done, attempt
        )
        files.sync(self.folder)
        states = (*(one for one in self.manifest.states if one.file != state.file), state)
        newest = latest_states(states)
        kept = [one for one in states if any(newest[chain] is one for chain in one.chains)]
        self._replace(self.manifest.with_parts(members, kept))
        if round_.size:
            self.reader.add(part, tensors, trusted=True)
            self._merge(part)

    def _tensors(self, round_: Round) -> dict[str, Any]:
        """The tensors of a file of members, with the leading axes (member, chain)."""
        stored_as = self.manifest.about["stored_as"]
        dtype = None if stored_as is None else serialise.dtype_of(stored_as)
        wide = zip([leaf["name"] for leaf in self.reader.leaves], jax.tree.leaves(round_.draws.params), strict=True)
        tensors = {name: leaf if dtype is None else np.asarray(leaf).astype(dtype) for name, leaf in wide}
        lead = (len(round_.chains), round_.size)
        tensors |= {
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
            for part in self.manifest.members
            if (part.chains, part.call, part.step) == (last.chains, last.call, 1)
            and part.bytes < LARGE
            and part.file not in self._broken
        }
        parts: list[Part] = []
        end = last.first + last.count
        while end in ends and ends[end].count <= last.count:
            parts.insert(0, ends[end])
            end = parts[0].first
        if len(parts) < 2 or (len(parts) < MERGED and sum(part.bytes for part in parts) < LARGE):
            return
        pieces = []
        for part in parts:
            try:
                with TensorFile(self.folder / part.file, part.bytes) as file:
                    self.reader.check_digest(part, file)
                    pieces.append({name: file.read(name) for name in self.reader.known(file)})
            except (Damaged, FileNotFoundError) as reason:
                self._broken.add(part.file)
                why = MISSING if isinstance(reason, FileNotFoundError) else reason
                warn(f"the file {self.folder / part.file} is damaged: {why}. The run goes on", DamagedWarning)
                return
        if any(
            {n: t.shape[2:] for n, t in p.items()} != {n: t.shape[2:] for n, t in pieces[0].items()} for p in pieces
        ):
            return
        tensors = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        first, count = parts[0].first, sum(part.count for part in parts)
        name = members_file(first, last.chains[0], count)
        merged = Part(*put(self.folder, name, tensors), last.chains, first, count, 1, last.call)
        files.sync(self.folder)
        kept = [part for part in self.manifest.members if part not in parts]
        self._replace(self.manifest.with_parts([*kept, merged], self.manifest.states))
        self.reader.add(merged, tensors, trusted=True)

    def _replace(self, manifest: Manifest) -> None:
        """Put another manifest in place, and remove what it no longer names."""
        manifest.write(self.folder)
        dropped = self.manifest.files - manifest.files
        self.reader.manifest = manifest
        for name in dropped:
            self.reader.forget(name)
            (self.folder / name).unlink(missing_ok=True)

    def guarded(self, action: Callable[[], object]) -> None:
        """Carry out something that writes; say what is safe where it fails."""
        try:
            action()
        except OSError as error:
            raise StoreFailed(
                f"could not write to {self.folder}: {error.strerror or error}. The {len(self.reader.infos)} members "
                "that were finished before are safe; make room or mend the disk, and repeat the same call to go on."
            ) from error
