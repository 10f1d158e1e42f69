"""New folders that are there whole or not at all: written under another name beside it, and renamed last."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from anchorwalk import checks, files
from anchorwalk.errors import StoreDamaged, StoreFailed
from anchorwalk.run.store.lock import LOCK, Lock
from anchorwalk.run.store.manifest import BESIDE, COPY, FILE, NAME, Beside, File, Manifest

UNFINISHED = ".unfinished"
"""What the name of a folder that is not finished ends with."""


@contextmanager
def new(out: Path) -> Iterator[tuple[Path, Lock]]:
    """A folder to write a run into, and its lock; when the block ends it gets its name, and on errors it goes.

    A killed process leaves the unfinished folder; the next call with the same name removes what is in it.

    Raises:
        InvalidInput: A folder that is not empty, or that another process is making.
        StoreFailed: It could not be renamed.
    """
    out = out.resolve()
    _check_free(out)
    part = out.with_name(out.name + UNFINISHED)
    if part.is_symlink() or (part.exists() and not part.is_dir()):
        checks.reject("out", f"{str(part)!r}, which is no folder", "a name that is free", "Remove it.")
    part.mkdir(parents=True, exist_ok=True)
    lock = Lock(part / LOCK)
    lock.acquire()
    try:
        _clear(part)
        try:
            yield part, lock
            files.sync(part)
            lock.check()
            _check_free(out)
            _rename(part, out, lock)
        except BaseException:
            with suppress(StoreFailed):  # then it is another's
                lock.check()
                shutil.rmtree(part, ignore_errors=True)
            raise
    finally:
        lock.release()


def refuse_unfinished(folder: Path) -> None:
    """StoreDamaged for a folder that was not finished."""
    if folder.name.endswith(UNFINISHED):
        raise StoreDamaged(
            f"{folder} is unfinished: the command that makes it is still at work, or was killed. "
            "Repeat the save, thin or merge, which starts anew, or remove the folder."
        )


def copy_files(folder: Path, manifest: Manifest, out: Path, beside: bool = False) -> None:
    """Copy the files that a manifest names, comparing their checksums on the way."""
    listed: list[File | Beside] = [*manifest.parts, *(manifest.beside if beside else ())]
    for part in listed:
        try:
            files.copy(folder / part.file, out / part.file, part.bytes, part.sha256)
        except files.Damaged as reason:
            raise StoreDamaged(
                f"the file {folder / part.file} is damaged: {reason}. Bring it back from a copy, or take it out of its "
                f"run with `anchorwalk prune {folder}` first."
            ) from None


def _check_free(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        remedy = "Choose another name: nothing is overwritten."
        checks.reject("out", repr(str(out)), "a folder that is empty or not there yet", remedy)


def _clear(part: Path) -> None:
    """Remove what a killed process has left; nothing where other files are there."""
    found = [path for path in part.iterdir() if path.name != LOCK]
    for path in found:
        name = path.name.removesuffix(files.TEMPORARY)
        if not (FILE.fullmatch(name) or BESIDE.fullmatch(name) or name in (NAME, COPY)) or path.is_dir():
            given = f"{str(part)!r} with other files in it, such as {path.name!r}"
            checks.reject("out", given, "what a killed process has left, or nothing", "Remove it, or choose another.")
    for path in found:
        path.unlink()


def _rename(part: Path, out: Path, lock: Lock) -> None:
    if os.name == "nt":  # Windows renames no folder in which a file is open, and none to a name that is there
        lock.release()
        with suppress(FileNotFoundError):
            out.rmdir()
    try:
        os.rename(part, out)
        files.sync(out.parent)
    except OSError as error:
        raise StoreFailed(
            f"could not rename {part} to {out}: {error.strerror or error}. Choose another name."
        ) from error
