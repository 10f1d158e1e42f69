"""The reading side of a stored run. Nothing is trusted: sizes, headers and checksums are compared before use."""

from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import jax

from anchorwalk import files
from anchorwalk.errors import StoreDamaged
from anchorwalk.files import MISSING, Damaged, Missing
from anchorwalk.methods.base import Member, MemberInfo, State
from anchorwalk.run.store import serialise
from anchorwalk.run.store.base import Progress
from anchorwalk.run.store.manifest import File, Manifest, Part, StatePart, calls_for, check_counts, read
from anchorwalk.run.store.tensors import TensorFile, names

LOOKS = 5  # how often a reader starts over where a writer changes the run under its eyes
OWN = ("chain", "index", "status", "seconds")  # tensors of members that are the run's own; `info/...` are the method's
INFO = "info/"
MOST_SECONDS = 1e12  # that a member can have taken


class Reader:
    """A run's folder, opened for reading.

    `like` are the parameters' shapes and dtypes in their tree; without it members are dictionaries of named arrays.
    `verify` compares all checksums now, and not each when its file is first used. `states` looks at chain states too.
    `damaged` names files that are not whole, and why; `infos` has what is known of all other members.
    """

    def __init__(self, folder: Path, manifest: Manifest, like: Any, verify: bool = False, states: bool = False) -> None:
        self.folder, self.like = folder, like
        self._open: tuple[Part, TensorFile] | None = None
        for _ in range(LOOKS):
            self._look(manifest, verify, states)
            # Where a file is missing because a writer has changed the run in the meantime, its new state is read.
            newer = read(folder) if MISSING in self.damaged.values() else None
            if newer is None or newer == manifest:
                return
            manifest = newer

    def _look(self, manifest: Manifest, verify: bool = False, states: bool = False) -> None:
        self.close()
        self.manifest = manifest
        self.leaves = manifest.about.get("leaves", []) if self.like is None else serialise.leaves_to_json(self.like)
        self.damaged: dict[str, str] = {}
        self.infos: dict[tuple[int, int], MemberInfo] = {}
        self._places: dict[tuple[int, int], tuple[Part, int, int]] = {}
        self._trusted: dict[str, tuple[int, ...]] = {}  # files that were compared, as they were then
        for part in manifest.parts if states else manifest.members:
            try:
                with closing(self.open(part, verify)) as file:
                    if isinstance(part, Part):
                        self._check_members(part, file)
                        self.add(part, {name: file.read(name) for name in _numbers(file)})
            except Damaged as reason:
                self.damaged[part.file] = str(reason)

    def open(self, part: File, verify: bool = True) -> TensorFile:
        """A file of the run, compared with its checksum or not; raises what `TensorFile` does."""
        file = TensorFile(self.folder / part.file, part.bytes)
        try:
            if verify:
                self._trust(part, file)
        except BaseException:
            file.close()
            raise
        return file

    def _trust(self, part: File, file: TensorFile) -> None:
        """Compare an open file with its checksum, unless that was done and nobody has changed it since."""
        found = file.identity
        if self._trusted.get(part.file) != found:
            file.verify(part.sha256)
            self._trusted[part.file] = found

    def close(self) -> None:
        """Close the file whose members were read last."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def add(self, part: Part, tensors: Mapping[str, Any], trusted: bool = False) -> None:
        """Take a file's members into account; trust it where this process wrote it and knows its checksum."""
        if trusted:
            self._trusted[part.file] = files.identity(self.folder / part.file)
        values = {name.removeprefix(INFO): tensor for name, tensor in tensors.items() if name.startswith(INFO)}
        for chain, index, row, lane in part.places:
            self._places[chain, index] = (part, row, lane)
            own = {name: tensor[row, lane].item() for name, tensor in values.items()}
            status, seconds = tensors["status"][row, lane], tensors["seconds"][row, lane]
            self.infos[chain, index] = MemberInfo(chain, index, int(status), float(seconds), own)

    def member(self, chain: int, index: int) -> Member:
        """One member, read from its file; StoreDamaged where that is not whole."""
        file, row, lane = self._find(chain, index)
        params: Any = {}
        for leaf in self.leaves:
            array = file.read(leaf["name"], (row, lane))
            params[leaf["name"]] = array.astype(serialise.dtype_of(leaf["dtype"]), copy=False)
        if self.like is not None:
            params = jax.tree.unflatten(jax.tree.structure(self.like), params.values())
        return Member(params, file.read("trace", (row, lane)), self.infos[chain, index])

    def raw(self, chain: int, index: int) -> dict[str, Any]:
        """One member as its tensors on disk, with the leading axes (member, chain)."""
        file, row, lane = self._find(chain, index)
        return {name: file.read(name, (row, lane))[None, None] for name in self.known(file)}

    def known(self, file: TensorFile) -> list[str]:
        """The tensors of a file of members that belong to the format."""
        return [*(leaf["name"] for leaf in self.leaves), *_numbers(file), "trace"]

    def state(self, part: StatePart, chain: int, like: State) -> State:
        """A chain's state; StoreDamaged where its file is not whole, or holds other states."""
        leaves, definition = jax.tree.flatten(like)
        try:
            with closing(self.open(part)) as file:
                found = [file.read(name, (part.chains.index(chain),)) for name in names(like, "state")]
        except (Damaged, KeyError) as reason:
            raise StoreDamaged(
                f"the chain states in {self.folder / part.file} are damaged: {reason}. Bring the file back from a "
                "copy; the members are whole, and aw.load reads them."
            ) from None
        if [(a.shape, a.dtype) for a in found] != [(b.shape, b.dtype) for b in leaves]:
            raise StoreDamaged(f"the chain states in {self.folder / part.file} are those of another run")
        return jax.tree.unflatten(definition, found)

    def members(self) -> dict[int, int]:
        """Members of each chain, those before its last one included where they are not there."""
        found: dict[int, int] = {}
        for chain, index in self.infos:
            found[chain] = max(found.get(chain, 0), index + 1)
        return found

    def progress(self) -> dict[int, Progress]:
        """How far each chain is."""
        about, latest = self.manifest.about, self.manifest.latest
        by_members = {chain: Progress(calls_for(about["plan"], n), n, 0) for chain, n in self.members().items()}
        by_states = {chain: Progress(part.number + 1, part.members, part.attempt) for chain, part in latest.items()}
        return by_members | by_states  # members are all that tells where states were pruned

    def complete(self) -> bool:
        """Whether all members of the plan are there; of a thinned copy, whether they were in its run."""
        plan, derived = self.manifest.about["plan"], self.manifest.about.get("derived")
        check_counts([plan["members"], *plan["selected"]])
        if derived:
            return bool(derived["complete"])
        there = Counter(chain for chain, _ in self.infos)  # members, not places: some may have been pruned
        return all(there[chain] >= plan["members"] for chain in plan["selected"] if chain not in self.manifest.failed)

    def _find(self, chain: int, index: int) -> tuple[TensorFile, int, int]:
        """The open file of a member, and its row and lane there."""
        for _ in range(LOOKS):
            if (chain, index) not in self._places:
                break
            part, row, lane = self._places[chain, index]
            try:
                if self._open is None or self._open[0] != part:
                    self.close()
                    self._open = part, self.open(part, verify=False)
                self._trust(part, self._open[1])
                return self._open[1], row, lane
            except Missing:  # a writer may have made one file of several in the meantime
                if (manifest := read(self.folder)) is None or not self._is_own(manifest):
                    break
                self._look(manifest)
            except Damaged as reason:
                raise StoreDamaged(
                    f"the file {self.folder / part.file} is damaged: {reason}. Bring it back from a copy; aw.load with "
                    "verify=True leaves its members out."
                ) from None
        raise StoreDamaged(
            f"member {index} of chain {chain} is no longer in {self.folder}: its file is missing. Bring it back from a "
            "copy, or load the run again for what is left."
        )

    def _is_own(self, manifest: Manifest) -> bool:
        """Whether a manifest is that of this run, which may have gone on, and not of another in its folder."""
        own = self.manifest.header
        return all(manifest.header.get(name, value) == value for name, value in own.items())

    def _check_members(self, part: Part, file: TensorFile) -> None:
        """Compare the tensors of a file with what the manifest says of the run."""
        lead = (part.count, len(part.chains))
        shapes = {leaf["name"]: leaf["shape"] for leaf in self.leaves} | dict.fromkeys(_numbers(file), ())
        for name, shape in shapes.items():
            if name not in file.tensors or file.tensors[name].shape != (*lead, *shape):
                raise Damaged(f"it lacks {name!r} in the shape {(*lead, *shape)}")
        trace = file.tensors["trace"].shape if "trace" in file.tensors else ()
        if trace[:2] != lead or len(trace) == len(lead):
            raise Damaged("it lacks the members' traces")
        # The tensors are there in this shape: only now is it sure that the entry claims no members by the billion.
        # They are compared row by row, so that a file of holes which claims very many is soon found out.
        for row in range(part.count):
            chains, indices = file.read("chain", (row,)), file.read("index", (row,))
            if tuple(chains) != part.chains or (indices != part.first + row * part.step).any():
                raise Damaged("its members are not those that the manifest says")
        seconds = file.read("seconds")
        if not ((seconds >= 0) & (seconds < MOST_SECONDS)).all():
            raise Damaged("its members took no time that can be")
        if any((c, i) in self._places for c, i, _, _ in part.places):
            raise Damaged("its members are in another file too")


def _numbers(file: TensorFile) -> list[str]:
    """The tensors of a file of members that have one number for each."""
    return [*OWN, *(name for name in file.tensors if name.startswith(INFO))]
