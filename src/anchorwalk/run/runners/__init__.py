"""Ways to run the chains of a plan: one after the other, side by side in blocks, or in threads.

Import the runners and `Runner`, their contract, from here; `choose` and `parse` pick one for `sample`.
"""

from anchorwalk.run.runners.auto import choose, parse
from anchorwalk.run.runners.base import Lanes, Runner
from anchorwalk.run.runners.sequential import Sequential
from anchorwalk.run.runners.side_by_side import SideBySide
from anchorwalk.run.runners.threaded import Threaded
from anchorwalk.run.runners.vectorized import Vectorized

__all__ = ["Lanes", "Runner", "Sequential", "SideBySide", "Threaded", "Vectorized", "choose", "parse"]
