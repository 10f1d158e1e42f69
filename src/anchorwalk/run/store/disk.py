"""Members on disk, in a format that `docs/format.md` describes.

A round is safe when its commit returns. It comes as a file of its own, and its chains' states as another; when MERGED
rounds of the same chains have come together they become one file. Files come first and the manifest last, and what the
manifest no longer names is removed after that: at every moment the manifest's files are all there.
"""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import numpy as np
from safetensors.numpy import save

from anchorwalk import checks, files
from anchorwalk.errors import DamagedWarning, StoreDamaged, StoreFailed, warn
from anchorwalk.methods.base import ChainState, Member, MemberInfo
from anchorwalk.run.store import environment, serialise
from anchorwalk.run.store.base import Header, Round, check_same
from anchorwalk.run.store.lock import Lock
from anchorwalk.run.store.manifest import COPY, FILE, NAME, Manifest, Part, file_name, read
from anchorwalk.run.store.tensors import Damaged, TensorFile, contiguous, names

MERGED = 64
"""Rounds of the same chains that become one file."""
LARGE = 64 * 2**20
"""Bytes of rounds from which on they become one file."""
LOCK = "lock"
BEFORE = {LOCK, NAME + files.TEMPORARY, COPY + files.TEMPORARY}
"""What can stand in a folder whose run was killed before its first manifest was there."""
LOOKS = 5
"""How often a reader starts over where a writer changes the run under its eyes."""


MISSING = "it is missing"


def _with_former_chains(plan: dict[str, Any], former: Any) -> dict[str, Any]:
    """A plan that also counts the chains that were run here before."""
    try:
        return {**plan, "selected": sorted({*plan["selected"], *former["selected"]})} if former else plan
    except (KeyError, TypeError):
        return plan


