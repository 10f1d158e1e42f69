"""Doors for networks of Flax, Equinox and Haiku: each makes a pair (init, apply) of a user's own model."""

from anchorwalk.adapters.equinox import from_equinox
from anchorwalk.adapters.flax import from_flax
from anchorwalk.adapters.haiku import from_haiku

__all__ = ["from_equinox", "from_flax", "from_haiku"]
