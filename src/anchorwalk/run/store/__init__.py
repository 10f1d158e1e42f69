"""Where finished members go: memory, or a folder in the format of docs/format.md.

Import `DiskStore`, `MemoryStore`, `Store`, their contract, and what they exchange from here; `maintenance` verifies,
thins, merges and prunes folders.
"""

from anchorwalk.run.store.base import Header, Like, Progress, Round, Store
from anchorwalk.run.store.disk import DiskStore
from anchorwalk.run.store.memory import MemoryStore

__all__ = ["DiskStore", "Header", "Like", "MemoryStore", "Progress", "Round", "Store"]
