"""Records of runs: one JSON file each, written once the run is scored."""

import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, files

FORMAT = 1
DECISIVE = ("plan", "walk", "prior_variance", "data_hash", "reference")
"""Parts of a record that must be equal for it to count as the run that is asked for."""


def name_of(label: str, method: str, budget: int, protocol: str, seed: int, run: int) -> str:
    """The name of a run's record, without its ending."""
    marked = "" if protocol == "argmin" else f"-{protocol}"
    return f"{label}-{method}-{budget}{marked}-seed{seed}-run{run:03d}"


def write(folder: Path, name: str, record: dict[str, Any], predictions: dict[str, Any] | None = None) -> None:
    """Write a record, and before it its predictions, so that a record never lacks them."""
    if predictions is not None:
        path = folder / f"{name}.predictions.npz"
        temporary = folder / f".{name}.predictions.tmp.npz"
        np.savez_compressed(temporary, **predictions)
        os.replace(temporary, path)
    save(folder / f"{name}.json", {"format": FORMAT, **record})


def save(path: Path, record: dict[str, Any]) -> None:
    """Write a record of any kind as JSON; its folder is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write(path, (json.dumps(record, indent=1) + "\n").encode())


def rounded(values: Mapping[str, float]) -> dict[str, float]:
    """Scores as records hold them: six digits."""
    return {name: float(f"{value:.6g}") for name, value in values.items()}


def there(folder: Path, name: str, with_predictions: bool) -> bool:
    """Whether a run is done."""
    predictions = folder / f"{name}.predictions.npz"
    return (folder / f"{name}.json").exists() and (predictions.exists() or not with_predictions)


def check_same(folder: Path, names: Iterable[str], about: dict[str, Any]) -> None:
    """Refuse records of these names that were made in another way: they would count as runs of this kind.

    Raises:
        InvalidInput: One is there, and differs.
    """
    for path in (folder / f"{name}.json" for name in names):
        if not path.exists():
            continue
        stored = _load(path)
        differing = [part for part in DECISIVE if stored.get(part) != about.get(part)]
        if stored.get("format") != FORMAT:
            differing.append("format")
        if differing:
            given = f"the record {str(path)!r} with another {' and '.join(differing)}"
            checks.reject("results", given, "records made as this run would be", "Remove it, or choose another folder.")


def _load(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text())
    except json.JSONDecodeError as error:
        checks.reject(str(path), f"text that is no JSON ({error})", "a record", "Remove the file; its run is redone.")
    return record


def read_all(folder: Path) -> list[dict[str, Any]]:
    """All records of the benchmark in a folder, in the order of their names.

    Raises:
        InvalidInput: A record that cannot be read.
    """
    records = []
    for path in sorted(folder.glob("*-run*.json")):
        record = _load(path)
        if record.get("format") == FORMAT and record.get("kind") == "benchmark":
            records.append(record)
    return records


def surroundings() -> dict[str, Any]:
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
    here = Path(__file__).parent

    def git(*arguments: str) -> str:
        return subprocess.run(["git", "-C", str(here), *arguments], capture_output=True, text=True, check=True).stdout

    try:
        tracked = git("ls-files", "--", str(Path(__file__))).strip()
        if not tracked:
            return None
        changed = git("status", "--porcelain", "--untracked-files=no", "--", str(here.parent)).strip()
        return git("rev-parse", "HEAD").strip() + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return None
