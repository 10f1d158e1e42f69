"""Networks as (init, apply) pairs (paper, Table 3)."""

from anchorwalk.networks.alexnet import alexnet
from anchorwalk.networks.cnn_lstm import cnn_lstm
from anchorwalk.networks.layers import conv_general_dilated
from anchorwalk.networks.lenet import lenet5
from anchorwalk.networks.mlp import mlp
from anchorwalk.networks.network import Network
from anchorwalk.networks.resnet20 import resnet20

__all__ = ["Network", "alexnet", "cnn_lstm", "conv_general_dilated", "lenet5", "mlp", "resnet20"]
