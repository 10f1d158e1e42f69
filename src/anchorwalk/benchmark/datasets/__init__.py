"""Data of the paper's experiments: small tables come with the package, the others are found or downloaded.

Import the loaders and what they return from here; `source` says where files are looked for.
"""

from anchorwalk.benchmark.datasets.cifar10 import cifar10
from anchorwalk.benchmark.datasets.cifar10c import Corrupted, cifar10c
from anchorwalk.benchmark.datasets.dermamnist import dermamnist
from anchorwalk.benchmark.datasets.energy import Table, energy, energy_gap, gap_split
from anchorwalk.benchmark.datasets.images import Images
from anchorwalk.benchmark.datasets.imdb import Reviews, imdb
from anchorwalk.benchmark.datasets.source import DataDamaged, DataMissing

__all__ = [
    "Corrupted",
    "DataDamaged",
    "DataMissing",
    "Images",
    "Reviews",
    "Table",
    "cifar10",
    "cifar10c",
    "dermamnist",
    "energy",
    "energy_gap",
    "gap_split",
    "imdb",
]
