"""A learning rate from trial trainings of a few epochs, all from the same start: which leaves the lowest loss?"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.runners import Runner
from anchorwalk.ensembles.sample import ATTEMPTS, sample
from anchorwalk.errors import TrainingFailed
from anchorwalk.problem import Problem
from anchorwalk.store import MemoryStore
from anchorwalk.training import Lion, Training
from anchorwalk.types import Key, Walk

SHARE = 0.05
"""Of a budget: what all trials together may spend."""
TRIALS = 5
"""Rates that are tried at most."""
MIDDLE = 1e-3
"""The rate that is tried first, and that is taken where nothing can be tried."""
LOWER = 0.5
"""Of the best trial's rate: what is taken. Trainings that are four times as long want a rate half as high, by the root
of their length, and the best rate of a short trial is near to where trainings blow up."""
END = 0.005
"""The last rate of a training, as a share of its first."""
STEPS_AN_EPOCH, FEWEST_ROWS, MOST_ROWS = 64, 8, 32
"""Batches are small where rows are few, so that an epoch has steps enough, and never smaller or larger than these."""


class Rates(NamedTuple):
    """What trials found.

    Attributes:
        training: With `LOWER` times the best rate; its epochs do not count.
        losses: By rate: mean anchored loss over the last epoch of its trial, in nats per row; infinite where the
            trial diverged. Empty where the budget is too small for trials.
        length: Epochs of a trial.
        epochs: Epochs that all trials spent.
    """

    training: Training
    losses: dict[float, float]
    length: int
    epochs: int


def training_at(rate: float, rows: int, epochs: int = 1) -> Training:
    """A training with `Lion`, in batches by the number of rows."""
    batch_size = min(rows, max(FEWEST_ROWS, min(MOST_ROWS, rows // STEPS_AN_EPOCH)))
    return Training(Lion(rate, end_rate=END * rate), epochs, batch_size)


def find_rate(key: Key, problem: Problem, budget: int, walk: Walk, runner: str | Runner, least_steps: int) -> Rates:
    """The rate with the lowest loss among trials at factors of about three, from the middle towards where it falls.

    Args:
        key: Decides start, anchor and order of rows, which all trials share.
        problem: What to fit.
        budget: Epochs, of which trials may spend `SHARE`.
        walk: Draws the anchor.
        runner: As in `sample`.
        least_steps: Trials of fewer steps tell nothing, and are not made.
    """
    length = int(SHARE * budget / TRIALS)
    losses: dict[float, float] = {}
    if length == 0 or training_at(MIDDLE, problem.n, length).steps(problem.n) < least_steps:
        return Rates(training_at(MIDDLE, problem.n), losses, length, 0)
    epochs, best = 0, 0  # a place on the ladder of rates
    tried: dict[int, float] = {}
    while len(tried) < TRIALS:
        new = [place for place in (best, best + 1, best - 1) if place not in tried]
        if not new:
            break
        rate = rate_at(new[0])
        plan = Plan(1, 1, replace(training_at(rate, problem.n, length), evaluate=False))
        try:
            member = sample(key, problem, plan, walk, runner, MemoryStore(), [])[0, 0]
            loss, times = float(np.asarray(member.losses)[-1]), 1
        except TrainingFailed:
            loss, times = math.inf, 1 + ATTEMPTS
        epochs += times * length
        tried[new[0]] = losses[rate] = loss if math.isfinite(loss) else math.inf
        best = min(tried, key=lambda place: tried[place])
        if epochs + length > SHARE * budget:
            break
    return Rates(training_at(LOWER * rate_at(best), problem.n), losses, length, epochs)


def rate_at(place: int) -> float:
    """Rates at half decades, with one digit: 0.001 at place 0, 0.003 at 1, 0.01 at 2."""
    return float(f"{MIDDLE * 10 ** (place / 2):.0e}")
