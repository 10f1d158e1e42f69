"""Trials of the planner: short trainings that find a learning rate, and how long a training pays."""

import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.data import Data
from anchorwalk.errors import NotFiniteWarning, TrainingFailed
from anchorwalk.likelihoods import ClassLikelihood, Likelihood, OrderedLikelihood
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import SGD, SOAP, Adam, Lion, Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.types import HostArray, Key

# Those whose rate trials can find: the place, in `rate_at`, that is tried first; without trials the one below is taken.
OPTIMIZERS = {SOAP: 2, Adam: 2, Lion: 0, SGD: 2}
SHARE = 100  # the shortest trial has the budget divided by this
PAIR = 2  # members of a trial
DOUBLINGS, MOST_RATES = 2, 5  # how often the length of trials is doubled, and how many rates are tried at most
LEAST_STEPS = 50  # steps of the shortest trial; one of fewer says nothing of the rate
HELD_BACK, MOST_HELD_BACK = 0.25, 2000  # share of the rows, and rows at most, on which trials are scored
LEVELS = tuple(np.linspace(0.05, 0.95, 10))  # quantiles from which the score of a predicted number is computed
END = 0.01  # the last rate of a training, as a share of its first
DECAY, WARM_UP = 1 / 3, 500  # the best rate is taken to be proportional to (steps + 500) ** (-1/3)
STEPS_AN_EPOCH, FEWEST_ROWS, MOST_ROWS = 64, 8, 64  # steps in an epoch decide the rows of a batch, within bounds
PAYS = 0.02  # trainings are long enough when doubling them improves the score by less than this share
SURELY = 3  # standard errors by which a shorter trial must score better than the longest to be preferred
FEWEST_STEPS = 3000  # steps that a first training should have unless a shorter trial is surely better than the longest
SMALL, RARELY = 10_000, 32  # smaller networks renew SOAP's bases so rarely: a renewal costs many of their steps


