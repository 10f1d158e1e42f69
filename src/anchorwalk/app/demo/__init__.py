"""The main job: anchored against sequential anchored ensembles on the energy data."""

from anchorwalk.app.demo.energy import BUDGET, GAP, Result, Score, run
from anchorwalk.app.demo.figure import draw

__all__ = ["BUDGET", "GAP", "Result", "Score", "draw", "run"]
