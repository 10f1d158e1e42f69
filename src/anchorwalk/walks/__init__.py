"""Walks over the prior, one file each, all on the standard normal (paper, section 2).

Import the walks and `diagnostics` from here; `walks.base` has what a walk of your own must offer.
"""

from anchorwalk.walks import diagnostics
from anchorwalk.walks.autoregressive import Autoregressive
from anchorwalk.walks.base import Walk, WalkInfo, WalkState, validate_walk
from anchorwalk.walks.guided_walk import DEFAULT_WALK, GuidedWalk
from anchorwalk.walks.hamiltonian import Hamiltonian
from anchorwalk.walks.independent import Independent
from anchorwalk.walks.random_walk import RandomWalk
from anchorwalk.walks.rotation import Rotation

__all__ = [
    "DEFAULT_WALK",
    "Autoregressive",
    "GuidedWalk",
    "Hamiltonian",
    "Independent",
    "RandomWalk",
    "Rotation",
    "Walk",
    "WalkInfo",
    "WalkState",
    "diagnostics",
    "validate_walk",
]
