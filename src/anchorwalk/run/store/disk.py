"""Members on disk, in a format that `docs/format.md` describes; one process writes to a run at a time."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from anchorwalk import checks, files
from anchorwalk.errors import StoreDamaged
from anchorwalk.methods.base import Member, MemberInfo, State
from anchorwalk.run.store import log, serialise
from anchorwalk.run.store.base import Header, Like, Progress, Round, check_same
from anchorwalk.run.store.lock import LOCK, Lock
from anchorwalk.run.store.manifest import COPY, NAME, Manifest, read, understood
from anchorwalk.run.store.reader import Reader
from anchorwalk.run.store.writer import Writer

BEFORE = {LOCK, NAME + files.TEMPORARY, COPY + files.TEMPORARY}  # left by a run killed before its first manifest


class DiskStore:
    """Keeps a run in a folder; `sample(..., store="runs/x")` makes one.

    Args:
        folder: Made where it is missing.
        dtype: "bfloat16" keeps members in half the room, rounded; chain states stay exact. None keeps them as they are.
        other_machine: Whether to resume a run that was begun with other versions or on another kind of machine. Further
            members then agree with an undisturbed run's to rounding, after long trainings in distribution only.

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
        stored = read(self.folder)
        if stored is None and self.folder.exists() and any(path.name not in BEFORE for path in self.folder.iterdir()):
            given = f"{str(self.folder)!r} with other files in it"
            checks.reject("store", given, "a run or an empty folder", "Choose another folder.")
        self._stored = stored or Manifest()
        self._lock = Lock(self.folder / LOCK)
        self._reader: Reader | None = None
        self._writer: Writer | None = None
        self._like: Like | None = None

    @property
    def manifest(self) -> Manifest:
        """The run's manifest, as it was read or written last."""
        return self._stored if self._reader is None else self._reader.manifest

    @property
    def damaged(self) -> dict[str, str]:
        """Files that are not whole, and why, as far as they have been looked at."""
        return {} if self._reader is None else self._reader.damaged

    def header(self) -> Header:
        """The header of the run that is in the folder; empty where there is none."""
        return self.manifest.header

    def about(self) -> Mapping[str, Any]:
        """What the run says of itself."""
        return self.manifest.about

    def open(self, like: Any, manifest: Manifest, verify: bool = False, states: bool = False) -> Reader:
        """Look at every file of a run; see `Reader`."""
        self._reader = Reader(self.folder, manifest, like, verify, states)
        return self._reader

    def begin(self, header: Header, like: Like, about: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Start a run, or resume the one that is in the folder; no other process can, until `end`.

        Raises:
            InvalidInput: Where a run with another header is in the folder, or another process writes to it.
            StoreDamaged: Where a file of the run is not whole.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock.acquire()
        except OSError as error:
            given = f"{str(self.folder)!r} ({error.strerror})"
            checks.reject("store", given, "a folder to write to", "Choose another.")
        try:
            self._begin(header, like, about, environment)
        except BaseException:
            self.end()
            raise

    def _begin(self, header: Header, like: Like, about: Mapping[str, Any], current: Mapping[str, Any]) -> None:
        stored = read(self.folder) or Manifest()
        check_same(stored.header, header, f"the folder {self.folder}")
        if stored.about.get("derived"):
            given = f"{str(self.folder)!r}, members that were taken out of another run"
            checks.reject("store", given, "a whole run", "Resume the run that they came from.")
        self._like, reader = like, self.open(like.params, stored)
        for name, reason in reader.damaged.items():  # the first will do
            raise StoreDamaged(
                f"the file {self.folder / name} of the run is damaged: {reason}. Bring it back from a copy, or take it "
                f"out of the run with `anchorwalk prune {self.folder}`; aw.load reads all that is whole."
            )
        stored_as = stored.about.get("stored_as", self.dtype)
        if stored_as not in (None, "bfloat16"):
            raise StoreDamaged(f"{self.folder / NAME} says that members are stored as {stored_as!r}")
        if self.dtype not in (None, stored_as):
            given = f"{self.dtype!r} for a run that keeps members {stored_as or 'as they are'}"
            checks.reject("DiskStore(dtype=)", given, "the same", "Leave dtype= out, or choose another folder.")
        written = {
            **about,
            "leaves": reader.leaves,
            "tree": serialise.tree_to_json(like.params),
            "stored_as": stored_as,
            "plan": _with_former_chains(dict(about.get("plan", {})), stored.about.get("plan")),
        }
        stretches = stored.environments
        former = stretches[-1] if stretches else current
        differing = {name: value for name, value in current.items() if former.get(name) != value}
        changes = [f"{name} was {former.get(name)!r}, is {value!r}" for name, value in differing.items()]
        if changes and not self.other_machine:
            remedy = f"Pass store=DiskStore({str(self.folder)!r}, other_machine=True) to resume, not bit for bit."
            given = f"a run that was begun elsewhere: {'; '.join(changes)}"
            checks.reject("store", given, "the same environment", remedy)
        if changes or not stretches:
            stretches = (*stretches, {**current, "after_members": len(reader.infos)})
        manifest = replace(stored, header={**stored.header, **header}, about=written, environments=stretches)
        self._writer = Writer(reader, manifest, self._lock)

    def commit(self, round_: Round) -> None:
        """Take a finished call; when this returns, it is on disk. StoreFailed where that cannot be; the rest stays."""
        self._writing().commit(round_)

    def fail(self, chain: int) -> None:
        """Mark a chain that has no good first draw."""
        self._writing().fail(chain)

    def note(self, event: Mapping[str, Any]) -> None:
        """Add a line to the run's log."""
        log.note(self.folder, event)

    def end(self) -> None:
        """Let others write; the run can still be read."""
        self._writer = None
        self._lock.release()

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        infos = {} if self._reader is None else self._reader.infos
        return [infos[place] for place in sorted(infos)]

    def progress(self) -> dict[int, Progress]:
        """How far each chain is."""
        with understood(self.folder):
            return self._reading().progress()

    def failed(self) -> list[int]:
        """Chains that are marked as failed."""
        return list(self.manifest.failed)

    def member(self, chain: int, index: int) -> Member:
        """One member, read from its file; StoreDamaged where that is not whole."""
        return self._reading().member(chain, index)

    def state(self, chain: int) -> State:
        """The state of a chain after its last finished call."""
        reader, part = self._reading(), self.manifest.latest.get(chain)
        if part is None or self._like is None or reader.members().get(chain, 0) > part.members:
            given = f"{str(self.folder)!r} without the state of chain {chain}"
            checks.reject("store", given, "a whole run", "Start in another folder; this one can be read only.")
        return reader.state(part, chain, self._like.state)

    def _reading(self) -> Reader:
        assert self._reader is not None, "begin or open comes first"
        return self._reader

    def _writing(self) -> Writer:
        assert self._writer is not None, "begin comes first"
        return self._writer


def _with_former_chains(plan: dict[str, Any], former: Any) -> dict[str, Any]:
    """A plan that also counts the chains that were run in this folder before."""
    try:
        return {**plan, "selected": sorted({*plan["selected"], *former["selected"]})} if former else plan
    except (KeyError, TypeError):
        return plan