def put(folder: Path, part: Part, tensors: Mapping[str, Any]) -> Part:
    """Write a file of a run; the manifest may name it once the folder is synchronised."""
    content = save(contiguous(tensors))
    files.put(folder / part.file, content)
    return replace(part, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


class DiskStore:
    """Keeps a run in a folder; `sample(..., store="runs/x")` makes one.

    Args:
        folder: Made where it is missing.
        dtype: "bfloat16" keeps members in half the room, rounded; chain states stay exact, so that the walk is the same
            and a run goes on bit for bit. By default as they are.
        other_machine: Whether to go on with a run that was begun with other versions, on another kind of machine or
            with another number of threads: its further members then agree with those of an undisturbed run to
            rounding, or after long trainings in distribution only.

    Raises:
        InvalidInput: A folder with other files and no run in it.

    Example:
        >>> import anchorwalk as aw, tempfile
        >>> aw.DiskStore(tempfile.mkdtemp()).infos()
        []
    """

    def __init__(self, folder: str | PathLike[str], dtype: str | None = None, *, other_machine: bool = False) -> None:
        self.folder = Path(folder)
        self.dtype = dtype if dtype is None else checks.choice("DiskStore(dtype=)", dtype, ("bfloat16",))
        self.other_machine = other_machine
        if self.folder.exists() and not self.folder.is_dir():
            checks.reject("store", f"the file {str(self.folder)!r}", "a folder", "Choose another name.")
        self.manifest = Manifest()
        self.damaged: dict[str, str] = {}
        self._lock = Lock(self.folder / LOCK)
        self._like: Any = None
        self._leaves: list[dict[str, Any]] = []
        self._infos: dict[tuple[int, int], MemberInfo] = {}
        self._places: dict[tuple[int, int], tuple[Part, int, int]] = {}
        self._trusted: set[str] = set()
        self._open: tuple[Part, TensorFile] | None = None
        self._last: dict[int, int] = {}
        self._broken: set[str] = set()
        stored = read(self.folder) if self.folder.is_dir() else None
        if stored is None and self.folder.is_dir() and any(path.name not in BEFORE for path in self.folder.iterdir()):
            given = f"{str(self.folder)!r} with other files in it"
            checks.reject("store", given, "a run or an empty folder", "Choose another folder.")
        self._stored = stored

    def header(self) -> Header:
        """The header of the run that is here; empty where there is none."""
        return {} if self._stored is None else self._stored.header

    def begin(self, header: Header, like: ChainState, about: Mapping[str, Any]) -> None:
        """Start a run, or go on with the one that is here; no other process can, until `end`.

        Raises:
            InvalidInput: Where a run with another header is here, or another process writes to it.
            StoreDamaged: Where a file of the run is not whole.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except OSError as error:
            given = f"{str(self.folder)!r} ({error.strerror})"
            checks.reject("store", given, "a folder to write to", "Choose another.")
        try:
            self._begin(header, like, about)
        except BaseException:
            self.end()
            raise

    def _begin(self, header: Header, like: ChainState, about: Mapping[str, Any]) -> None:
        stored = read(self.folder) or Manifest()
        check_same(stored.header, header, f"the folder {self.folder}")
        if stored.about.get("derived"):
            given = f"{str(self.folder)!r}, members that were taken out of another run"
            checks.reject("store", given, "a whole run", "Go on with the run that they came from.")
        self.open(like.params, stored)
        self._like = like
        for name, reason in self.damaged.items():  # the first will do
            raise StoreDamaged(
                f"the file {self.folder / name} of the run is damaged: {reason}. Bring it back from a copy, or take it "
                f"out of the run with `anchorwalk prune {self.folder}`; aw.load reads all that is whole."
            )
        written = {
            **about,
            "leaves": serialise.leaves_to_json(like.params),
            "tree": serialise.tree_to_json(like.params),
        }
        written["stored_as"] = stored.about.get("stored_as", self.dtype)
        if written["stored_as"] not in (None, "bfloat16"):
            raise StoreDamaged(f"{self.folder / NAME} says that members are stored as {written['stored_as']!r}")
        written["plan"] = _with_former_chains(dict(about.get("plan", {})), stored.about.get("plan"))
        if self.dtype is not None and written["stored_as"] != self.dtype:
            given = f"{self.dtype!r} for a run that keeps members {written['stored_as'] or 'as they are'}"
            checks.reject("DiskStore(dtype=)", given, "the same", "Leave dtype= out, or choose another folder.")
        current = environment.current()
        stretches = stored.environments
        if not stretches or environment.differences(stretches[-1], current):
            if stretches and not self.other_machine:
                changes = "; ".join(environment.differences(stretches[-1], current))
                remedy = f"Pass store=DiskStore({str(self.folder)!r}, other_machine=True) to go on, not bit for bit."
                checks.reject("store", f"a run that was begun elsewhere: {changes}", "the same environment", remedy)
            stretches = (*stretches, {**current, "after_members": len(self._places)})
        manifest = Manifest({**stored.header, **header}, written, stretches, stored.members, stored.states)
        self._guarded(lambda: files.sync(self.folder.absolute().parent))
        if not manifest.is_in(self.folder):  # the copy as well: a kill may have come between the two
            self._guarded(lambda: manifest.write(self.folder))
        self.manifest = self._stored = manifest
        self._guarded(lambda: self.sweep(manifest.files))

    def open(self, like: Any, manifest: Manifest, verify: bool = False, states: bool = False) -> None:
        """Look at every file of a run; those that are not whole go to `damaged`, and their members are left out.

        Where a file is missing because a writer has changed the run in the meantime, the new state of it is read.

        Args:
            like: The parameters' shapes and dtypes in their tree; None gives members as dictionaries of named arrays.
            manifest: Of this folder.
            verify: Whether to compare checksums too, which reads everything.
            states: Whether to look at chain states as well.
        """
        for _ in range(LOOKS):
            self._look(like, manifest, verify, states)
            newer = read(self.folder) if MISSING in self.damaged.values() else None
            if newer is None or newer == manifest:
                return
            manifest = newer

    def _look(self, like: Any, manifest: Manifest, verify: bool, states: bool) -> None:
        self._close()
        self.manifest, self._like = manifest, ChainState(None, None, like)  # type: ignore[arg-type]
        self._leaves = manifest.about.get("leaves", []) if like is None else serialise.leaves_to_json(like)
        self.damaged, self._infos, self._places, self._last = {}, {}, {}, {}
        self._trusted = set()
        for number, part in enumerate((*manifest.members, *(manifest.states if states else ()))):
            of_members = number < len(manifest.members)
            try:
                with TensorFile(self.folder / part.file, part.bytes) as file:
                    if of_members:
                        self._check_members(part, file)
                    if verify:
                        self._check_digest(part, file)
                    if of_members:
                        self._remember(part, [file.read(f"info/{name}") for name in MemberInfo._fields])
            except FileNotFoundError:
                self.damaged[part.file] = MISSING
            except Damaged as reason:
                self.damaged[part.file] = str(reason)

    def commit(self, round_: Round) -> None:
        """Take a finished round; when this returns, it is on disk.

        Raises:
            StoreFailed: Where it cannot be written; what was there before stays.
        """
        self._guarded(lambda: self._commit(round_))

    def _commit(self, round_: Round) -> None:
        one_row = jax.tree.map(lambda leaf: np.asarray(leaf)[None], round_.members)
        tensors = self._named(one_row)
        members = self._put("members", round_.chains, round_.index, 1, tensors)
        state_names = names(round_.states, "state")
        leaves = jax.tree.leaves(round_.states)
        state = self._put("state", round_.chains, round_.index, 1, dict(zip(state_names, leaves, strict=True)))
        files.sync(self.folder)
        states = [*(part for part in self.manifest.states if part.file != state.file), state]
        newest = {chain: part.first for part in sorted(states, key=lambda part: part.first) for chain in part.chains}
        states = [part for part in states if any(newest[chain] == part.first for chain in part.chains)]
        kept = [part for part in self.manifest.members if part.file != members.file]
        self._replace(self.manifest.with_parts([*kept, members], states))
        self._remember(members, [tensors[f"info/{name}"] for name in MemberInfo._fields])
        self._merge(round_.chains)

    def _merge(self, chains: tuple[int, ...]) -> None:
        """Make one file of the last rounds of these chains, once there are many; holes and damage end the stretch."""
        single = {part.first: part for part in self.manifest.members if part.chains == chains and part.count == 1}
        rounds: list[Part] = []
        index = max(single)
        while index > 0 and index in single and single[index].file not in self._broken:
            rounds.insert(0, single[index])
            index -= 1
        if len(rounds) < 2 or (len(rounds) < MERGED and sum(part.bytes for part in rounds) < LARGE):
            return
        pieces = []
        for part in rounds:
            try:
                with TensorFile(self.folder / part.file, part.bytes) as file:
                    self._check_digest(part, file)
                    pieces.append({name: file.read(name) for name in file.tensors})
            except (Damaged, FileNotFoundError) as reason:
                self._broken.add(part.file)
                why = MISSING if isinstance(reason, FileNotFoundError) else reason
                warn(f"the file {self.folder / part.file} is damaged: {why}. The run goes on", DamagedWarning)
                return
        tensors = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
        merged = self._put("members", chains, rounds[0].first, len(rounds), tensors)
        files.sync(self.folder)
        kept = [part for part in self.manifest.members if part not in rounds]
        self._replace(self.manifest.with_parts([*kept, merged], self.manifest.states))
        self._remember(merged, [tensors[f"info/{name}"] for name in MemberInfo._fields])

    def end(self) -> None:
        """Let others write; reading goes on."""
        self._lock.release()

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        return [self._infos[place] for place in sorted(self._infos)]

    def done(self) -> dict[int, int]:
        """Members finished of each chain."""
        result: dict[int, int] = {}
        for chain, index in [*self._places, *((c, s.first) for s in self.manifest.states for c in s.chains)]:
            result[chain] = max(result.get(chain, 0), index + 1)
        return result

    def member(self, chain: int, index: int) -> Member:
        """One member, read from its file.

        Raises:
            StoreDamaged: Where its file is not whole.
        """
        file, row, lane = self._find(chain, index)
        found = {
            leaf["name"]: file.read(leaf["name"], (row, lane)).astype(serialise.dtype_of(leaf["dtype"]), copy=False)
            for leaf in self._leaves
        }
        params: Any = found
        if self._like.params is not None:
            params = jax.tree.unflatten(jax.tree.structure(self._like.params), list(found.values()))
        return Member(params, file.read("losses", (row, lane)), self._infos[chain, index])

    def raw(self, chain: int, index: int) -> dict[str, Any]:
        """One member as its tensors on disk."""
        file, row, lane = self._find(chain, index)
        known = [leaf["name"] for leaf in self._leaves] + [f"info/{name}" for name in MemberInfo._fields]
        return {name: file.read(name, (row, lane)) for name in (*known, "losses")}

    def _find(self, chain: int, index: int) -> tuple[TensorFile, int, int]:
        """The open file of a member, and its row and lane there."""
        for _ in range(LOOKS):
            if (chain, index) not in self._places:
                break
            part, row, lane = self._places[chain, index]
            try:
                return self._file(part), row, lane
            except FileNotFoundError:  # a writer may have made one file of several in the meantime
                manifest = read(self.folder) if self.folder.is_dir() else None
                if manifest is None:
                    break
                self.open(self._like.params, manifest)
        raise StoreDamaged(
            f"member {index} of chain {chain} is no longer in {self.folder}: its file is missing. Bring it back from a "
            "copy, or load the run again for what is left."
        )

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        index = max([self._last.get(chain, -1), *(s.first for s in self.manifest.states if chain in s.chains)])
        for part in self.manifest.states:
            if part.first == index and chain in part.chains:
                return self._state(part, part.chains.index(chain))
        given = f"{str(self.folder)!r} without the state of chain {chain} after member {index}"
        return checks.reject("store", given, "a whole run", "Start in another folder; this one can be read only.")

    def _state(self, part: Part, lane: int) -> ChainState:
        leaves, definition = jax.tree.flatten(self._like)
        try:
            with TensorFile(self.folder / part.file, part.bytes) as file:
                self._check_digest(part, file)
                found = [file.read(name, (lane,)) for name in names(self._like, "state")]
        except (FileNotFoundError, Damaged, KeyError) as reason:
            raise StoreDamaged(
                f"the chain states in {self.folder / part.file} are damaged: {reason}. Bring the file back from a "
                "copy; the members are whole, and aw.load reads them."
            ) from None
        if [(a.shape, a.dtype) for a in found] != [(b.shape, b.dtype) for b in leaves]:
            raise StoreDamaged(f"the chain states in {self.folder / part.file} are those of another run")
        state: ChainState = jax.tree.unflatten(definition, found)
        return state

    def _file(self, part: Part) -> TensorFile:
        """The open file of a part; the first time, its checksum is compared."""
        if self._open is None or self._open[0] != part:
            self._close()
            file = None
            try:
                file = TensorFile(self.folder / part.file, part.bytes)
                if part.file not in self._trusted:
                    self._check_digest(part, file)
            except Damaged as reason:
                if file is not None:
                    file.close()
                raise StoreDamaged(
                    f"the file {self.folder / part.file} is damaged: {reason}. Bring it back from a copy; aw.load with "
                    "verify=True leaves its members out."
                ) from None
            self._open = (part, file)
        return self._open[1]

    def _close(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _check_members(self, part: Part, file: TensorFile) -> None:
        """Compare the tensors of a file with what the manifest says of the run."""
        lead = (part.count, len(part.chains))
        for leaf in self._leaves:
            name, shape = leaf["name"], (*lead, *leaf["shape"])
            if name not in file.tensors or file.tensors[name].shape != shape:
                raise Damaged(f"it lacks {name!r} in the shape {shape}")
        for name in MemberInfo._fields:
            if f"info/{name}" not in file.tensors or file.tensors[f"info/{name}"].shape != lead:
                raise Damaged(f"it lacks 'info/{name}' in the shape {lead}")
        if "losses" not in file.tensors or (*lead, *file.tensors["losses"].shape[2:]) != file.tensors["losses"].shape:
            raise Damaged("it lacks the members' losses")
        # The tensors are there in this shape: only now is it sure that the entry claims no members by the billion.
        chains, indices = file.read("info/chain"), file.read("info/index")
        if any((chains[row, lane], indices[row, lane]) != (c, i) for c, i, row, lane in part.places):
            raise Damaged("its members are not those that the manifest says")
        if any((c, i) in self._places for c, i, _, _ in part.places):
            raise Damaged("its members are in another file too")

    def _check_digest(self, part: Part, file: TensorFile) -> None:
        if file.digest() != part.sha256:
            raise Damaged("its checksum does not fit its content")
        self._trusted.add(part.file)

    def _named(self, members: Member) -> dict[str, Any]:
        """The tensors of a file of members."""
        wide = zip([leaf["name"] for leaf in self._leaves], jax.tree.leaves(members.params), strict=True)
        stored_as = self.manifest.about["stored_as"]
        tensors = {
            name: leaf if stored_as is None else leaf.astype(serialise.dtype_of(stored_as)) for name, leaf in wide
        }
        infos = {f"info/{name}": value for name, value in zip(MemberInfo._fields, members.info, strict=True)}
        return {**tensors, "losses": members.losses, **infos}

    def _put(self, kind: str, chains: tuple[int, ...], first: int, count: int, tensors: Mapping[str, Any]) -> Part:
        name = file_name(kind, first, chains[0], count)
        self._trusted.add(name)
        return put(self.folder, Part(name, 0, "", chains, first, count), tensors)

    def _replace(self, manifest: Manifest) -> None:
        """Put another manifest in place, and remove what it no longer names."""
        manifest.write(self.folder)
        dropped = self.manifest.files - manifest.files
        self.manifest = self._stored = manifest
        for name in dropped:
            if self._open is not None and self._open[0].file == name:
                self._close()
            (self.folder / name).unlink(missing_ok=True)

    def sweep(self, listed: Collection[str]) -> list[str]:
        """Remove what a kill left behind; only for who holds the lock.

        Args:
            listed: Files that belong to the run.

        Returns:
            What was removed.
        """
        removed = []
        for path in sorted(self.folder.iterdir()):
            name = path.name.removesuffix(files.TEMPORARY)
            ours = FILE.fullmatch(name) or (path.name != name and name in (NAME, COPY))
            if ours and path.name not in listed and (path.is_symlink() or path.is_file()):
                path.unlink()
                removed.append(path.name)
        return removed

    def _remember(self, part: Part, infos: list[Any]) -> None:
        for chain, index, row, lane in part.places:
            self._places[chain, index] = (part, row, lane)
            self._last[chain] = max(index, self._last.get(chain, -1))
            self._infos[chain, index] = MemberInfo(*(np.asarray(values)[row, lane].item() for values in infos))

    def _guarded(self, action: Any) -> None:
        try:
            action()
        except OSError as error:
            raise StoreFailed(
                f"could not write to {self.folder}: {error.strerror or error}. The {len(self._places)} members that "
                "were finished before are safe; make room or mend the disk, and repeat the same call to go on."
            ) from error
