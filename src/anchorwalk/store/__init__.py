"""Where finished members go."""

from anchorwalk.store.base import Header, Round, Store
from anchorwalk.store.memory import MemoryStore

__all__ = ["Header", "MemoryStore", "Round", "Store"]
