"""Where finished members go: memory, or a folder in the format of docs/format.md."""

from anchorwalk.run.store.base import Header, Like, MemoryStore, Progress, Round, Store
from anchorwalk.run.store.disk import DiskStore

__all__ = ["DiskStore", "Header", "Like", "MemoryStore", "Progress", "Round", "Store"]
