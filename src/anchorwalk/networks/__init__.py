"""Layers and networks as (init, apply) pairs, for networks of your own; the paper's are in `anchorwalk.benchmark`.

Import `mlp`, `tabular`, `Network` and `conv_general_dilated` from here, layers from `networks.layers`.
"""

from anchorwalk.networks.layers import conv_general_dilated
from anchorwalk.networks.mlp import mlp
from anchorwalk.networks.network import Network
from anchorwalk.networks.tabular import tabular

__all__ = ["Network", "conv_general_dilated", "mlp", "tabular"]
