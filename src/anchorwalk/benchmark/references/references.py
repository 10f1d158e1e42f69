"""Posteriors to compare with: ours, as quantiles in the package, and published ones, as probabilities."""

import json
from dataclasses import dataclass, field, replace
from importlib.resources import as_file
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark.datasets import source
from anchorwalk.posterior import metrics
from anchorwalk.types import HostArray

LEVELS = 1000  # quantiles kept of each row; the k-th is at probability (k + 1/2) / LEVELS


@dataclass(frozen=True, eq=False)
class Reference:
    """Predictions of a reference posterior on the first test rows."""

    kind: str  # "probabilities" of classes, or "quantiles" of a number
    values: HostArray  # shape (rows, classes) or (rows, levels)
    source: str  # where they come from
    floor: dict[str, float] = field(default_factory=dict)  # distance of its two halves, by score: no other can beat it
    about: dict[str, Any] = field(default_factory=dict)  # what else is known, such as evidence of its convergence

    @property
    def rows(self) -> int:
        """Test rows that it has."""
        return len(self.values)

    def first(self, rows: int) -> "Reference":
        """The same of the first `rows` test rows at most; the floor is known for all rows only."""
        return self if rows >= self.rows else replace(self, values=self.values[:rows], floor={})

    def compare(self, values: HostArray) -> dict[str, float]:
        """Distances of other predictions, on the rows that this has; see `distances`."""
        return distances(self.kind, values[: self.rows], self.values)


def distances(kind: str, one: HostArray, other: HostArray) -> dict[str, float]:
    """Distances between predictions of two posteriors, rows first, by score.

    Of "probabilities" agreement and total variation, of "quantiles" pointwise W1 and W2.
    """
    if kind == "probabilities":
        return {"agreement": metrics.agreement(one, other), "total_variation": metrics.total_variation(one, other)}
    checks.choice("kind", kind, ("probabilities", "quantiles"))
    return {"w1": metrics.wasserstein1(one.T, other.T), "w2": metrics.wasserstein2(one.T, other.T)}


def published(task: str) -> Reference | None:
    """Published predictions of Hamiltonian Monte Carlo, from `hmc_TASK*.npz` beside the data; None without such a file.

    The file must hold `probs`, shape (rows, classes), for the first test rows in the data's own order.
    """
    best: Reference | None = None
    for folder in (source.own_folder(), source.cache_folder()):
        for path in sorted(folder.glob(f"hmc_{task}[_.]*npz")) if folder is not None else ():
            with np.load(path) as archive:
                if "probs" not in archive:
                    checks.reject(str(path), f"arrays {sorted(archive)}", "an array `probs`", "Bring the file back.")
                probabilities = np.asarray(archive["probs"], np.float64)
            if best is None or len(probabilities) > best.rows:
                origin = f"published predictions of Hamiltonian Monte Carlo, {path.name}"
                best = Reference("probabilities", probabilities, origin)
    return best


def packaged(name: str) -> Reference | None:
    """A reference of ours that comes with the package; None where there is none."""
    path = package_files("anchorwalk.benchmark.references").joinpath("posteriors", f"{name}.npz")
    if not path.is_file():
        return None
    with as_file(path) as file:
        return replace(read(file), source=f"Hamiltonian Monte Carlo, {name} in the package")


def read(path: Path) -> Reference:
    """A reference from a file that `write` made."""
    with np.load(path) as archive:
        about = json.loads(str(archive["about"]))
        values = archive["centre"].astype(np.float64)[:, None] + archive["offsets"].astype(np.float64)
    kind, floor = about.pop("kind"), about.pop("floor")
    if kind == "quantiles":
        values.sort(axis=1)  # rounding may swap neighbours
    return Reference(kind, values, f"Hamiltonian Monte Carlo, {path.name}", floor, about)


def write(path: Path, kind: str, values: HostArray, floor: dict[str, float], about: dict[str, Any]) -> None:
    """Store a reference compactly, in float16.

    Quantiles are kept about each row's median, so that their error is below 0.05% of their distance from it.
    """
    centre = values[:, values.shape[1] // 2] if kind == "quantiles" else np.zeros(len(values))
    offsets = (values - centre[:, None]).astype(np.float16)
    text = json.dumps({"kind": kind, "floor": floor, **about})
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, centre=centre.astype(np.float32), offsets=offsets, about=np.array(text))
