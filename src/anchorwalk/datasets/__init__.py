"""Small data that comes with the package."""

from anchorwalk.datasets.energy import Table, energy, gap_split

__all__ = ["Table", "energy", "gap_split"]
