"""Files that others keep beside a run, such as what an estimator knows: under the checksums of the run's manifest.

A file is first named in the manifest, beside its former entry, then replaced, and then alone in the manifest: at every
moment the file that is there is one that the manifest names, and a call that was killed can be repeated.
"""

import hashlib
from dataclasses import replace
from pathlib import Path

from anchorwalk import checks, files
from anchorwalk.errors import StoreDamaged, StoreFailed
from anchorwalk.files import Damaged, Missing
from anchorwalk.run.store import manifest as manifests
from anchorwalk.run.store.lock import LOCK, Lock
from anchorwalk.run.store.manifest import NAME, Beside, Manifest


def write(folder: Path, name: str, content: bytes, lock: Lock | None = None) -> None:
    """Put a file beside a run, or another in its place; the file is there whole or not at all.

    Raises:
        InvalidInput: A folder without a run, or to which another process writes.
        StoreFailed: It could not be written.
    """
    if len(content) > files.LONGEST:
        checks.reject("save", f"{len(content):,} bytes for {name}", f"{files.LONGEST:,} at most", "Use fewer classes.")
    held = Lock(folder / LOCK) if lock is None else lock
    held.acquire()
    try:
        found = manifests.read(folder)
        if found is None:
            checks.reject("save", f"{str(folder)!r} without a run", "the folder of a run", "Fit into it first.")
        entry = Beside(name, len(content), hashlib.sha256(content).hexdigest())
        former = tuple(one for one in found.beside if one.file == name)
        if former == (entry,) and not damaged(folder, replace(found, beside=former)):
            return
        others = tuple(one for one in found.beside if one.file != name)
        for beside in ((*others, *former, entry), (*others, entry)):
            held.check()
            replace(found, beside=beside).write(folder)
            if beside[-1] == entry:
                files.write(folder / name, content)
    except OSError as error:
        raise StoreFailed(
            f"could not write {folder / name}: {error.strerror or error}. The run's members "
            "are whole; free some space or repair the disk, and save again."
        ) from error
    finally:
        held.release()


def read(folder: Path, name: str) -> bytes:
    """The content of a file beside a run, which its manifest vouches for.

    Raises:
        StoreDamaged: A file that is missing though it is named, not the one that is named, or beside no run.
        Missing: No such file, and none that is named.
    """
    found = manifests.read(folder)
    entries = () if found is None else tuple(one for one in found.beside if one.file == name)
    try:
        content = files.read(folder / name)
        if found is None:
            raise Damaged(f"there is no {NAME} beside it")
        _compare(content, entries)
    except Missing:
        if not entries:
            raise
        reason = "it is missing, though the run names it: save() did not finish, or the file was removed"
    except Damaged as damage:
        reason = str(damage)
    else:
        return content
    raise StoreDamaged(f"{folder / name} is not what was written: {reason}. Save again, or bring it back from a copy.")


def damaged(folder: Path, manifest: Manifest) -> dict[str, str]:
    """Files beside a run that are missing or not as they were written, and why."""
    result = {}
    for name in dict.fromkeys(one.file for one in manifest.beside):
        try:
            _compare(files.read(folder / name), tuple(one for one in manifest.beside if one.file == name))
        except Damaged as reason:
            result[name] = str(reason)
    return result


def _compare(content: bytes, entries: tuple[Beside, ...]) -> None:
    if not entries:
        raise Damaged(f"{NAME} does not name it: it was not saved there, or by an earlier version")
    if all((one.bytes, one.sha256) != (len(content), hashlib.sha256(content).hexdigest()) for one in entries):
        raise Damaged("its checksum does not fit its content")
