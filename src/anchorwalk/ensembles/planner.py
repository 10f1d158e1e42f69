"""A plan for a budget: which chains, members and epochs leave the least error, by what pilots have seen?"""

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.ensembles.describe import DEFAULT_WALK
from anchorwalk.ensembles.pilots import CHAINS, FIRST_SHARE, Pilots, Trainings, fly
from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.rates import MIDDLE, Rates, find_rate, training_at
from anchorwalk.ensembles.runners import Runner
from anchorwalk.problem import Problem, check_apply, check_inputs
from anchorwalk.training import Training
from anchorwalk.types import Inputs, Key, Walk
from anchorwalk.walks import check_walk, diagnostics

LEAST_STEPS = 50
"""Optimiser steps of the shortest pilot; trainings that have hardly begun tell nothing of how they end."""
FEWEST = 2
"""Members of a plan: the least that can disagree. So many chains share a budget that is too small for pilots."""
FIRST_SHARES = (0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1)
"""Of a chain's epochs: what its first training may get where later members follow it."""
TRIAL = 2**32 - 5
"""Folded into the key for trials of rates; no chain has this number."""


@dataclass(frozen=True)
class Planned:
    """What `plan_for` returns; printed, it explains itself.

    Attributes:
        plan: To be passed to `sample`.
        pilots: What it was chosen by; None where the budget is too small for any.
        rates: What the rate was chosen by; None where a training was given.
        spent: Epochs that trials of rates and pilots took.
        explanation: The reasons, in words.
    """

    plan: Plan
    pilots: Pilots | None
    rates: Rates | None
    spent: int
    explanation: str

    def __str__(self) -> str:
        return self.explanation


class _Candidate(NamedTuple):
    chains: int
    first: int
    members: int
    short: int


def plan_for(
    key: Key,
    problem: Problem,
    budget: int,
    walk: Walk | None = None,
    first: Training | None = None,
    then: Training | None = None,
    runner: str | Runner = "auto",
    at: Inputs | None = None,
) -> Planned:
    """Chains, members, epochs and a learning rate for a budget, by pilots that spend 26% of it at most.

    An ensemble misses the posterior in three ways: members stop before they are at their optima; later members fall
    behind their walking anchors; chains and members are few. Pilots of three lengths show the first: how far
    predictions at training inputs, averaged over chains, move when a training is twice as long. Pilots of short
    trainings show the second. The third is how much chains disagree where the data do not fix predictions: at inputs
    whose features come each from another training row, or, better, at inputs like those that you will ask for, if you
    give some. The plan with the least expected square of the error is taken. No test rows, and no reference, are
    looked at. A plan has two members at least, as one says nothing of how sure it is. A budget that leaves pilots
    fewer than 50 steps is shared by two chains, without pilots.

    Before all that, unless an optimiser is given, trials of a few epochs find a rate for `Lion`.

    Args:
        key: `jax.random.key(...)`; decides the pilots. The run itself may use the same one.
        problem: What to fit.
        budget: Epochs over all chains, the pilots' included.
        walk: How the anchors walk; `GuidedWalk(step_size=0.1)` unless given, as in `sample`.
        first: Optimiser and batch size of the trainings from scratch; its epochs do not count. Unless given, `Lion`
            with a rate that trials find, and batches of 8 to 32 rows.
        then: The same for later trainings. By default as `first`.
        runner: As in `sample`.
        at: Inputs as in training, without targets, like those at which predictions will be wanted. Where chains agree
            on them few chains will do, and all the more epochs are left for each.

    Raises:
        InvalidInput: Arguments that do not fit together.
        TrainingFailed: A pilot that diverged.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> how = aw.Training(aw.SGD(0.01), epochs=1, batch_size=1)
        >>> planned = aw.plan_for(jax.random.key(0), problem, 300, first=how)
        >>> planned.spent + planned.plan.epochs <= 300
        True
        >>> posterior = aw.sample(jax.random.key(0), problem, planned.plan, callbacks=[])
    """
    checks.key("key", key)
    budget = checks.count("budget", budget)
    if not isinstance(problem, Problem):
        checks.reject("problem", type(problem).__name__, "a Problem", "Pass Problem(init=, apply=, ...).")
    walk = check_walk(DEFAULT_WALK if walk is None else walk)
    some = training_at(MIDDLE, problem.n) if first is None else first
    Plan(1, 2, some, some if then is None else then)  # refuses what is no training, and two that do not go together
    at = None if at is None else _check_at(problem, at)
    rates = None
    if first is None:
        rates = find_rate(jax.random.fold_in(key, TRIAL), problem, budget, walk, LEAST_STEPS)
    trainings = Trainings(problem.n, rates, first, then)
    shortest = int(FIRST_SHARE * budget / (7 * CHAINS))
    if shortest == 0 or trainings.first(shortest).steps(problem.n) < LEAST_STEPS:
        return _without_pilots(budget, trainings)
    pilots = fly(key, problem, budget, shortest, walk, trainings, runner, at)
    spent = trainings.spent + pilots.epochs
    best = _best(pilots, budget - spent, walk)
    later = trainings.then(best.short, best.first) if best.members > 1 else None
    plan = Plan(best.chains, best.members, trainings.first(best.first), later)
    explanation = _explain(pilots, plan, budget, spent, at is not None, _explain_rates(rates, plan))
    return Planned(plan, pilots, rates, spent, explanation)


