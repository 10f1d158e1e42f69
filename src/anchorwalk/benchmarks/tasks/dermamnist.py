"""DermaMNIST with LeNet-5."""

import numpy as np

from anchorwalk.benchmarks.tasks.base import Case, Settings, Task, Variant, assemble
from anchorwalk.datasets import dermamnist
from anchorwalk.likelihoods import Categorical
from anchorwalk.networks import lenet5
from anchorwalk.reference.references import published

TRAIN_ROWS = 7000
"""The published posterior was most likely computed on the first so many rows."""


def make(variant: Variant, settings: Settings) -> Case:
    """Pixels divided by 255 and nothing else: of three scalings, this agrees best with the published predictions."""
    images = dermamnist()
    return assemble(
        "dermamnist",
        variant,
        settings,
        lenet5(7),
        Categorical(),
        (images.x_train[:TRAIN_ROWS] / np.float32(255), images.y_train[:TRAIN_ROWS]),
        (images.x_test / np.float32(255), images.y_test),
        reference=published("dermamnist"),
    )


DERMAMNIST = Task(
    name="dermamnist",
    title="DermaMNIST",
    scores=("agreement", "total_variation"),
    settings=Settings(
        batch_size=56,
        first=(7.893e-4, 3.87e-8, 0.8774, 0.9989),
        then=(1.173e-3, 4.47e-5, 0.8295, 0.9944),
        step=0.01,
        prior_variance=0.01,
    ),
    make=make,
)