def batch_rows(rows: int) -> int:
    """Rows of a batch, by default."""
    return min(rows, max(FEWEST_ROWS, min(MOST_ROWS, rows // STEPS_AN_EPOCH)))


class Recipe(NamedTuple):
    """Trainings of any length: with an optimiser that is given, or with one whose rate was best after so many steps."""

    optimizer: Any
    batch_size: int
    rate: float = 0.0
    steps: int = 0
    settings: Mapping[str, Any] = {}  # of the optimiser
    options: Mapping[str, Any] = {}  # of the training

    @property
    def given(self) -> bool:
        """Whether the optimiser has a rate of its own."""
        return not isinstance(self.optimizer, type)

    def training(self, rows: int, epochs: int, rate_of: int | None = None) -> Training:
        """A training on so many rows, with the rate of its own length or of another."""
        size = min(self.batch_size, rows)
        if self.given:
            return Training(self.optimizer, epochs, size, **self.options)
        steps = (rate_of or epochs) * -(-rows // size)
        rate = self.rate * ((self.steps + WARM_UP) / (steps + WARM_UP)) ** DECAY if self.steps else self.rate
        return Training(self.optimizer(rate, end_rate=END * rate, **self.settings), epochs, size, **self.options)


def recipe_for(problem: Problem, optimizer: Any, batch_size: int | None, **options: Any) -> Recipe:
    """What `plan_for` was given, checked, with defaults in place of None; `options` are those of all trainings."""
    optimizer = SOAP if optimizer is None else optimizer
    if isinstance(optimizer, type) and optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(one.__name__ for one in OPTIMIZERS)}, or an optimiser with its rate"
        checks.reject("optimizer", f"the class {optimizer.__name__}", expected, "Pass SOAP, or such as Adam(1e-3).")
    rows = batch_rows(problem.n) if batch_size is None else min(checks.count("batch_size", batch_size), problem.n)
    if not isinstance(optimizer, type):
        Training(optimizer, 1, rows)  # refuses what is no optimiser
        return Recipe(optimizer, rows, options=options)
    rarely = {"refresh": RARELY} if optimizer is SOAP and problem.size < SMALL else {}
    return Recipe(optimizer, rows, rate_at(OPTIMIZERS[optimizer] - 1), settings=rarely, options=options)


class Trials:
    """Trial trainings and what they found: a prior, a recipe, losses by rate, scores of held-back rows by length."""

    def __init__(
        self,
        key: Key,
        problem: Problem,
        recipe: Recipe,
        runner: str | Runner,
        perturb_targets: bool = False,
        like: SAE | None = None,
    ) -> None:
        """`like` has the settings of the trials beside their training; by default they are anchored ensembles."""
        self.key, self.recipe, self.runner = jax.random.fold_in(key, Stream.TRIAL), recipe, runner
        self.perturb_targets, self.like = perturb_targets, like
        self.rates: dict[float, float] = {}
        self.scores: dict[int, HostArray] = {}
        self.priors: list[float] = []
        self.chosen = self.spent = 0
        self.problem, self.rows = problem, problem.validation
        if self.rows is None and problem.n >= 2 / HELD_BACK:
            share = min(HELD_BACK, MOST_HELD_BACK / problem.n)
            split = problem.hold_back(jax.random.fold_in(key, Stream.PREPARE), share)
            self.problem, self.rows = split, split.validation
            if recipe.options.get("keep") != "best":  # the programs are then those of a run on all rows
                self.problem = split.without_validation()

    def find(self, budget: int, priors: Sequence[Prior] = ()) -> int | None:
        """Find rate and length for a budget: how long trainings pay, or None where trials would say nothing.

        The shortest trials choose the prior first, where there are others than the problem's own.
        """
        shortest, steps = budget // SHARE, -(-self.problem.n // self.recipe.batch_size)
        if shortest * steps < LEAST_STEPS or self.rows is None or not np.any(self.rows.weights):
            return None
        self._choose(priors, shortest)
        self.recipe = self.find_rate(shortest)
        for length in (shortest * 2**k for k in range(1, DOUBLINGS + 1)):
            if not self._score(length):
                break
        if not self.scores:
            remedy = f"Lower the rate of {self.recipe.optimizer!r}, scale the inputs, or widen the noise."
            raise TrainingFailed(f"all trials diverged, the shortest of {epochs_text(shortest)}. {remedy}")
        while shortest > 1 and self._surely_best(shortest) and self._score(shortest // 2):  # it may be too long still
            shortest //= 2
        return enough_epochs(self.means, self._surely_best, -(-FEWEST_STEPS // steps))

    @property
    def means(self) -> dict[int, float]:
        """The mean score of each length."""
        return {length: self._mean(self.scores[length]) for length in sorted(self.scores)}

    def _mean(self, scores: HostArray) -> float:
        assert self.rows is not None
        return float(np.average(scores, weights=self.rows.weights))

    def _surely_best(self, length: int) -> bool:
        """Whether a length has the best score, and surely a better one than the longest."""
        means, longest = self.means, max(self.scores)
        if means.get(length, math.inf) > min(means.values()):
            return False
        return self._gain(self.scores[longest], self.scores[length]) > SURELY

    def _choose(self, priors: Sequence[Prior], length: int) -> None:
        """Take the problem's own prior, or a later one that scores better by more than a standard error."""
        if not priors:
            return
        problems = [self.problem, *(self.problem.with_prior(prior) for prior in priors)]
        found = []
        for problem in problems:
            self.problem = problem
            _, scores = self._run(self.recipe, length)
            found.append(np.full(1, np.inf) if scores is None else scores)
        self.priors = [self._mean(scores) if np.isfinite(scores).all() else math.inf for scores in found]
        for number, scores in enumerate(found):
            if self._gain(found[self.chosen], scores) > 1:
                self.chosen = number
        self.problem = problems[self.chosen]
        if self.recipe.given and math.isfinite(self.priors[self.chosen]):
            self.scores = {length: found[self.chosen]}

    def _gain(self, before: HostArray, after: HostArray) -> float:
        """By how many standard errors scores of rows are better than others."""
        if not np.isfinite(after).all():
            return -math.inf
        if not np.isfinite(before).all():
            return math.inf
        apart = before - after
        error = math.sqrt(self._mean((apart - self._mean(apart)) ** 2) / len(apart))
        gain = self._mean(apart)
        return gain / error if error else math.copysign(math.inf, gain) if gain else 0.0

    def _score(self, length: int) -> bool:
        """Keep the scores of a trial; False where it diverged."""
        _, found = self._run(self.recipe, length)
        if found is not None:
            self.scores[length] = found
        return found is not None

    def find_rate(self, length: int) -> Recipe:
        """The best rate at a length, between the best trial and its neighbours; the scores of its trial are kept."""
        if self.recipe.given:
            if length not in self.scores:
                self._score(length)
            return self.recipe
        losses: dict[int, float] = {}
        scores: dict[int, HostArray | None] = {}
        place: int | None = OPTIMIZERS[self.recipe.optimizer]
        while place is not None and len(losses) < MOST_RATES:
            losses[place], scores[place] = self._run(self.recipe._replace(rate=rate_at(place)), length)
            place = _next(losses)
        self.rates = {rate_at(place): loss for place, loss in sorted(losses.items())}
        best = min(losses, key=losses.__getitem__)
        found = scores[best]
        if found is None:
            raise TrainingFailed(
                f"trials of {self.recipe.optimizer.__name__} diverged at every rate from {min(self.rates):g} to "
                f"{max(self.rates):g}. Scale the inputs, widen the noise, or pass an optimiser of your own."
            )
        self.scores = {length: found}
        shift = _lowest(*(losses.get(place, math.inf) for place in (best - 1, best, best + 1)))
        steps = self.recipe.training(self.problem.n, length).steps(self.problem.n)
        return self.recipe._replace(rate=rate_at(best) * 10 ** (shift / 2), steps=steps)

    def _run(self, recipe: Recipe, epochs: int) -> tuple[float, HostArray | None]:
        """The loss of a trial, a mean over its last epoch, and its scores; None where a member diverged."""
        training = recipe.training(self.problem.n, epochs)
        if self.like is None:
            method = SAE(replace(training, evaluate=False), perturb_targets=self.perturb_targets)
        else:
            method = replace(self.like, first=training, then=training)
        self.spent += PAIR * epochs
        try:
            found = sample(self.key, self.problem, Plan(method, PAIR), runner=self.runner, callbacks=[])
        except TrainingFailed:
            return math.inf, None
        if not found.complete:
            raise KeyboardInterrupt
        loss = float(np.mean([np.asarray(member.trace)[-1] for member in found]))
        assert self.rows is not None
        scores = row_scores(found, self.problem.likelihood, self.rows)
        if found.failed or not math.isfinite(loss) or not np.isfinite(scores).all():
            return math.inf, None
        return loss, scores


def row_scores(posterior: Posterior, likelihood: Likelihood, rows: Data) -> HostArray:
    """How far predictions are from the targets of each row that was held back; see `Planned.scores`.

    The log-likelihood will not do: with two members, a few rows far from both decide it.
    """
    y = np.asarray(rows.y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFiniteWarning)
        prediction = posterior.predict(rows.x)
    if not np.isfinite(prediction.mean).all():
        return np.full(len(y), np.inf)
    if isinstance(likelihood, OrderedLikelihood):
        levels = np.asarray(LEVELS).reshape(-1, *(1,) * y.ndim)
        error = y - prediction.quantile(LEVELS).reshape(len(LEVELS), *y.shape)
        found = 2 * np.mean(np.where(error > 0, levels, levels - 1) * error, axis=0)
    else:
        classes = isinstance(likelihood, ClassLikelihood) and prediction.mean.ndim > y.ndim
        target = np.eye(prediction.mean.shape[-1])[y] if classes else y
        found = (prediction.mean.reshape(target.shape) - target) ** 2
    return np.asarray(found.reshape(len(y), -1).sum(axis=1), np.float64)


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
    """Where the parabola through three values, one apart, is lowest; 0 where one of them is infinite."""
    left, right = below - best, above - best
    if math.isinf(left) or math.isinf(right) or left + right == 0:
        return 0.0
    return (left - right) / (2 * (left + right))


def enough_epochs(scores: Mapping[int, float], surely_best: Callable[[int], bool], least: int = 1) -> int:
    """Epochs after which twice as many improve a score, given by epochs, by less than `PAYS`.

    A shorter trial decides only if it is surely better than the longest. Otherwise trainings pay at least up to the
    longest trial and up to `least`, and further as far as `next_gain` says.
    """
    longest, best = max(scores), min(scores, key=scores.__getitem__)
    extrapolated = round(longest * (next_gain(scores) / PAYS) ** 2)
    return best if surely_best(best) else max(least, longest, extrapolated)


def next_gain(scores: Mapping[int, float]) -> float:
    """By how much the logarithm of a score would fall if the longest trial were twice as long.

    Gains are taken to fall by sqrt(2) from doubling to doubling. Of two estimates of the last one, from two trials and
    from all, the larger counts: trainings that are too long cost less than those that are too short.
    """
    lengths = sorted(scores)
    if len(lengths) == 1 or scores[lengths[-1]] == 0:
        return 0.0
    gains = [math.log(scores[short] / scores[long]) for short, long in itertools.pairwise(lengths)]
    last = max(gains[-1], sum(gains) / sum(2 ** (k / 2) for k in range(len(gains))))
    return max(0.0, last) / math.sqrt(2)


def epochs_text(count: int) -> str:
    """A number of epochs, for people."""
    return f"{count:,} epoch{'' if count == 1 else 's'}"
