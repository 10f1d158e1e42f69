"""The demo: anchored against sequential anchored ensembles on the energy data.

Import `run`, `draw` and their settings from here; `anchorwalk demo` and `make run` call them.
"""

from anchorwalk.app.demo.energy import BUDGET, GAP, Result, Score, run
from anchorwalk.app.demo.figure import draw

__all__ = ["BUDGET", "GAP", "Result", "Score", "draw", "run"]
