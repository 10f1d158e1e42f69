"""CIFAR-10 with ResNet-20, and CIFAR-10-C with the AlexNet-like network."""

from dataclasses import replace
from typing import Any

import numpy as np

from anchorwalk.benchmark.datasets import cifar10, cifar10c
from anchorwalk.benchmark.networks import alexnet, resnet20
from anchorwalk.benchmark.references.references import published
from anchorwalk.benchmark.tasks.base import AuthorSettings, Case, Task, Variant, assemble
from anchorwalk.likelihoods import Categorical

MEAN = np.array([0.49, 0.48, 0.44], np.float32)
SCALE = np.float32(0.2)
LEVEL = 4
"""The paper's level of corruption."""
CORRUPTION_SEED = 0
"""Decides which test rows are corrupted how."""


def scaled(x: Any) -> Any:
    """Pixels as the reference's networks saw them."""
    return (x / np.float32(255) - MEAN) / SCALE


def make_clean(variant: Variant, settings: AuthorSettings) -> Case:
    """All 50,000 training rows; the published posterior was computed on 40,960 of them (`--rows`)."""
    images = cifar10()
    return assemble(
        "cifar10",
        variant,
        settings,
        resnet20(),
        Categorical(),
        (scaled(images.x_train[: variant.rows]), images.y_train[: variant.rows]),
        (scaled(images.x_test), images.y_test),
        reference=published("cifar10"),
        notes=(
            "the published posterior was computed on 40,960 training rows, these members on all that were asked for",
        ),
    )


def make_corrupted(variant: Variant, settings: AuthorSettings) -> Case:
    """Trained on clean rows, tested on rows of which four fifths are corrupted."""
    images = cifar10()
    level = LEVEL if variant.level is None else variant.level
    variant = replace(variant, level=None if level == LEVEL else level)
    corrupted = cifar10c(level, seed=CORRUPTION_SEED)
    return assemble(
        "cifar10c",
        variant,
        settings,
        alexnet(),
        Categorical(),
        (scaled(images.x_train[: variant.rows]), images.y_train[: variant.rows]),
        (scaled(corrupted.x), corrupted.y),
        reference=published("cifar10c") if level == LEVEL else None,
        notes=("no posterior is published for this task: scores against the truth only",),
    )


CIFAR10 = Task(
    name="cifar10",
    title="Cifar10 Resnet-20",
    scores=("agreement", "total_variation"),
    settings=AuthorSettings(
        batch_size=155,
        first=(2.145e-3, 6.03e-5, 0.8547, 0.9997),
        then=(2.145e-3, 1e-4, 0.8547, 0.9997),
        step=0.02,
        prior_variance=1 / 5,
    ),
    make=make_clean,
)

CIFAR10C = Task(
    name="cifar10c",
    title="Cifar10-C Alexnet",
    scores=("agreement", "total_variation"),
    settings=AuthorSettings(
        batch_size=86,
        first=(9.332e-4, 5.5e-6, 0.8947, 0.999),
        then=(2.3e-3, 5.39e-5, 0.8731, 0.998),
        step=0.02,
        prior_variance=0.05,
    ),
    make=make_corrupted,
    options=("level",),
)
