"""A plan for a budget: a learning rate, the length of trainings, chains and members, found by short trial trainings."""

import itertools
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import NotFiniteWarning, TrainingFailed
from anchorwalk.likelihoods import ClassLikelihood, OrderedLikelihood
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import SGD, SOAP, Adam, Lion, Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior import metrics
from anchorwalk.posterior.metrics.convergence import LEAST
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.types import Key
from anchorwalk.walks import GuidedWalk, validate_walk
from anchorwalk.walks.base import Walk

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
ENOUGH_STEPS = 14_000
"""Steps of a first training that one chain should have before the budget pays for a second one."""
LATER = 0.45
"""Epochs of a later training, as a share of the first's."""
ALONE = 7
"""Members of a single chain, where its budget pays for them. Several chains have ten, which `diagnose` can judge."""
LARGEST = 0.9
"""Share of a chain's epochs that its first training may have."""
FEWEST_LATER = 2
"""Later members of a chain, at least."""
SMALL, RARELY = 10_000, 32
"""Networks with fewer parameters renew SOAP's bases after so many steps: a renewal costs many of their steps."""


@dataclass(frozen=True)
class Planned:
    """What `plan_for` returns; print it for the reasons.

    Attributes:
        plan: The plan, for `sample`.
        rates: By learning rate: the anchored loss at the end of its trial, in nats a row; infinite where it diverged.
            Empty where an optimiser with a rate was given, or where the budget is too small for trials.
        scores: By length in epochs: the score of its trial on rows that were held back. It is the continuous ranked
            probability score for numbers and the Brier score for classes; less is better.
        enough: Epochs after which a training of twice the length would hardly improve the score; None where nothing
            was tried.
        spent: Epochs of all trials.
        explanation: The reasons.
    """

    plan: Plan
    rates: Mapping[float, float]
    scores: Mapping[int, float]
    enough: int | None
    spent: int
    explanation: str

    def __str__(self) -> str:
        return self.explanation


def plan_for(
    key: Key,
    problem: Problem,
    budget: int,
    *,
    optimizer: Any = None,
    batch_size: int | None = None,
    walk: Walk | None = None,
    runner: str | Runner = "auto",
) -> Planned:
    """Choose learning rate, epochs, chains and members for a budget, by trials that take about a fifth of it.

    1. Trials of a hundredth of the budget find the learning rate: the one with the lowest anchored loss.
    2. Trials of two and four times that length find how long a training pays, on rows that are held back: until
       doubling it improves the score by less than 2%. Beyond the longest trial, gains are taken to fall with the root
       of the length.
    3. The rest of the budget goes to chains with a first training and later ones of half its length, by
       `SAE(keep_optimizer=True, shift_start=True)`. A larger budget pays for longer trainings and for more chains, and
       only for more chains once trainings are as long as pays. Several chains have ten members each or more, which
       `diagnose` can judge. Where the budget is too small for one chain of seven, its first training gets up to nine
       tenths of the epochs, and anchors take smaller steps.

    Members of trials are never part of the posterior: they are trained without the rows that are held back, and with
    rates that may turn out to be wrong. Test rows are not looked at.

    Args:
        key: `jax.random.key(...)`; decides the trials. The run itself may use the same one.
        problem: What to fit. Its validation rows, if it has any, are those that trials are scored on.
        budget: Epochs over all chains, the trials' included.
        optimizer: `SOAP`, the default, `Adam`, `Lion` or `SGD`, whose rate trials find; or an optimiser as in
            `Training`, such as `Adam(1e-3)`, which is used as it is.
        batch_size: Rows in a minibatch. By default 8 to 64, so that an epoch has 64 steps or more.
        walk: How the anchors walk. By default `GuidedWalk`, with a step of one standard deviation of the prior, or
            less where later trainings are too short to follow it.
        runner: As in `sample`.

    Raises:
        InvalidInput: Arguments that do not fit together.
        TrainingFailed: Trials that diverged at every rate.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> planned = aw.plan_for(jax.random.key(0), problem, 2000)
        >>> planned.spent + planned.plan.epochs <= 2000
        True
        >>> posterior = aw.sample(jax.random.key(0), problem, planned.plan, callbacks=[])
    """
    checks.key("key", key)
    budget = checks.count("budget", budget)
    checks.instance("problem", problem, Problem, "a Problem(init=, apply=, ...)")
    walk = None if walk is None else validate_walk(walk)
    if isinstance(optimizer, type) and optimizer not in OPTIMIZERS:
        expected = f"one of {', '.join(one.__name__ for one in OPTIMIZERS)}, or an optimiser with its rate"
        checks.reject("optimizer", f"the class {optimizer.__name__}", expected, "Pass SOAP, or such as Adam(1e-3).")
    rows = problem.n
    size = _batch_size(rows) if batch_size is None else min(checks.count("batch_size", batch_size), rows)
    if optimizer is None or optimizer is SOAP:
        optimizer = partial(SOAP, refresh=RARELY) if problem.size < SMALL else SOAP
    recipe = _Recipe(optimizer, size, rate_at(START))
    recipe.training(rows, 1)  # refuses what is no optimiser
    trials = _Trials(key, problem, recipe, runner)
    shortest, steps = budget // SHARE, -(-rows // size)
    if shortest * steps < LEAST_STEPS or rows < 2 / HELD_BACK:
        enough = None
    else:
        recipe = trials.find_rate(shortest)
        enough = min(budget, trials.find_length(shortest, recipe))
    left = budget - trials.spent
    shape = _shape(left, left if enough is None else enough, steps)
    later = recipe.training(rows, shape.later, shape.first) if shape.members > 1 else None
    if walk is None:
        walk = GuidedWalk(step_size=min(1.0, shape.later / max(1, int(LATER * shape.first))))
    follows = later is not None
    method = SAE(recipe.training(rows, shape.first), later, walk, keep_optimizer=follows, shift_start=follows)
    plan = Plan(method, shape.chains, shape.members)
    found = Planned(plan, trials.rates, trials.scores, enough, trials.spent, "")
    return replace(found, explanation=_explain(found, budget, recipe))


