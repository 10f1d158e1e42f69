"""What a full run of a task costs on this machine, estimated from a few measured training steps on made-up rows."""

import time
from dataclasses import dataclass

import jax
import numpy as np

from anchorwalk.benchmark.networks import alexnet, cnn_lstm, lenet5, resnet20
from anchorwalk.benchmark.tasks import TASKS
from anchorwalk.likelihoods import Categorical
from anchorwalk.networks import Network
from anchorwalk.optimizers import train
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem

STEPS = 4
"""Steps of a measured training."""


@dataclass(frozen=True)
class Shape:
    """What decides the cost of a step: the network, its inputs, and the rows of an epoch."""

    network: Network
    inputs: tuple[int, ...]
    words: bool
    classes: int
    rows: int


SHAPES = {
    "cifar10": Shape(resnet20(), (32, 32, 3), False, 10, 50_000),
    "cifar10c": Shape(alexnet(), (32, 32, 3), False, 10, 50_000),
    "imdb": Shape(cnn_lstm(), (100,), True, 2, 20_000),
    "dermamnist": Shape(lenet5(), (28, 28, 3), False, 7, 7000),
}


@dataclass(frozen=True)
class Cost:
    """Measured and estimated seconds of a task.

    Attributes:
        task: Its name.
        batch_size: Rows in a step.
        step_seconds: The faster of two measured trainings, a step.
        steps_per_epoch: Steps in an epoch on all rows.
        epoch_seconds: Their product.
    """

    task: str
    batch_size: int
    step_seconds: float
    steps_per_epoch: int
    epoch_seconds: float


def measure(task: str) -> Cost:
    """Time a few steps of a task's training inside one compiled program, as a run has them."""
    shape, settings = SHAPES[task], TASKS[task].settings
    rng = np.random.default_rng(0)
    rows = STEPS * settings.batch_size
    x = rng.integers(20_000, size=(rows, 100)) if shape.words else rng.random((rows, *shape.inputs), np.float32)
    y = rng.integers(shape.classes, size=rows)
    prior = Prior(scale=float(np.sqrt(settings.prior_variance)))
    problem = Problem(shape.network.init, shape.network.apply, Categorical(), prior, data=(x, y))
    training = settings.training("first", 1, rows)
    program = jax.jit(train)
    params = problem.init(jax.random.key(0))
    seconds = []
    for _ in range(3):  # the first one compiles
        began = time.perf_counter()
        jax.block_until_ready(program(jax.random.key(1), problem, training, params, params))  # type: ignore[no-untyped-call]
        seconds.append((time.perf_counter() - began) / STEPS)
    steps = -(-shape.rows // settings.batch_size)
    step = min(seconds[1:])
    return Cost(task, settings.batch_size, step, steps, step * steps)


def markdown(costs: list[Cost], budgets: tuple[int, ...]) -> str:
    """The table in Markdown."""
    heads = " | ".join(f"{budget:,} epochs" for budget in budgets)
    lines = [f"| task | a step | an epoch | {heads} |", "|---|---|---|" + "---|" * len(budgets)]
    for cost in costs:
        times = " | ".join(readable(budget * cost.epoch_seconds) for budget in budgets)
        lines.append(f"| {cost.task} | {readable(cost.step_seconds)} | {readable(cost.epoch_seconds)} | {times} |")
    return "\n".join(lines) + "\n"


def readable(seconds: float) -> str:
    """A time in the unit that suits it.

    Example:
        >>> from anchorwalk.benchmark.cost import readable
        >>> readable(0.0085), readable(90.0), readable(5400.0), readable(400_000.0)
        ('8.5 ms', '90 s', '1.5 h', '4.6 days')
    """
    for unit, size, limit in (("ms", 1e-3, 1.0), ("s", 1.0, 120.0), ("min", 60.0, 5400.0), ("h", 3600.0, 172_800.0)):
        if seconds < limit:
            return f"{seconds / size:.2g} {unit}" if seconds / size < 10 else f"{seconds / size:.0f} {unit}"
    return f"{seconds / 86_400:.2g} days" if seconds < 864_000 else f"{seconds / 86_400:.0f} days"
