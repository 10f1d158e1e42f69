"""Records: JSON-lines files, one for each task and method; a line is one run, written once the run is scored.

Lines are only ever appended. Each record has a name; where two lines have the same name, the later one counts.
"""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, files

try:
    import fcntl
except ImportError:  # pragma: no cover  # not a POSIX system: nothing guards two processes from each other
    fcntl = None  # type: ignore[assignment]

FORMAT = 1
DECISIVE = ("plan", "walk", "prior_variance", "data_hash", "reference")
"""Parts of a record that must be equal for it to count as the run that is asked for."""
CHUNK = 2**16


def name_of(label: str, method: str, budget: int, protocol: str, seed: int, run: int) -> str:
    """The name of a run's record."""
    marked = "" if protocol == "argmin" else f"-{protocol}"
    return f"{label}-{method}-{budget}{marked}-seed{seed}-run{run:03d}"


def path_of(folder: Path, task: str, method: str) -> Path:
    """The file with the runs of a method on a task."""
    return folder / f"{task}-{method}.jsonl"


def write(path: Path, record: dict[str, Any], predictions: dict[str, Any] | None = None) -> None:
    """Append a run's record, and save its predictions before that, so that a record never lacks them."""
    if predictions is not None:
        target = _predictions(path, record["name"])
        temporary = target.with_name(f".{target.name}.tmp.npz")
        np.savez_compressed(temporary, **predictions)
        os.replace(temporary, target)
    append(path, {"name": record["name"], "format": FORMAT, **record})


def append(path: Path, record: Mapping[str, Any]) -> None:
    """Append a record as one line; when this returns, the line is whole and on disk.

    Processes that append to one file wait for each other. What a killed process left of a line is removed.

    Args:
        path: The file; it and its folder are made where they are missing.
        record: What JSON can hold, with a "name".
    """
    line = (json.dumps(record) + "\n").encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    new = not path.exists()
    with _locked(path) as descriptor:
        size = _end_of_last_line(descriptor)
        try:
            os.ftruncate(descriptor, size)
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, size)  # a full disk: no half of a line stays
            raise
    if new:
        files.sync(path.parent)


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file's descriptor, which no other process writes to meanwhile."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(descriptor, fcntl.LOCK_EX)  # given back when the descriptor is closed
            try:
                same = os.path.samestat(os.fstat(descriptor), os.stat(path))
            except FileNotFoundError:
                same = False
            if same:  # else the file was replaced or removed while this process waited
                yield descriptor
                return
        finally:
            os.close(descriptor)


def _end_of_last_line(descriptor: int) -> int:
    """Bytes up to the last line break, from which on a line is not whole."""
    end = os.fstat(descriptor).st_size
    while end > 0:
        start = max(0, end - CHUNK)
        found = os.pread(descriptor, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Scores as records hold them: six digits."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def missing(path: Path, names: Mapping[int, str], with_predictions: bool) -> list[int]:
    """The runs, by number, that are not recorded yet, or whose predictions are not there where they are wanted."""
    stored = read(path)

    def done(name: str) -> bool:
        return name in stored and (_predictions(path, name).exists() or not with_predictions)

    return [run for run, name in names.items() if not done(name)]


def _predictions(path: Path, name: str) -> Path:
    return path.with_name(f"{name}.predictions.npz")


def check_same(path: Path, names: Iterable[str], about: dict[str, Any]) -> None:
    """Refuse records of these names that were made in another way: they would count as runs of this kind.

    Raises:
        InvalidInput: One is there, and differs.
    """
    stored = read(path)
    for name in names:
        if name not in stored:
            continue
        differing = [part for part in DECISIVE if stored[name].get(part) != about.get(part)]
        if stored[name].get("format") != FORMAT:
            differing.append("format")
        if differing:
            given = f"the record {name!r} in {str(path)!r} with another {' and '.join(differing)}"
            remedy = "Remove its line, or choose another folder."
            checks.reject("results", given, "records made as this run would be", remedy)


def read(path: Path, lines: int | None = None) -> dict[str, dict[str, Any]]:
    """The records of a file by name, in the order of their first lines; none where there is no file.

    A last line without its end is not read: it is being written, or its writer was killed.

    Args:
        path: The file.
        lines: Read the first so many lines only: the file as it once was.

    Raises:
        InvalidInput: A line that is no record.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(content.split(b"\n")[:-1][:lines], start=1):
        try:
            record = json.loads(line)
            found[record["name"]] = record
        except (ValueError, TypeError, KeyError) as error:
            remedy = "Remove the line; its run is redone."
            checks.reject(f"{path}, line {number}", f"{line[:80]!r} ({error!r})", "a record with a name", remedy)
    return found


def read_all(folder: Path, lines: Mapping[str, int] | None = None) -> list[dict[str, Any]]:
    """All records of the benchmark in a folder, in the order of their names.

    Args:
        folder: Where the files are.
        lines: How many lines of each file to read, by its name without the ending; None reads all.

    Raises:
        InvalidInput: A record that cannot be read.
    """
    limits = {path: None if lines is None else lines.get(path.stem, 0) for path in sorted(folder.glob("*.jsonl"))}
    found = [record for path, limit in limits.items() for record in read(path, limit).values()]
    kept = [record for record in found if record.get("format") == FORMAT and record.get("kind") == "benchmark"]
    return sorted(kept, key=lambda record: str(record["name"]))


def environment() -> dict[str, Any]:
    """Where a run was made: versions, commit, device."""
    from anchorwalk import __version__

    device = jax.devices()[0]
    return {
        "version": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "device": f"{device.platform}: {device.device_kind}",
        "cores": os.cpu_count(),
    }


def _commit() -> str | None:
    """The commit of the source tree that runs, with a + if files differ from it; None outside of one."""
    folder = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        tracked = git("ls-files", "--", str(Path(__file__))).strip()
        if not tracked:
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(folder.parent)).strip()
        return git("rev-parse", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