def _batch_size(rows: int) -> int:
    return min(rows, max(FEWEST_ROWS, min(MOST_ROWS, rows // STEPS_AN_EPOCH)))


class _Recipe(NamedTuple):
    """Trainings of any length: with an optimiser that is given, or with one whose rate was best after so many steps."""

    optimizer: Any
    batch_size: int
    rate: float
    steps: int = 0

    @property
    def given(self) -> bool:
        return not isinstance(self.optimizer, type | partial)

    @property
    def name(self) -> str:
        return str(getattr(self.optimizer, "func", self.optimizer).__name__)

    def training(self, rows: int, epochs: int, rate_of: int | None = None) -> Training:
        """A training on so many rows, with the rate of its own length or of another."""
        size = min(self.batch_size, rows)
        if self.given:
            return Training(self.optimizer, epochs, size)
        steps = (rate_of or epochs) * -(-rows // size)
        rate = self.rate * ((self.steps + WARM_UP) / (steps + WARM_UP)) ** DECAY if self.steps else self.rate
        return Training(self.optimizer(rate, end_rate=END * rate), epochs, size)


class _Trials:
    """Trial trainings, what they found, and the epochs that they took."""

    def __init__(self, key: Key, problem: Problem, recipe: _Recipe, runner: str | Runner) -> None:
        self.key, self.recipe, self.runner = jax.random.fold_in(key, Stream.TRIAL), recipe, runner
        self.rates: dict[float, float] = {}
        self.scores: dict[int, float] = {}
        self.spent = 0
        if problem.validation is None and problem.n >= 2 / HELD_BACK:
            share = min(HELD_BACK, MOST_HELD_BACK / problem.n)
            problem = problem.hold_back(jax.random.fold_in(key, Stream.PREPARE), share)
        self.problem = problem

    def find_rate(self, length: int) -> _Recipe:
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

    def find_length(self, shortest: int, recipe: _Recipe) -> int:
        """Epochs after which doubling them improves the score by less than `PAYS`."""
        lengths = [shortest * 2**k for k in range(DOUBLINGS + 1)]
        for length in lengths[1:]:
            self.scores[length] = self._run(recipe, length)[1]
        return enough_epochs(self.scores)

    def _run(self, recipe: _Recipe, epochs: int) -> tuple[float, float]:
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
    rows = problem.validation
    assert rows is not None
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


def enough_epochs(scores: Mapping[int, float]) -> int:
    """Epochs after which twice as many improve a score by less than `PAYS`.

    Beyond the longest trial, gains are taken to fall with the root of the length, as what stochastic descent leaves
    behind does: by sqrt(2) from doubling to doubling. The last gain is read off the last two trials and off all of
    them. The larger counts: trainings that are too long cost less than those that are too short.

    Args:
        scores: By epochs, each twice those before.
    """
    lengths = sorted(scores)
    best = min(lengths, key=scores.__getitem__)
    if best != lengths[-1]:
        return best
    gains = [math.log(scores[short] / scores[long]) for short, long in itertools.pairwise(lengths)]
    last = max(gains[-1], sum(gains) / sum(2 ** (k / 2) for k in range(len(gains))))
    return max(lengths[0], round(lengths[-1] * (last / math.sqrt(2) / PAYS) ** 2))


class _Shape(NamedTuple):
    """Chains, and of each the epochs of its first training, its members and the epochs of a later training."""

    chains: int
    first: int
    members: int
    later: int


def _shape(budget: int, enough: int, steps: int) -> _Shape:
    """How chains share a budget, where trainings pay up to `enough` epochs of so many steps."""

    def later_of(first: int) -> int:
        return max(1, int(LATER * first))

    def chain(first: int) -> int:
        """Epochs of one of several chains."""
        return first + (LEAST - 1) * later_of(first)

    needed = min(enough, math.ceil(ENOUGH_STEPS / steps))
    # Longer trainings and more chains in equal parts, up to the length that pays.
    chains = max(1, round(math.sqrt(budget / chain(needed))))
    members = LEAST if chains > 1 else ALONE
    first = max(1, min(enough, int(budget / chains / (1 + LATER * (members - 1)))))
    chains = max(1, budget // chain(first))
    if chains == 1:
        first = max(1, min(max(needed, first), int(LARGEST * budget)))
    each = budget // chains
    later = max(1, min(later_of(first), (each - first) // FEWEST_LATER))
    return _Shape(chains, first, 1 + (each - first) // later, later)


def _explain(found: Planned, budget: int, recipe: _Recipe) -> str:
    plan, method = found.plan, found.plan.method
    assert isinstance(method, SAE)
    lines = [f"{_epochs(budget)}: {found.spent:,} for trials, {plan.epochs:,} for the plan."]
    name = repr(recipe.optimizer)
    if not recipe.given:
        name = f"{recipe.name} with a rate of {method.first.optimizer.rate:.2g}"
    lines.append(f"Optimiser: {name}, batches of {recipe.batch_size} rows.")
    if found.rates:
        losses = ", ".join(f"{loss:.2f} with {rate:g}" for rate, loss in found.rates.items())
        lines[-1] += f" Losses after trials of {_epochs(min(found.scores))}, in nats a row: {losses}."
    if found.enough is None:
        lines.append(f"No trials: they need {_epochs(SHARE)} or more, and {LEAST_STEPS} steps for the shortest.")
    else:
        scores = ", ".join(f"{score:.3g} after {_epochs(length)}" for length, score in found.scores.items())
        pays = "all that is left" if found.enough == budget else _epochs(found.enough)
        lines.append(f"Length: scores on rows held back were {scores}. Trainings pay up to {pays}.")
    members = f"{plan.chains:,} {'chain' if plan.chains == 1 else 'chains'} x {plan.members:,} members"
    lines.append(f"Plan: {members}. First trainings have {_epochs(method.first.epochs)}.")
    if method.then is not None:
        lines[-1] += f" Later ones have {_epochs(method.then.epochs)}, after a step of {method.walk!r}."
    return "\n".join([*lines, f"Expect: {_expectation(found, method.first.epochs)}"])


def _expectation(found: Planned, first: int) -> str:
    """What to expect of the plan, and of `diagnose`."""
    parts = []
    if found.enough is not None and first < found.enough:
        gain = PAYS * math.sqrt(found.enough / first)
        parts.append(f"first trainings of twice the length would improve the score by about {gain:.0%}.")
    elif found.enough is not None:
        parts.append(f"longer first trainings would improve the score by less than {PAYS:.0%}, or make it worse.")
    if found.plan.chains == 1:
        parts.append("`diagnose` cannot compare chains, as the budget is too small for two.")
    if found.plan.members < LEAST:
        parts.append(f"`diagnose` needs {LEAST} members a chain to judge them.")
    return " ".join(parts) or "`diagnose` can judge the chains."


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'' if count == 1 else 's'}"
