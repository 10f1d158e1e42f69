"""Reference posteriors: published ones, and ours, made by chains of `HMC` on the same `Problem` (extra `reference`)."""

from anchorwalk.benchmark.references.references import Reference, distances, packaged, published

__all__ = ["Reference", "distances", "packaged", "published"]
