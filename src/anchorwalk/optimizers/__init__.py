"""TRAIN of Algorithms 1 and 2: optimisers as recipes, the settings of one training, and the minibatch descent itself.

Import `Adam`, `SGD`, `Lion`, `SOAP`, `Optimizer`, `Training`, `train` and `shuffled` from here. Nothing here knows of
anchors' walks or chains.
"""

from anchorwalk.optimizers.recipes import SGD, Adam, Lion, OptaxOptimizer, Optimizer
from anchorwalk.optimizers.soap import SOAP
from anchorwalk.optimizers.train import shuffled, train
from anchorwalk.optimizers.training import Training

RECIPES = (Adam, SGD, Lion, SOAP)
"""The optimisers of this package, which their numbers describe in full."""

__all__ = ["RECIPES", "SGD", "SOAP", "Adam", "Lion", "OptaxOptimizer", "Optimizer", "Training", "shuffled", "train"]
