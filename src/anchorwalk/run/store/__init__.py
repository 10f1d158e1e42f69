"""Where finished members go."""

from anchorwalk.run.store.base import Header, Round, Store, member_at
from anchorwalk.run.store.disk import DiskStore
from anchorwalk.run.store.memory import MemoryStore

__all__ = ["DiskStore", "Header", "MemoryStore", "Round", "Store", "member_at"]
