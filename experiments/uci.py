"""The tables of $ANCHORWALK_DATA/uci, and which of their rows are for the test.

Those with published splits (Hernandez-Lobato and Adams 2015; gaps of Foong et al. 2019) hold them as `standard_test_k`
and `gap_test_k`. Others are split as bde's benchmark does it: one random fifth, and seeds of the fit in place of
splits. Classes are split at random, by class.
"""

import os
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.model_selection import train_test_split

NAMES = ("airfoil", "australian", "bike", "boston", "energy", "glass", "kin8nm", "power", "sonar", "wine")
"""Tables that are expected; others in the folder are taken too."""
LARGE, OF_LARGE, SEEDS = 5000, 5, 5
"""Rows from which on only the first 5 of the 20 standard splits are used; splits or seeds where none are published."""


class Split(NamedTuple):
    """One way to part a table's rows."""

    table: str
    kind: str  # "standard", "gap" or "random"
    number: int

    @property
    def parts(self):
        """Features and targets: x, x_test, y, y_test."""
        table, seed = load(self.table), self.number
        x, y = table["x"], table["y"]
        if self.kind != "random":
            test = np.zeros(len(x), bool)
            test[table[f"{self.kind}_test_{self.number}"]] = True
            return x[~test], x[test], y[~test], y[test]
        if is_classes(self.table):
            return train_test_split(x, y, test_size=0.3, random_state=seed, stratify=y)
        return train_test_split(x, y, test_size=0.2, random_state=0)


def folder():
    """Where the tables are; it need not be there."""
    return Path(os.environ.get("ANCHORWALK_DATA", "")) / "uci"


def names():
    """The tables, and for each that is expected but not there the reason."""
    found = {path.stem: None for path in sorted(folder().glob("*.npz"))} if "ANCHORWALK_DATA" in os.environ else {}
    where = "ANCHORWALK_DATA is not set" if "ANCHORWALK_DATA" not in os.environ else f"{folder()} has no such table"
    return found | {name: where for name in NAMES if name not in found}


@cache
def load(name):
    """The arrays of a table."""
    with np.load(folder() / f"{name}.npz", allow_pickle=False) as stored:
        return dict(stored)


def is_classes(name):
    return load(name)["y"].dtype.kind in "iu"


def splits(name):
    """All splits of a table that are evaluated."""
    table = load(name)
    found = [re.fullmatch(r"(standard|gap)_test_(\d+)", key) for key in table]
    parts = sorted(((one[1] == "gap", one[1], int(one[2])) for one in found if one), key=lambda part: part[::2])
    if not parts:
        return [Split(name, "random", seed) for seed in range(SEEDS)]
    least = OF_LARGE if len(table["x"]) >= LARGE else len(parts)
    return [Split(name, kind, number) for _, kind, number in parts if kind == "gap" or number < least]


def never_tested(name):
    """Rows to choose settings on: those that are a test row of no standard or random split that is evaluated.

    Gaps together take nearly all rows, so their rows are among these.
    """
    table = load(name)
    rows = np.arange(len(table["x"]))
    if is_classes(name):
        return rows  # they are there to choose on: what is compared on them afterwards was chosen on them
    tested = [table[f"standard_test_{s.number}"] for s in splits(name) if s.kind == "standard"]
    if tested:
        return np.setdiff1d(rows, np.concatenate(tested))
    return np.sort(train_test_split(rows, test_size=0.2, random_state=0)[0])
