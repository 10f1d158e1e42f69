"""A learning rate from trial trainings of a few epochs, all from the same start: which leaves the lowest loss?"""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from anchorwalk.errors import TrainingFailed
from anchorwalk.methods.base import Method
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Lion, Training
from anchorwalk.problem import Problem
from anchorwalk.run.runners import Job, Layout, Local
from anchorwalk.types import Key
from anchorwalk.walks.base import Walk

SHARE = 0.05
"""Of a budget: what all trials together may spend."""
TRIALS = 5
"""Rates that are tried at most."""
MIDDLE = 1e-3
"""The rate that is tried first, and that is taken where nothing can be tried."""
LOWER = 0.5
"""Of the best rate: the most that is taken, since it is near to where trainings blow up."""
END = 0.005
"""The last rate of a training, as a share of its first."""
STEPS_AN_EPOCH, FEWEST_ROWS, MOST_ROWS = 64, 8, 32
"""Batches are small where rows are few, so that an epoch has steps enough, and never smaller or larger than these."""


class Rates(NamedTuple):
    """What trials found.

    Attributes:
        best: The rate with the lowest loss, between that of the best trial and its neighbours.
        losses: By rate: mean anchored loss over the last epoch of its trial, in nats per row; infinite where the
            trial diverged. Empty where the budget is too small for trials.
        length: Epochs of a trial.
        epochs: Epochs that all trials spent.
    """

    best: float
    losses: dict[float, float]
    length: int
    epochs: int

    def training(self, rows: int, epochs: int) -> Training:
        """A training of so many epochs, with a rate that falls with the root of its length.

        That is how rates of stochastic descent fall which leave the least behind; and never more than `LOWER` times the
        best.
        """
        if not self.losses:
            return training_at(self.best, rows, epochs)
        return training_at(self.best * min(LOWER, math.sqrt(self.length / epochs)), rows, epochs)


def training_at(rate: float, rows: int, epochs: int = 1) -> Training:
    """A training with `Lion`, in batches by the number of rows."""
    batch_size = min(rows, max(FEWEST_ROWS, min(MOST_ROWS, rows // STEPS_AN_EPOCH)))
    return Training(Lion(rate, end_rate=END * rate), epochs, batch_size)


def find_rate(key: Key, problem: Problem, budget: int, walk: Walk, least_steps: int) -> Rates:
    """The rate with the lowest loss, by trials at factors of about three, from the middle towards where it falls.

    It is that of the lowest point of the parabola through the best trial and its two neighbours, over the logarithm of
    the rate: where two trials come out nearly alike, luck would decide by a factor of three between them.

    Args:
        key: Decides start, anchor and order of rows, which all trials share.
        problem: What to fit.
        budget: Epochs, of which trials may spend `SHARE`.
        walk: Draws the anchor.
        least_steps: Trials of fewer steps tell nothing, and are not made.

    Raises:
        TrainingFailed: Trials that all diverged.
    """
    length = int(SHARE * budget / TRIALS)
    if length == 0 or training_at(MIDDLE, problem.n, length).steps(problem.n) < least_steps:
        return Rates(MIDDLE, {}, length, 0)
    best, tried = 0, dict[int, float]()  # places on the ladder of rates
    while len(tried) < TRIALS and (new := _next(best, tried)) is not None:
        training = replace(training_at(rate_at(new), problem.n, length), evaluate=False)
        tried[new] = _last_loss(key, problem, SAE(training, walk=walk))
        best = min(tried, key=lambda place: tried[place])
    if math.isinf(tried[best]):
        raise TrainingFailed(
            f"trials of Lion diverged at every rate from {rate_at(max(tried)):g} down to {rate_at(min(tried)):g}. "
            "Scale the inputs, widen the noise, or give a training of yours, first=."
        )
    losses = {rate_at(place): loss for place, loss in tried.items()}
    around = [tried[place] for place in (best - 1, best, best + 1) if place in tried]
    shift = _lowest(*around) if len(around) == 3 else 0.0
    return Rates(rate_at(best) * 10 ** (shift / 2), losses, length, len(tried) * length)


def _next(best: int, tried: Mapping[int, float]) -> int | None:
    """The place to be tried next: around the best, or below all where none has stayed finite; None at the end."""
    if tried and math.isinf(tried[best]):
        return min(tried) - 1
    return next((place for place in (best, best + 1, best - 1) if place not in tried), None)


def _lowest(below: float, best: float, above: float) -> float:
    """Where the parabola through three values, one apart, is lowest, from -1/2 to 1/2 around the middle one.

    From a neighbour that diverged it is half a place away, the limit of ever higher values.
    """
    left, right = below - best, above - best
    if math.isinf(left) or math.isinf(right) or left + right == 0:
        return 0.5 * (math.isinf(left) - math.isinf(right))
    return (left - right) / (2 * (left + right))


def _last_loss(key: Key, problem: Problem, method: Method) -> float:
    """The loss over the last epoch of a chain's first training, begun once: what diverged is not begun anew."""
    layout, chain = Layout(1, wide=True, quick=True), np.zeros(1, np.uint32)
    (call,) = method.calls(problem, 1)
    with Local().open(method, problem, layout, 1) as session:
        draws = session.submit(Job(call, 0, key, chain, chain, None)).result().draws
    loss = float(np.asarray(draws.trace)[0, 0, -1])
    return loss if math.isfinite(loss) else math.inf


def rate_at(place: int) -> float:
    """Rates at half decades, with one digit: 0.001 at place 0, 0.003 at 1, 0.01 at 2."""
    return float(f"{MIDDLE * 10 ** (place / 2):.0e}")
