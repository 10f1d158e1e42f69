"""Networks as (init, apply) pairs (paper, Table 3)."""

from anchorwalk.networks.mlp import Network, mlp

__all__ = ["Network", "mlp"]
