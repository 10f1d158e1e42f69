"""Ways to run the chains of a plan: one after the other, or side by side in blocks of a fixed width."""

from anchorwalk.ensembles.runners.auto import choose, parse
from anchorwalk.ensembles.runners.base import Lanes, Runner
from anchorwalk.ensembles.runners.sequential import Sequential
from anchorwalk.ensembles.runners.side_by_side import SideBySide
from anchorwalk.ensembles.runners.threaded import Threaded
from anchorwalk.ensembles.runners.vectorized import Vectorized

__all__ = ["Lanes", "Runner", "Sequential", "SideBySide", "Threaded", "Vectorized", "choose", "parse"]
