"""The paper's networks as (init, apply) pairs (paper, Table 3); `anchorwalk.networks` has the layers and the MLP.

Import `alexnet`, `cnn_lstm`, `lenet5` and `resnet20` from here.
"""

from anchorwalk.benchmark.networks.alexnet import alexnet
from anchorwalk.benchmark.networks.cnn_lstm import cnn_lstm
from anchorwalk.benchmark.networks.lenet import lenet5
from anchorwalk.benchmark.networks.resnet20 import resnet20

__all__ = ["alexnet", "cnn_lstm", "lenet5", "resnet20"]
