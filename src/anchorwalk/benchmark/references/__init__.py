"""Reference posteriors: published ones, and ours, which chains of `HMC` on the same `Problem` make.

Import `Reference`, `distances`, `packaged` and `published` from here; `references.make` makes one and needs blackjax
(extra `reference`).
"""

from anchorwalk.benchmark.references.references import Reference, distances, packaged, published

__all__ = ["Reference", "distances", "packaged", "published"]
