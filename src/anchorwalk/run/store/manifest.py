"""The manifest of a run: what it is, and which files belong to it.

`run.json` and its copy `run.backup.json` are JSON with a checksum of their own content; the copy is written first.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anchorwalk import checks, files
from anchorwalk.errors import DamagedWarning, InvalidInput, StoreDamaged, warn
from anchorwalk.files import Damaged, Missing

FORMAT = 3
NAME, COPY = "run.json", "run.backup.json"
FILE = re.compile(r"(members|state)-\d{6,12}-\d{6,12}(-\d{1,9})?\.safetensors")
"""Names that files of a run can have: none leads out of its folder."""
BESIDE = re.compile(r"[a-z]{1,40}\.json")
"""Names of files that others keep beside a run."""
LARGEST = 2**31  # chains and indices are below this


@dataclass(frozen=True)
class File:
    """A file of a run."""

    file: str  # its name in the run's folder
    bytes: int
    sha256: str
    chains: tuple[int, ...]  # in the order of their axis

    def __post_init__(self) -> None:
        check_counts(self.chains)
        kind = "members" if isinstance(self, Part) else "state"
        if not (isinstance(self.file, str) and FILE.fullmatch(self.file) and self.file.startswith(kind)):
            raise ValueError(f"the file name {self.file!r}")
        if not (type(self.bytes) is int and self.bytes >= 0 and isinstance(self.sha256, str)):
            raise ValueError(f"the entry of {self.file}")
        if len(set(self.chains)) != len(self.chains) or not self.chains:
            raise ValueError(f"the chains of {self.file}")


@dataclass(frozen=True)
class Part(File):
    """A file of members, with the leading axes (member, chain)."""

    first: int  # the first member's place in its chain
    count: int = 1  # members of each chain
    step: int = 1  # from one member's place to the next one's
    call: str = ""  # the kind of the calls that made them

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (type(self.step) is int and self.step >= 1 and isinstance(self.call, str)):
            raise ValueError(f"the entry of {self.file}")
        check_counts((self.first, self.count, self.first + (self.count - 1) * self.step))
        # A member has some numbers at least: an entry cannot claim more of them than its file has bytes.
        if not 1 <= self.size <= self.bytes:
            raise ValueError(f"the members of {self.file}")

    @property
    def size(self) -> int:
        """Members of all chains."""
        return self.count * len(self.chains)

    @property
    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """Chain, index, row and lane of each member."""
        for row in range(self.count):
            for lane, chain in enumerate(self.chains):
                yield chain, self.first + row * self.step, row, lane


@dataclass(frozen=True)
class StatePart(File):
    """A file of chain states, with a leading axis of chains."""

    number: int  # of the call that left the states
    members: int  # of each chain up to then
    attempt: int = 0  # how often the chains had been started anew

    def __post_init__(self) -> None:
        super().__post_init__()
        check_counts((self.number, self.members, self.attempt))


@dataclass(frozen=True)
class Beside:
    """A file that is no part of the run and under its checksums, such as what an estimator knows."""

    file: str
    bytes: int
    sha256: str

    def __post_init__(self) -> None:
        if not (isinstance(self.file, str) and BESIDE.fullmatch(self.file) and self.file != NAME):
            raise ValueError(f"the file name {self.file!r}")
        if not (type(self.bytes) is int and 0 <= self.bytes <= files.LONGEST and isinstance(self.sha256, str)):
            raise ValueError(f"the entry of {self.file}")


@dataclass(frozen=True)
class Manifest:
    """What a run's folder says of it; `docs/format.md` has the details."""

    header: dict[str, str] = field(default_factory=dict)  # what must be equal for the run to resume
    about: dict[str, Any] = field(default_factory=dict)  # plan, key, prior, likelihood, tree and arrays of parameters
    environments: tuple[dict[str, Any], ...] = ()  # of each stretch of the run, and the number of members before it
    members: tuple[Part, ...] = ()
    states: tuple[StatePart, ...] = ()
    failed: tuple[int, ...] = ()  # chains without a good first draw
    beside: tuple[Beside, ...] = ()  # other files; two entries for one that is being replaced

    @property
    def parts(self) -> list[File]:
        """All files, those of members first."""
        return [*self.members, *self.states]

    @property
    def files(self) -> set[str]:
        """The names of all files."""
        return {part.file for part in self.parts}

    @property
    def latest(self) -> dict[int, StatePart]:
        """The file of each chain's last state: of the last attempt, and there of the last call."""
        ordered = sorted(self.states, key=lambda part: (part.attempt, part.number))
        return {chain: part for part in ordered for chain in part.chains}

    def with_parts(self, members: Iterable[Part], states: Iterable[StatePart]) -> "Manifest":
        """The same with other files."""
        return replace(self, members=tuple(members), states=tuple(states))

    def encode(self) -> bytes:
        """The content of `run.json`."""
        content = {"format": FORMAT, **vars(self)}
        content |= {kind: [vars(part) for part in content[kind]] for kind in ("members", "states", "beside")}
        lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in content.items()]
        return ("{" + ",\n".join([*lines, f'"sha256": "{_digest(content)}"']) + "}\n").encode()

    def is_in(self, folder: Path) -> bool:
        """Whether both files in a folder are this manifest."""
        content = self.encode()
        try:
            return all(files.read(folder / name) == content for name in (NAME, COPY))
        except Damaged:
            return False

    def write(self, folder: Path) -> None:
        """Put the manifest into its folder; when this returns, it will last."""
        content = self.encode()
        files.put(folder / COPY, content)
        files.put(folder / NAME, content)
        files.sync(folder)


