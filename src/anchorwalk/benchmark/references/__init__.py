"""Reference posteriors: published ones, ours, and Hamiltonian Monte Carlo on the same `Problem` to make one.

Import `Reference`, `distances`, `packaged` and `published` from here. `references.hmc` needs blackjax (extra
`reference`); what reads references does not.
"""

from anchorwalk.benchmark.references.references import Reference, distances, packaged, published

__all__ = ["Reference", "distances", "packaged", "published"]
