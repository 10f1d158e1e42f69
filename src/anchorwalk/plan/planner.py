"""A plan for a budget: a learning rate, the length of trainings, chains and members, found by short trial trainings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from anchorwalk import checks
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.trials import LEAST_STEPS, PAYS, SHARE, Recipe, Trials, recipe_for
from anchorwalk.posterior.metrics.convergence import LEAST
from anchorwalk.problem import Problem
from anchorwalk.run.runners import Runner
from anchorwalk.types import Key
from anchorwalk.walks import GuidedWalk, validate_walk
from anchorwalk.walks.base import Walk

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
       of the length. Trainings have 3,000 steps or more unless a shorter trial has the best score.
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
    trials = Trials(key, problem, recipe_for(problem, optimizer, batch_size), runner)
    enough = trials.find(budget, rows := problem.n)
    recipe, left = trials.recipe, budget - trials.spent
    shape = _shape(left, left if enough is None else enough, -(-rows // recipe.batch_size))
    later = recipe.training(rows, shape.later, shape.first) if shape.members > 1 else None
    if walk is None:
        walk = GuidedWalk(step_size=min(1.0, shape.later / max(1, int(LATER * shape.first))))
    follows = later is not None
    method = SAE(recipe.training(rows, shape.first), later, walk, keep_optimizer=follows, shift_start=follows)
    plan = Plan(method, shape.chains, shape.members)
    found = Planned(plan, trials.rates, trials.scores, enough, trials.spent, "")
    return replace(found, explanation=_explain(found, budget, recipe))


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


def _explain(found: Planned, budget: int, recipe: Recipe) -> str:
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