def calls_for(plan: Mapping[str, Any], members: int) -> int:
    """Calls that a chain of so many members has behind it, by the plan that a manifest tells."""
    done = 0
    for _, draws, _, count in plan["calls"]:
        if members <= 0:
            break
        used = min(count, -(-members // draws)) if draws else count
        done, members = done + used, members - used * draws
    return done


def read(folder: Path) -> Manifest | None:
    """The manifest of a run, or its copy where it is damaged; None where there is neither, or no such folder.

    StoreDamaged where there is no good one, InvalidInput where it is of a version that is not known here.
    """
    if not folder.is_dir():
        return None
    reasons, other = [], None
    for name in (NAME, COPY):
        try:
            found = parse(folder / name)
        except Missing:
            if name == NAME and (folder / COPY).exists():
                reasons.append(f"{folder / name} is missing")
        except OtherFormat as error:
            other = other or error
            reasons.append(f"{folder / name} is of format {error.number}")
            if error.whole:
                break
        except Damaged as reason:
            reasons.append(f"{folder / name} is damaged: {reason}")
        else:
            if reasons and found.members:  # without members it may be a run that was killed in its first write
                warn(f"{reasons[0]}. Its copy {COPY} is whole and was read in its place", DamagedWarning)
            return found
    if other is not None:
        newer = type(other.number) is int and other.number > FORMAT
        remedy = "Use a newer anchorwalk." if newer else "Use the version of anchorwalk that wrote it."
        checks.reject("store", f"a run of format {other.number} in {folder}", f"format {FORMAT}", remedy)
    if reasons:
        raise StoreDamaged(f"{'; '.join(reasons)}. Bring {NAME} back from a copy; the members' files are not touched.")
    return None


class OtherFormat(Damaged):
    """A manifest of another version; `whole` tells whether its checksum fits as it would in this version."""

    def __init__(self, number: Any, whole: bool) -> None:
        super().__init__("it is of another format")
        self.number, self.whole = number, whole


def parse(path: Path) -> Manifest:
    """A manifest from one of its two files; Damaged where it is not as it was written, missing or of another format."""
    try:
        loaded = files.from_json(files.read(path))
        number, whole = loaded["format"], loaded.pop("sha256", None) == _digest(loaded)
        if number != FORMAT:
            raise OtherFormat(number, whole)
        if not whole:
            raise Damaged("its checksum does not fit its content")
        check_counts(loaded["failed"])
        manifest = Manifest(
            header={str(name): str(text) for name, text in loaded["header"].items()},
            about=dict(loaded["about"]),
            environments=tuple(dict(one) for one in loaded["environments"]),
            members=tuple(Part(**{**entry, "chains": tuple(entry["chains"])}) for entry in loaded["members"]),
            states=tuple(StatePart(**{**entry, "chains": tuple(entry["chains"])}) for entry in loaded["states"]),
            failed=tuple(loaded["failed"]),
            beside=tuple(Beside(**entry) for entry in loaded.get("beside", [])),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"it cannot be read ({type(error).__name__}: {error})") from None
    if len(manifest.files) != len(manifest.parts):
        raise Damaged("it names a file twice")
    return manifest


@contextmanager
def understood(folder: Path) -> Iterator[None]:
    """Use what a manifest says; where it lacks or garbles that, StoreDamaged says so."""
    try:
        yield
    except InvalidInput:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        raise StoreDamaged(f"{folder / NAME} lacks or garbles what a run needs ({error!r})") from None


def _lines(value: Any) -> str:
    """JSON with a line for each entry of a list: quick to write, and still to be read."""
    if isinstance(value, list | tuple) and value:
        return "[\n" + ",\n".join(json.dumps(one, allow_nan=False) for one in value) + "]"
    return json.dumps(value, allow_nan=False)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def check_counts(numbers: Iterable[Any]) -> None:
    """Raise ValueError where one is no whole number from 0 to a bound."""
    if not all(type(number) is int and 0 <= number < LARGEST for number in numbers):
        raise ValueError("a number that is none")
