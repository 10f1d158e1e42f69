"""Walks over the prior, one file each, all on the standard normal (paper, section 2)."""

from anchorwalk.walks import diagnostics
from anchorwalk.walks.autoregressive import Autoregressive
from anchorwalk.walks.door import check_walk
from anchorwalk.walks.guided_walk import GuidedWalk
from anchorwalk.walks.hmc import Hamiltonian
from anchorwalk.walks.iid import Independent
from anchorwalk.walks.random_walk import RandomWalk
from anchorwalk.walks.rotation import Rotation

__all__ = [
    "Autoregressive",
    "GuidedWalk",
    "Hamiltonian",
    "Independent",
    "RandomWalk",
    "Rotation",
    "check_walk",
    "diagnostics",
]
