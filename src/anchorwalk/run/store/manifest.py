"""The manifest of a run: what it is, and which files belong to it.

`run.json` and its copy `run.backup.json` are JSON with a checksum of their own content. Files come first, the copy of
the manifest next and the manifest last, so that a manifest never names what is not there.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from anchorwalk import checks, files
from anchorwalk.errors import DamagedWarning, StoreDamaged, warn
from anchorwalk.run.store.tensors import Damaged, open_plain

FORMAT = 3
NAME, COPY = "run.json", "run.backup.json"
FILE = re.compile(r"(members|state)-\d{6,12}-\d{6,12}(-\d{1,9})?\.safetensors")
"""Names that files of a run can have: none leads out of its folder."""
LARGEST = 2**31
"""Chains and indices are below this."""
LONGEST = 256 * 2**20
"""Bytes of a manifest that are read."""


@dataclass(frozen=True)
class Part:
    """A file of members of some chains.

    Attributes:
        file: Its name in the run's folder.
        bytes: Its size.
        sha256: Its checksum.
        chains: The chains in it, in the order of its second axis.
        first: The first member's place in its chain.
        count: Members of each chain, in the order of its first axis.
        step: From one member's place to the next one's.
        call: The kind of the calls that made them.
    """

    file: str
    bytes: int
    sha256: str
    chains: tuple[int, ...]
    first: int
    count: int = 1
    step: int = 1
    call: str = ""

    @property
    def places(self) -> Iterator[tuple[int, int, int, int]]:
        """Chain, index, row and lane of each member."""
        for row in range(self.count):
            for lane, chain in enumerate(self.chains):
                yield chain, self.first + row * self.step, row, lane


@dataclass(frozen=True)
class StatePart:
    """A file of the states of some chains.

    Attributes:
        file: Its name in the run's folder.
        bytes: Its size.
        sha256: Its checksum.
        chains: The chains in it, in the order of its first axis.
        number: The call that left the states.
        members: Members of each chain up to then.
        attempt: How often the chains had been started anew.
    """

    file: str
    bytes: int
    sha256: str
    chains: tuple[int, ...]
    number: int
    members: int
    attempt: int = 0


@dataclass(frozen=True)
class Manifest:
    """What a run's folder says of it.

    Attributes:
        header: What must be equal for the run to resume, as text.
        about: What a reader needs: plan, key, prior, likelihood, tree and arrays of the parameters.
        environments: Versions and machine of each stretch of the run, and the number of members before it.
        members: Files of members.
        states: Files of chain states.
        failed: Chains without a good first draw.
    """

    header: dict[str, str] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)
    environments: tuple[dict[str, Any], ...] = ()
    members: tuple[Part, ...] = ()
    states: tuple[StatePart, ...] = ()
    failed: tuple[int, ...] = ()

    @property
    def files(self) -> set[str]:
        """All files that belong to the run."""
        return {part.file for part in self.parts}

    @property
    def parts(self) -> list[Part | StatePart]:
        """All files, those of members first."""
        return [*self.members, *self.states]

    def with_parts(self, members: Sequence[Part], states: Sequence[StatePart]) -> "Manifest":
        """The same with other files."""
        return replace(self, members=tuple(members), states=tuple(states))

    def encode(self) -> bytes:
        """The content of `run.json`."""
        content = {
            "format": FORMAT,
            "header": self.header,
            "about": self.about,
            "environments": list(self.environments),
            "members": [_written(part) for part in self.members],
            "states": [_written(part) for part in self.states],
            "failed": list(self.failed),
        }
        lines = [f"{json.dumps(name)}: {_lines(value)}" for name, value in content.items()]
        return ("{" + ",\n".join([*lines, f'"sha256": "{_digest(content)}"']) + "}\n").encode()

    def is_in(self, folder: Path) -> bool:
        """Whether both files in a folder are this manifest."""
        content = self.encode()
        try:
            return all(_content(folder / name) == content for name in (NAME, COPY))
        except (Damaged, FileNotFoundError):
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


def members_file(first: int, chain: int, count: int) -> str:
    """The name of a file of members, by its first place, first chain and number of members of each."""
    return f"members-{first:06d}-{chain:06d}" + (f"-{count}" if count > 1 else "") + ".safetensors"


def state_file(number: int, chain: int, attempt: int) -> str:
    """The name of a file of states, by the call that left them, its first chain and its attempt."""
    return f"state-{number:06d}-{chain:06d}" + (f"-{attempt}" if attempt else "") + ".safetensors"


def read(folder: Path) -> Manifest | None:
    """The manifest of a run, or of its copy where it is damaged; None where there is neither.

    Raises:
        StoreDamaged: Where there is no good one.
        InvalidInput: Where it is of a version that is not known here.
    """
    reasons, other = [], None
    for name in (NAME, COPY):
        try:
            found = decode(_content(folder / name))
        except FileNotFoundError:
            if name == NAME and (folder / COPY).exists():
                reasons.append(f"{folder / name} is missing")
            continue
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


class OtherFormat(Exception):
    """A manifest of another version; `whole` tells whether its checksum fits as it would in this version."""

    def __init__(self, number: Any, whole: bool) -> None:
        self.number, self.whole = number, whole


def decode(content: bytes) -> Manifest:
    """A manifest from its bytes.

    Raises:
        Damaged: Anything that is not as it was written.
        OtherFormat: Another version.
    """
    try:
        loaded = json.loads(content)
        number, whole = loaded["format"], loaded.pop("sha256", None) == _digest(loaded)
        if number != FORMAT:
            raise OtherFormat(number, whole)
        if not whole:
            raise Damaged("its checksum does not fit its content")
        manifest = Manifest(
            header={str(name): str(text) for name, text in loaded["header"].items()},
            about=dict(loaded["about"]),
            environments=tuple(dict(one) for one in loaded["environments"]),
            members=tuple(_part(entry) for entry in loaded["members"]),
            states=tuple(_state_part(entry) for entry in loaded["states"]),
            failed=tuple(_counts(loaded["failed"])),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Damaged(f"it cannot be read ({type(error).__name__}: {error})") from None
    if len(manifest.files) != len(manifest.members) + len(manifest.states):
        raise Damaged("it names a file twice")
    return manifest


def _content(path: Path) -> bytes:
    descriptor = open_plain(path)
    try:
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(LONGEST + 1)
    except OSError as error:
        raise Damaged(f"it cannot be read ({error.strerror})") from None
    if len(content) > LONGEST:
        raise Damaged(f"it is longer than {LONGEST} bytes")
    return content


def _lines(value: Any) -> str:
    """JSON with a line for each entry of a list: quick to write, and still to be read."""
    if isinstance(value, list) and value:
        return "[\n" + ",\n".join(json.dumps(one, allow_nan=False) for one in value) + "]"
    return json.dumps(value, allow_nan=False)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _written(part: Part | StatePart) -> dict[str, Any]:
    return {**vars(part), "chains": list(part.chains)}


def _part(entry: Any) -> Part:
    part = Part(**{**entry, "chains": tuple(entry["chains"])})
    if not (type(part.step) is int and part.step >= 1 and isinstance(part.call, str)):
        raise ValueError(f"the entry of {part.file}")
    _counts((part.first, part.count, part.first + (part.count - 1) * part.step))
    _check_file(part, "members")
    # A member has some numbers at least: an entry cannot claim more of them than its file has bytes.
    if not 1 <= part.count * len(part.chains) <= part.bytes:
        raise ValueError(f"the members of {part.file}")
    return part


def _state_part(entry: Any) -> StatePart:
    part = StatePart(**{**entry, "chains": tuple(entry["chains"])})
    _counts((part.number, part.members, part.attempt))
    _check_file(part, "state")
    return part


def _check_file(part: Part | StatePart, kind: str) -> None:
    _counts(part.chains)
    if not (isinstance(part.file, str) and FILE.fullmatch(part.file) and part.file.startswith(kind)):
        raise ValueError(f"the file name {part.file!r}")
    if not (type(part.bytes) is int and part.bytes >= 0 and isinstance(part.sha256, str)):
        raise ValueError(f"the entry of {part.file}")
    if len(set(part.chains)) != len(part.chains) or not part.chains:
        raise ValueError(f"the chains of {part.file}")


def _counts(numbers: Any) -> Any:
    """Whole numbers from 0 to a bound, or an error."""
    if not all(type(number) is int and 0 <= number < LARGEST for number in numbers):
        raise ValueError("a number that is none")
    return numbers
