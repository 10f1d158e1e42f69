"""Where finished members go."""

from anchorwalk.store.base import Header, Round, Store, member_at
from anchorwalk.store.disk import DiskStore
from anchorwalk.store.memory import MemoryStore

__all__ = ["DiskStore", "Header", "MemoryStore", "Round", "Store", "member_at"]
