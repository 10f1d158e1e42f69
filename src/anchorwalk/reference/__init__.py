"""Reference posteriors: published ones, ours, and Hamiltonian Monte Carlo on the same `Problem` to make one.

`anchorwalk.reference.hmc` needs blackjax (extra `reference`); what reads references does not.
"""

from anchorwalk.reference.references import Reference, distances, packaged, published

__all__ = ["Reference", "distances", "packaged", "published"]
