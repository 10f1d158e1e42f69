"""Training of one member: settings, optimisers, order of rows, and the loop itself."""

from anchorwalk.training.optimizers import SGD, Adam, Bare, Lion, Optimizer
from anchorwalk.training.settings import Training
from anchorwalk.training.train import shuffled, train

__all__ = ["SGD", "Adam", "Bare", "Lion", "Optimizer", "Training", "shuffled", "train"]
