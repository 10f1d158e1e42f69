"""DermaMNIST with LeNet-5."""

from dataclasses import replace

import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark.datasets import dermamnist
from anchorwalk.benchmark.networks import lenet5
from anchorwalk.benchmark.references.references import published
from anchorwalk.benchmark.tasks.base import AuthorSettings, Case, Task, Variant, assemble
from anchorwalk.likelihoods import Categorical

TRAIN_ROWS = 7000
"""The published posterior was most likely computed on the first so many rows."""


PIXELS = ("unit", "standardised", "raw")
"""Pixels divided by 255 and nothing else; or then standardised by channel on the training rows; or as they are, from 0
to 255, as the authors' released code feeds them to the network."""


def make(variant: Variant, settings: AuthorSettings) -> Case:
    """Images and their classes; which scaling the reference had is not known for certain."""
    pixels = checks.choice("pixels", variant.pixels or PIXELS[0], PIXELS)
    variant = replace(variant, pixels=None if pixels == PIXELS[0] else pixels)
    images = dermamnist()
    unit = np.float32(1 if pixels == "raw" else 255)
    x_train, x_test = images.x_train[:TRAIN_ROWS] / unit, images.x_test / unit
    if pixels == "standardised":
        mean, scale = x_train.mean((0, 1, 2), np.float64), x_train.std((0, 1, 2), np.float64)
        x_train, x_test = (((x - mean) / scale).astype(np.float32) for x in (x_train, x_test))
    return assemble(
        "dermamnist",
        variant,
        settings,
        lenet5(7),
        Categorical(),
        (x_train, images.y_train[:TRAIN_ROWS]),
        (x_test, images.y_test),
        reference=published("dermamnist"),
    )


DERMAMNIST = Task(
    name="dermamnist",
    title="DermaMNIST",
    scores=("agreement", "total_variation"),
    settings=AuthorSettings(
        batch_size=56,
        first=(7.893e-4, 3.87e-8, 0.8774, 0.9989),
        then=(1.173e-3, 4.47e-5, 0.8295, 0.9944),
        step=0.01,
        prior_variance=0.01,
    ),
    make=make,
    options=("pixels",),
)
