"""Training of one member: settings, optimisers, order of rows, and the loop itself."""

from anchorwalk.optimizers.recipes import SGD, Adam, Bare, Lion, Optimizer
from anchorwalk.optimizers.train import shuffled, train
from anchorwalk.optimizers.training import Training

__all__ = ["SGD", "Adam", "Bare", "Lion", "Optimizer", "Training", "shuffled", "train"]
