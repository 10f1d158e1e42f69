"""Trials of the planner: short trainings that find a learning rate, and how long a training pays."""

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import NotFiniteWarning, TrainingFailed
from anchorwalk.likelihoods import ClassLikelihood, OrderedLikelihood
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import SGD, SOAP, Adam, Lion, Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior import metrics
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.types import Key

OPTIMIZERS = (SOAP, Adam, Lion, SGD)
"""Those whose rate trials can find."""
SHARE = 100
"""A trial has a hundredth of the budget."""
PAIR = 2
"""Members of a trial."""
DOUBLINGS = 2
"""How often the length of trials is doubled."""
MOST_RATES = 5
"""Rates that are tried at most."""
LEAST_STEPS = 50
"""Steps of the shortest trial; one of fewer says nothing of the rate."""
HELD_BACK, MOST_HELD_BACK = 0.25, 2000
"""Share of the rows, and rows at most, on which trials are scored."""
LEVELS = tuple(np.linspace(0.05, 0.95, 10))
"""Quantiles from which the score of a predicted number is computed."""
START = 2
"""The place, in `rate_at`, of the rate that is tried first, and taken where the budget is too small for trials."""
END = 0.01
"""The last rate of a training, as a share of its first."""
DECAY, WARM_UP = 1 / 3, 500
"""The best rate falls with this power of a training's steps, to which these are added."""
STEPS_AN_EPOCH, FEWEST_ROWS, MOST_ROWS = 64, 8, 64
"""Steps in an epoch that decide the rows of a batch, within these bounds."""
PAYS = 0.02
"""A training is long enough when one of twice its length would improve the score by less than this share."""
FEWEST_STEPS = 3000
"""Steps that a first training should have where longer trials scored better than shorter ones."""
SMALL, RARELY = 10_000, 32
"""Networks with fewer parameters renew SOAP's bases after so many steps: a renewal costs many of their steps."""


