"""UCI Energy Efficiency: 768 buildings, eight features, the heating load as target.

Data by A. Tsanas and A. Xifara, CC BY 4.0; see the first lines of `energy.csv` and `energy_gaps.json`.
"""

import json
from importlib.resources import files
from typing import NamedTuple

import numpy as np

from anchorwalk import checks
from anchorwalk.types import HostArray


class Table(NamedTuple):
    """A table of numbers.

    Attributes:
        x: Features, shape (rows, features).
        y: Target, shape (rows,).
        features: Names of the features.
        target: Name of the target.
    """

    x: HostArray
    y: HostArray
    features: tuple[str, ...]
    target: str


def energy() -> Table:
    """The energy data, as it is published.

    Example:
        >>> from anchorwalk.benchmark.datasets import energy
        >>> energy().x.shape, energy().target
        ((768, 8), 'heating_load')
    """
    text = files("anchorwalk.benchmark.datasets").joinpath("energy.csv").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    *features, target = lines[0].split(",")
    values = np.array([[float(value) for value in line.split(",")] for line in lines[1:]])
    return Table(values[:, :-1], values[:, -1], tuple(features), target)


def gap_split(x: HostArray, feature: int) -> tuple[HostArray, HostArray]:
    """Rows outside and inside the middle third of a feature; ties keep the rows' order.

    Args:
        x: Features, shape (rows, features).
        feature: Which of them.

    Returns:
        Row numbers outside the gap, and inside.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.benchmark.datasets import gap_split
        >>> gap_split(np.array([[5.0], [3.0], [4.0]]), 0)
        (array([0, 1]), array([2]))
    """
    if not 0 <= feature < x.shape[1]:
        checks.reject("feature", feature, f"a column from 0 to {x.shape[1] - 1}", "Choose one of them.")
    rows = len(x)
    order = np.argsort(x[:, feature], kind="stable")
    inside = np.sort(order[rows // 3 : rows - rows // 3])
    return np.setdiff1d(np.arange(rows), inside), inside


def energy_gap(feature: int) -> tuple[HostArray, HostArray]:
    """The rows of a gap split of the energy data, as the paper's UCI-Gap has them.

    The middle third of a feature is for testing. Most features take few values, so that ties decide much, and the
    published splits break them in a way of their own: only for features 0 and 1 does `gap_split` find the same rows.

    Args:
        feature: Which split, from 0 to 7.

    Returns:
        512 row numbers for training and 256 for testing, in the published order.

    Raises:
        InvalidInput: No such split.

    Example:
        >>> from anchorwalk.benchmark.datasets import energy, energy_gap
        >>> train, test = energy_gap(5)
        >>> energy().x[train].shape, energy().x[test].shape
        ((512, 8), (256, 8))
    """
    text = files("anchorwalk.benchmark.datasets").joinpath("energy_gaps.json").read_text(encoding="utf-8")
    gaps = json.loads(text)["gaps"]
    if checks.count("feature", feature, least=0) >= len(gaps):
        checks.reject("feature", feature, f"a column from 0 to {len(gaps) - 1}", "Choose one of them.")
    return np.array(gaps[feature]["train"]), np.array(gaps[feature]["test"])
