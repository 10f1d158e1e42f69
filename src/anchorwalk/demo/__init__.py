"""The main job: anchored against sequential anchored ensembles on the energy data."""

from anchorwalk.demo.energy import BUDGET, Result, Score, run
from anchorwalk.demo.figure import draw

__all__ = ["BUDGET", "Result", "Score", "draw", "run"]