def batch_rows(rows: int) -> int:
    """Rows of a batch, by default."""
    return min(rows, max(FEWEST_ROWS, min(MOST_ROWS, rows // STEPS_AN_EPOCH)))


class Recipe(NamedTuple):
    """Trainings of any length: with an optimiser that is given, or with one whose rate was best after so many steps."""

    optimizer: Any
    batch_size: int
    rate: float
    steps: int = 0

    @property
    def given(self) -> bool:
        """Whether the optimiser has a rate of its own."""
        return not isinstance(self.optimizer, type | partial)

    @property
    def name(self) -> str:
        """The optimiser's, where trials find its rate."""
        return str(getattr(self.optimizer, "func", self.optimizer).__name__)

    def training(self, rows: int, epochs: int, rate_of: int | None = None) -> Training:
        """A training on so many rows, with the rate of its own length or of another."""
        size = min(self.batch_size, rows)
        if self.given:
            return Training(self.optimizer, epochs, size)
        steps = (rate_of or epochs) * -(-rows // size)
        rate = self.rate * ((self.steps + WARM_UP) / (steps + WARM_UP)) ** DECAY if self.steps else self.rate
        return Training(self.optimizer(rate, end_rate=END * rate), epochs, size)


def recipe_for(problem: Problem, optimizer: Any, batch_size: int | None) -> Recipe:
    """What `plan_for` was given, checked, with defaults in place of None."""
    if isinstance(optimizer, type) and optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(one.__name__ for one in OPTIMIZERS)}, or an optimiser with its rate"
        checks.reject("optimizer", f"the class {optimizer.__name__}", expected, "Pass SOAP, or such as Adam(1e-3).")
    if optimizer is None or optimizer is SOAP:
        optimizer = partial(SOAP, refresh=RARELY) if problem.size < SMALL else SOAP
    rows = batch_rows(problem.n) if batch_size is None else min(checks.count("batch_size", batch_size), problem.n)
    recipe = Recipe(optimizer, rows, rate_at(START))
    recipe.training(problem.n, 1)  # refuses what is no optimiser
    return recipe


class Trials:
    """Trial trainings, what they found, and the epochs that they took."""

    def __init__(self, key: Key, problem: Problem, recipe: Recipe, runner: str | Runner) -> None:
        self.key, self.recipe, self.runner = jax.random.fold_in(key, Stream.TRIAL), recipe, runner
        self.rates: dict[float, float] = {}
        self.scores: dict[int, float] = {}
        self.spent = 0
        if problem.validation is None and problem.n >= 2 / HELD_BACK:
            share = min(HELD_BACK, MOST_HELD_BACK / problem.n)
            problem = problem.hold_back(jax.random.fold_in(key, Stream.PREPARE), share)
        self.problem = problem

    def find(self, budget: int, rows: int) -> int | None:
        """Find rate and length for a budget: how long trainings pay, or None where it is too small for trials."""
        shortest, steps = budget // SHARE, -(-rows // self.recipe.batch_size)
        if shortest * steps < LEAST_STEPS or self.problem.validation is None:
            return None
        self.recipe = self.find_rate(shortest)
        for length in (shortest * 2**k for k in range(1, DOUBLINGS + 1)):
            self.scores[length] = self._run(self.recipe, length)[1]
        finite = {length: score for length, score in self.scores.items() if math.isfinite(score)}
        if not finite:
            raise TrainingFailed(
                f"all trials diverged, the shortest of {shortest} epochs. Lower the rate of {self.recipe.optimizer!r}, "
                "scale the inputs, or widen the noise."
            )
        return min(budget, enough_epochs(finite, -(-FEWEST_STEPS // steps)))

    def find_rate(self, length: int) -> Recipe:
        """The best rate at a length, and the score of its trial.

        Rates are tried at factors of about three, from the first towards where the loss falls. The best is taken where
        the parabola through the lowest loss and its neighbours is lowest, over the logarithm of the rate.
        """
        if self.recipe.given:
            self.scores = {length: self._run(self.recipe, length)[1]}
            return self.recipe
        losses: dict[int, float] = {}
        scores: dict[int, float] = {}
        place: int | None = START
        while place is not None and len(losses) < MOST_RATES:
            losses[place], scores[place] = self._run(self.recipe._replace(rate=rate_at(place)), length)
            place = _next(losses)
        self.rates = {rate_at(place): loss for place, loss in sorted(losses.items())}
        best = min(losses, key=losses.__getitem__)
        if math.isinf(losses[best]):
            raise TrainingFailed(
                f"trials of {self.recipe.name} diverged at every rate from {min(self.rates):g} to "
                f"{max(self.rates):g}. Scale the inputs, widen the noise, or pass an optimiser of your own."
            )
        self.scores = {length: scores[best]}
        shift = _lowest(*(losses.get(place, math.inf) for place in (best - 1, best, best + 1)))
        steps = self.recipe.training(self.problem.n, length).steps(self.problem.n)
        return self.recipe._replace(rate=rate_at(best) * 10 ** (shift / 2), steps=steps)

    def _run(self, recipe: Recipe, epochs: int) -> tuple[float, float]:
        """Loss and score of a trial; infinite where a member diverged."""
        method = SAE(replace(recipe.training(self.problem.n, epochs), evaluate=False))
        self.spent += PAIR * epochs
        try:
            found = sample(self.key, self.problem, Plan(method, PAIR), runner=self.runner, callbacks=[])
        except TrainingFailed:
            return math.inf, math.inf
        if not found.complete:
            raise KeyboardInterrupt
        loss = float(np.mean([np.asarray(member.trace)[-1] for member in found]))
        score = _score(found, self.problem)
        return (loss, score) if math.isfinite(loss + score) and not found.failed else (math.inf, math.inf)


def _score(posterior: Posterior, problem: Problem) -> float:
    """How far predictions are from targets that were held back; less is better.

    The log-likelihood will not do: with two members, a few rows far from both decide it.
    """
    assert problem.validation is not None
    rows = problem.validation.take(jnp.flatnonzero(problem.validation.weights))  # those that count
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFiniteWarning)
        prediction, y = posterior.predict(rows.x), np.asarray(rows.y)
    if not np.isfinite(prediction.variance).all():
        return math.inf
    if isinstance(problem.likelihood, ClassLikelihood):
        return metrics.brier(prediction.probabilities, y)
    if isinstance(problem.likelihood, OrderedLikelihood):
        return metrics.crps(prediction.quantile(LEVELS).reshape(len(LEVELS), -1), y.ravel())
    return float(np.sqrt(np.mean((prediction.mean.reshape(y.shape) - y) ** 2)))


def rate_at(place: int) -> float:
    """Rates at half decades, with one digit: 0.001 at place 0, 0.003 at 1, 0.01 at 2."""
    return float(f"{10 ** (place / 2 - 3):.0e}")


def _next(losses: Mapping[int, float]) -> int | None:
    """The place to try next: a neighbour of the best, or below all where none has stayed finite; None at the end."""
    best = min(losses, key=losses.__getitem__)
    if math.isinf(losses[best]):
        return min(losses) - 1
    return next((place for place in (best + 1, best - 1) if place not in losses), None)


def _lowest(below: float, best: float, above: float) -> float:
    """Where the parabola through three values, one apart, is lowest, from -1/2 to 1/2 around the middle one.

    A neighbour that diverged, or that was not tried, has no say.
    """
    left, right = below - best, above - best
    if math.isinf(left) or math.isinf(right) or left + right == 0:
        return 0.0
    return (left - right) / (2 * (left + right))


def enough_epochs(scores: Mapping[int, float], least: int = 1) -> int:
    """Epochs after which twice as many improve a score by less than `PAYS`.

    Beyond the longest trial, gains are taken to fall with the root of the length, as what stochastic descent leaves
    behind does: by sqrt(2) from doubling to doubling. The last gain is read off the last two trials and off all of
    them. The larger counts: trainings that are too long cost less than those that are too short.

    Args:
        scores: By epochs, each twice those before.
        least: The fewest epochs, unless a shorter trial than the longest has the best score.
    """
    lengths = sorted(scores)
    best = min(lengths, key=scores.__getitem__)
    if best != lengths[-1] or len(lengths) == 1 or scores[best] == 0:
        return best
    gains = [math.log(scores[short] / scores[long]) for short, long in itertools.pairwise(lengths)]
    last = max(gains[-1], sum(gains) / sum(2 ** (k / 2) for k in range(len(gains))))
    return max(least, lengths[0], round(lengths[-1] * (last / math.sqrt(2) / PAYS) ** 2))
