"""TRAIN of Algorithms 1 and 2: optimisers as recipes, the settings of one training, and the minibatch descent itself.

Import `Adam`, `SGD`, `Lion`, `Optimizer`, `Training`, `train` and `shuffled` from here. Nothing here knows of anchors'
walks or chains.
"""

from anchorwalk.optimizers.recipes import RECIPES, SGD, Adam, Lion, OptaxOptimizer, Optimizer
from anchorwalk.optimizers.train import shuffled, train
from anchorwalk.optimizers.training import Training

__all__ = ["RECIPES", "SGD", "Adam", "Lion", "OptaxOptimizer", "Optimizer", "Training", "shuffled", "train"]