def _check_at(problem: Problem, at: Inputs) -> Inputs:
    dtype = jnp.result_type(*jax.tree.leaves(problem.params_like))
    at, rows = check_inputs("plan_for(at=)", at, dtype)
    check_apply("plan_for(at=)", problem.apply, problem.params_like, at, rows)
    return jax.tree.map(np.asarray, at)


def _without_pilots(budget: int, trainings: Trainings) -> Planned:
    left = budget - trainings.spent
    chains = min(FEWEST, left)
    plan = Plan(chains, 1, trainings.first(left // chains))
    epochs = math.ceil(LEAST_STEPS / trainings.first(1).steps(trainings.rows))
    return Planned(
        plan,
        None,
        trainings.rates,
        trainings.spent,
        f"{budget:,} epochs are too few for pilots, the shortest of which needs {epochs:,} epochs to tell anything, in "
        f"{CHAINS} chains, beside longer ones, and {FIRST_SHARE:.0%} of the budget at most: from "
        f"{math.ceil(7 * CHAINS * epochs / FIRST_SHARE):,} epochs on there will be some.\n"
        f"{chains} {'chain' if chains == 1 else 'chains'} of one member share them."
        f"{_explain_rates(trainings.rates, plan)}",
    )


def _best(pilots: Pilots, budget: int, walk: Walk) -> _Candidate:
    """The candidate with the least expected square of the error."""
    candidates = list(_candidates(pilots, budget))
    sizes = [2**k for k in range(max(one.members for one in candidates).bit_length() + 1)]
    worth = [max(1.0, diagnostics.summarize(walk, size).effective_anchors) for size in sizes]

    def error(one: _Candidate) -> float:
        anchors = float(np.exp(np.interp(math.log(one.members), np.log(sizes), np.log(worth))))
        bias = pilots.unfinished(one.first)
        if one.members == 1:
            return bias**2 + pilots.spread**2 / one.chains
        bias += pilots.slips[one.short] * (one.members - 1) / one.members
        return bias**2 + pilots.spread**2 / (one.chains * (1 + pilots.reach[one.short] * (anchors - 1)))

    return min(candidates, key=error)


def _candidates(pilots: Pilots, budget: int) -> Iterator[_Candidate]:
    for chains in range(1, budget // pilots.lengths[0] + 1):
        each = budget // chains
        if chains >= FEWEST:
            yield _Candidate(chains, each, 1, 0)
        for short, share in itertools.product(pilots.slips, FIRST_SHARES):
            first = int(share * each)
            members = 1 + (each - first) // short
            if first >= pilots.lengths[0] and members > 1:  # shorter than any pilot: nothing is known of it
                yield _Candidate(chains, first, members, short)


def _explain_rates(rates: Rates | None, plan: Plan) -> str:
    """A line on the rate, or nothing where it was given."""
    if rates is None:
        return ""
    chosen = f"\nLion with a rate of {plan.first.optimizer.rate:.2g} and batches of {plan.first.batch_size}"
    if not rates.losses:
        return f"{chosen}, untried: the budget is too small for trials of rates."
    found = ", ".join(f"{loss:.2f} with {rate:g}" for rate, loss in sorted(rates.losses.items()))
    return f"{chosen}: losses after trials of {rates.length:,} epochs were {found} (nats a row)."


def _explain(pilots: Pilots, plan: Plan, budget: int, spent: int, given: bool, rates: str) -> str:
    shorter, longest = pilots.lengths[-2:]
    fell = pilots.losses[-2] - pilots.losses[-1]
    lines = [
        f"{budget:,} epochs: {spent:,} for pilots, {plan.epochs:,} for the plan.{rates}",
        f"First trainings get {plan.first.epochs:,} epochs: from {shorter:,} to {longest:,} epochs predictions still "
        f"moved by {pilots.moved[-1]:.2g} and the anchored loss fell by {fell:.2g} nats a row; after "
        f"{plan.first.epochs:,} they should be within {pilots.unfinished(plan.first.epochs):.2g} of where they go.",
    ]
    slips = " and ".join(f"{slip:.2g} after {epochs} epochs" for epochs, slip in pilots.slips.items())
    if plan.members > 1:
        assert plan.then is not None
        lines.append(
            f"After that {plan.then.epochs} epochs follow the anchors (off by {slips}): {plan.members:,} members "
            "a chain."
        )
    elif slips:
        lines.append(f"One member a chain: short trainings do not follow the anchors well enough (off by {slips}).")
    else:
        lines.append(
            "One member a chain: first trainings are so far from finished that short ones would lose what they have "
            "reached."
        )
    where = "at the inputs that were given" if given else "where the data do not fix predictions"
    number = "One chain" if plan.chains == 1 else f"{plan.chains:,} chains"
    fewest = f", and {FEWEST} are the least that can disagree" if plan.total == FEWEST else ""
    lines.append(
        f"{number}, because they differ by {pilots.spread:.2g} {where}, and more of them would shorten their trainings"
        f"{fewest}."
    )
    return "\n".join(lines)
