"""A plan for a budget: a learning rate, the length of trainings, chains and members, found by short trial trainings."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from anchorwalk import checks
from anchorwalk.methods.ae import AE
from anchorwalk.methods.deep_ensemble import DeepEnsemble
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.trials import LEAST_STEPS, OPTIMIZERS, PAYS, SHARE, Trials, epochs_text, next_gain, recipe_for
from anchorwalk.posterior.metrics.convergence import LEAST
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem
from anchorwalk.run.runners import Local, Runner
from anchorwalk.run.runners.layout import choose
from anchorwalk.types import Key
from anchorwalk.walks import GuidedWalk, validate_walk
from anchorwalk.walks.base import Walk

ENOUGH_STEPS = 14_000  # steps of a first training that one chain should have before the budget pays for a second one
GROWTH = 2 / 3  # power of the budget with which chains grow while longer trainings pay
LATER = 0.45  # epochs of a later training, as a share of the first's
ALONE = 7  # members of a single chain, where the budget pays for them; several chains have ten, to be judged
LARGEST = 0.9  # share of a chain's epochs that its first training may have
FEWEST_LATER = 2  # later members of a chain, at least
FEWEST_SINGLES = 5  # members of a method with one member a chain, at least


@dataclass(frozen=True)
class Planned:
    """What `plan_for` returns; print it for the reasons.

    `problem` has the prior that trials chose, and is what to `sample`; `chosen` is the number of that
    prior, 0 for the problem's own, and `priors` has their scores. `rates` has the mean anchored loss over the last
    epoch of a trial, in nats a row, by learning rate; infinite where the trial diverged. `scores` has the score of a
    trial on rows that were held back, by its length in epochs: the continuous ranked probability score of numbers, the
    Brier score of classes, the squared error of the mean of other targets; less is better. `enough` is the length after
    which doubling a training would hardly improve the score; it may be more than the budget. Where nothing was tried,
    they are empty and None. `spent` is the epochs of all trials.
    """

    plan: Plan
    problem: Problem = field(compare=False)
    chosen: int
    priors: Sequence[float]
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
    method: type[SAE | AE | DeepEnsemble] = SAE,
    chains: int | None = None,
    members: int | None = None,
    perturb_targets: bool = False,
    mean_first: float | None = None,
    keep: Literal["last", "best"] = "last",
    priors: Sequence[Prior] = (),
    shift_start: bool = True,
    runner: str | Runner = "auto",
) -> Planned:
    """Choose learning rate, epochs, chains and members for a budget, by trials that take about a fifth of it.

    1. Trials of a hundredth of the budget find the learning rate: the one with the lowest anchored loss.
    2. Trials of two and four times that length find how long a training pays, on rows that are held back: until
       doubling it improves the score by less than 2%, extrapolated beyond the longest trial. A shorter trial decides
       only if it is better than the longest by three standard errors.
    3. The rest goes to chains with a first training and later ones of half its length. A larger budget buys longer
       trainings and more chains; once trainings are long enough, only more chains. Several chains have ten members or
       more each, which `diagnose` can judge. A small budget goes mostly to one first training, and anchors
       take small steps.
       Methods of one member a chain have five members or more, as many as the budget holds.

    Members of trials are never part of the posterior: they are trained without the rows that are held back, and with
    rates that may turn out to be wrong. Test rows are not looked at.

    Args:
        key: `jax.random.key(...)`; decides the trials. The run itself may use the same one.
        problem: What to fit. Its validation rows, if it has any, are those that trials are scored on.
        budget: Epochs over all chains, the trials' included.
        optimizer: `SOAP`, the default, `Adam`, `Lion` or `SGD`, whose rate trials find; or an optimiser as in
            `Training`, such as `Adam(1e-3)`, which is used as it is.
        batch_size: Rows in a minibatch, N at most. By default 8 to 64, so that an epoch has 64 steps or more.
        walk: How the anchors walk. By default `GuidedWalk`, with a step of one standard deviation of the prior, or
            less where later trainings are too short to follow it.
        method: `SAE`, or `AE` or `DeepEnsemble`, whose chains have one member.
        chains: Chains, or members of a method with one member a chain; by default as many as the budget is best for.
        members: Of a chain of an `SAE`, about so many, or more where long trainings do not pay; by default 10.
        perturb_targets: As in `SAE` and `AE`.
        mean_first: As in `Training`, for all trainings.
        keep: As in `Training`, for all trainings.
        priors: Others than the problem's own, from simple to rich. The shortest trials choose one: a later one has to
            score better by a standard error. `Planned.problem` has it.
        shift_start: As in `SAE`.
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
    """
    checks.outside("plan_for", key, problem)
    checks.key("key", key)
    budget = checks.count("budget", budget)
    checks.instance("problem", problem, Problem, "a Problem(init=, apply=, ...)")
    walk = None if walk is None else validate_walk(walk)
    if method not in (SAE, AE, DeepEnsemble):
        checks.reject("method", repr(method), "the class SAE, AE or DeepEnsemble", "Make a Plan(...) by hand.")
    chains = None if chains is None else checks.count("chains", chains)
    members = None if members is None else checks.count("members", members, least=2)
    recipe = recipe_for(problem, optimizer, batch_size, keep=keep, mean_first=mean_first)
    # The state of an optimiser from elsewhere may hold more than moments, such as an average of the parameters.
    keeps = {"keep_optimizer": not recipe.given or isinstance(recipe.optimizer, tuple(OPTIMIZERS))}
    keeps["shift_start"] = shift_start

    like = None
    if method is SAE and chains is not None and members is not None and runner == "auto":
        # Trials use the compiled program of the plan.
        training = recipe.training(problem.n, 1)
        like = SAE(training, training, walk or GuidedWalk(step_size=1.0), perturb_targets, **keeps)
        runner = Local(lanes=choose(problem, chains, budget).lanes)
    trials = Trials(key, problem, recipe, runner, perturb_targets, like)
    enough, rows = trials.find(budget, priors), problem.n
    chosen = problem.with_prior(priors[trials.chosen - 1]) if trials.chosen else problem
    recipe, left = trials.recipe, budget - trials.spent
    pays, steps = left if enough is None else min(left, enough), -(-rows // recipe.batch_size)
    chains = None if chains is None else min(chains, left)
    shape = _shape(left, pays, steps, chains, members) if method is SAE else _singles(left, pays, chains)
    first = recipe.training(rows, shape.first)
    if method is not SAE:
        plan = Plan(AE(first, perturb_targets) if method is AE else DeepEnsemble(first), shape.chains)
    else:
        later = recipe.training(rows, shape.later, shape.first) if shape.members > 1 else None
        step = round(min(1.0, shape.later / max(1, int(LATER * shape.first))), 2)
        walk = GuidedWalk(step_size=max(0.01, step)) if walk is None else walk
        keeps = {name: kept and later is not None for name, kept in keeps.items()}
        chain = SAE(first, later, walk, perturb_targets, **keeps)
        plan = Plan(chain, shape.chains, shape.members)
    text = _explain(plan, first, trials, enough, budget)
    return Planned(plan, chosen, trials.chosen, trials.priors, trials.rates, trials.means, enough, trials.spent, text)


class _Shape(NamedTuple):
    """How chains share a budget."""

    chains: int
    first: int  # epochs of a first training
    members: int  # of a chain
    later: int  # epochs of a later training


def _singles(budget: int, enough: int, chains: int | None) -> _Shape:
    """How chains of one member share a budget, where trainings pay up to `enough` epochs."""
    first = max(1, min(enough, budget // (chains or FEWEST_SINGLES)))
    return _Shape(max(1, chains or budget // first), first, 1, 0)


def _shape(budget: int, enough: int, steps: int, given: int | None = None, length: int | None = None) -> _Shape:
    """How chains, as many as are given, share a budget, where trainings pay up to `enough` epochs of so many steps."""

    def later_of(first: int) -> int:
        return max(1, int(LATER * first))

    def chain(first: int) -> int:
        """Epochs of one of several chains."""
        return first + ((length or LEAST) - 1) * later_of(first)

    needed = min(enough, math.ceil(ENOUGH_STEPS / steps))
    # Of a budget that grows eightfold, chains get four times as many and trainings twice the epochs, while that pays.
    chains = given or max(1, round((budget / chain(needed)) ** GROWTH))
    members = length or (LEAST if chains > 1 else ALONE)
    first = max(1, min(enough, int(budget / chains / (1 + LATER * (members - 1)))))
    chains = given or max(1, budget // chain(first))
    if chains == 1:
        first = max(1, min(max(needed, first), int(LARGEST * budget)))
    each = budget // chains
    later = max(1, min(later_of(first), (each - first) // FEWEST_LATER))
    return _Shape(chains, first, 1 + (each - first) // later, later)


def _explain(plan: Plan, training: Training, trials: Trials, enough: int | None, budget: int) -> str:
    recipe, first = trials.recipe, training.epochs
    lines = [f"{epochs_text(budget)}: {trials.spent:,} for trials, {plan.epochs:,} for the plan."]
    name = repr(recipe.optimizer)
    if not recipe.given:
        name = f"{recipe.optimizer.__name__} with a rate of {training.optimizer.rate:.2g}"
    lines.append(f"Optimiser: {name}, batches of {recipe.batch_size} rows.")
    if trials.rates:
        losses = ", ".join(f"{loss:.2f} with {rate:g}" for rate, loss in trials.rates.items())
        lines[-1] += f" Losses of trials, in nats a row: {losses}."
        if min(trials.rates, key=trials.rates.__getitem__) in (min(trials.rates), max(trials.rates)):
            lines[-1] += " The best rate is at the edge of those that were tried."
    if trials.priors:
        scores = ", ".join(f"{score:.3g}" for score in trials.priors)
        lines.append(f"Prior: number {trials.chosen + 1} of {len(trials.priors)}, by scores of {scores}.")
    if enough is None:
        needed = f"{epochs_text(SHARE)} or more, {LEAST_STEPS} steps for the shortest, and eight rows"
        lines.append(f"No trials: they need {needed}. Rate and length are untested.")
    else:
        scores = ", ".join(f"{score:.3g} after {epochs_text(length)}" for length, score in trials.means.items())
        pays = "beyond the budget" if enough > budget else f"up to {epochs_text(enough)}"
        lines.append(f"Length: scores on rows held back were {scores}. Longer trainings pay {pays}.")
    members = f"{plan.chains:,} {'chain' if plan.chains == 1 else 'chains'} x {plan.members:,} members"
    lines.append(f"Plan: {members}. First trainings have {epochs_text(first)}.")
    if isinstance(plan.method, SAE) and plan.method.then is not None:
        later = plan.method.then.epochs
        lines[-1] += f" Later ones have {epochs_text(later)}, after a step of {plan.method.walk!r}."
    return "\n".join([*lines, f"Expect: {_expectation(plan, first, trials.means, enough)}"])


def _expectation(plan: Plan, first: int, scores: Mapping[int, float], enough: int | None) -> str:
    """What to expect of the plan, and of `diagnose`."""
    parts = []
    if enough is not None and first < enough:
        gain = 1 - math.exp(-next_gain(scores) * math.sqrt(max(scores) / first))
        parts.append(f"first trainings of twice the length would improve the score by about {gain:.0%}, extrapolated.")
    elif enough is not None:
        parts.append(f"longer first trainings would improve the score by less than {PAYS:.0%}, or make it worse.")
    if plan.chains == 1:
        parts.append("`diagnose` cannot compare chains, as there is one.")
    if plan.members < LEAST and isinstance(plan.method, SAE):
        parts.append(f"`diagnose` needs {LEAST} members a chain to judge them.")
    return " ".join(parts) or "`diagnose` can judge the chains."
