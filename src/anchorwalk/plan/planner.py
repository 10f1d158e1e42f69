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
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Training
from anchorwalk.plan.pilots import (
    CHAINS,
    FIRST_SHARE,
    FOLLOW_SHARE,
    FOLLOWS,
    Pilots,
    Trainings,
    follow_cost,
    run_pilots,
)
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.rates import MIDDLE, Rates, find_rate, training_at
from anchorwalk.problem import Problem, check_apply, check_inputs
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.types import Inputs, Key
from anchorwalk.walks import DEFAULT_WALK, diagnostics, validate_walk
from anchorwalk.walks.base import Walk

LEAST_STEPS = 50
"""Optimiser steps of the shortest pilot; trainings that have hardly begun tell nothing of how they end."""
FEWEST = 2
"""Members of a plan: the least that can disagree. So many chains share a budget that is too small for pilots."""
THROWN = 2
"""Short trainings that move members by more than this, in squares, than anchors can carry them are not followed."""
FIRST_SHARES = (0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1)
"""Of a chain's epochs: what its first training may get where later members follow it."""


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
    predictions at training inputs move, alike in all chains, when a training is twice as long. Pilots of short
    trainings show the second, where first trainings are nearly finished, from 900 epochs on. The third is how much
    chains disagree at inputs whose features come each from another training row, or, better, at inputs like those
    that you will ask for, if you give some. The plan with the least sum of squares is taken. No test rows, and no
    reference, are looked at. A plan has two members at least, as one says nothing of how sure it is, and no first
    training that is shorter than the shortest pilot. A budget that leaves pilots fewer than 50 steps is shared by two
    chains, without pilots. Where trainings diverge and are begun anew, pilots cost more than is counted.

    What it cannot see: directions that the training rows leave free, and in which trainings are still on their way
    from where they began. They do not move predictions at training inputs.

    Before all that, unless an optimiser is given, trials of a few epochs find a rate for `Lion`.

    Args:
        key: `jax.random.key(...)`; decides the pilots. The run itself may use the same one.
        problem: What to fit.
        budget: Epochs over all chains, the pilots' included.
        walk: How the anchors walk; `GuidedWalk(step_size=0.1)` unless given, as in `SAE`.
        first: Optimiser and batch size of the trainings from scratch; its epochs do not count. Unless given, `Lion`
            with a rate that trials find, and batches of 8 to 32 rows.
        then: The same for later trainings. By default as `first`.
        runner: As in `sample`.
        at: Inputs as in training, without targets, like those at which predictions will be wanted. Where chains agree
            on them few chains will do, and all the more epochs are left for each.

    Raises:
        InvalidInput: Arguments that do not fit together.
        TrainingFailed: A pilot that diverged, or predictions that are not finite where they are compared.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> training = aw.Training(aw.SGD(0.01), epochs=1, batch_size=1)
        >>> planned = aw.plan_for(jax.random.key(0), problem, 300, first=training)
        >>> planned.spent + planned.plan.epochs <= 300
        True
        >>> posterior = aw.sample(jax.random.key(0), problem, planned.plan, callbacks=[])
    """
    checks.key("key", key)
    budget = checks.count("budget", budget)
    if not isinstance(problem, Problem):
        checks.reject("problem", type(problem).__name__, "a Problem", "Pass Problem(init=, apply=, ...).")
    walk = validate_walk(DEFAULT_WALK if walk is None else walk)
    some = training_at(MIDDLE, problem.n) if first is None else first
    SAE(some, some if then is None else then, walk)  # refuses what is no training, and two that do not go together
    at = None if at is None else _check_at(problem, at)
    rates = None
    if first is None:
        rates = find_rate(jax.random.fold_in(key, Stream.TRIAL), problem, budget, walk, LEAST_STEPS)
    trainings = Trainings(problem.n, rates, first, then)
    shortest = int(FIRST_SHARE * budget / (7 * CHAINS))
    if shortest == 0 or trainings.first(shortest).steps(problem.n) < LEAST_STEPS:
        return _without_pilots(budget, trainings, walk)
    pilots = run_pilots(key, problem, budget, shortest, walk, trainings, runner, at)
    spent = trainings.spent + pilots.epochs
    best = _best(pilots, budget - spent, walk)
    # As the pilots followed, with the rate that they had.
    later = trainings.then(best.short, pilots.lengths[-1]) if best.members > 1 else None
    plan = Plan(SAE(trainings.first(best.first), later, walk), best.chains, best.members)
    explanation = _explain(pilots, plan, budget, spent, at is not None, _explain_rates(rates, plan))
    return Planned(plan, pilots, rates, spent, explanation)


def _check_at(problem: Problem, at: Inputs) -> Inputs:
    dtype = jnp.result_type(*jax.tree.leaves(problem.params_like))
    at, rows = check_inputs("plan_for(at=)", at, dtype)
    check_apply("plan_for(at=)", problem.apply, problem.params_like, at, rows)
    return jax.tree.map(np.asarray, at)


def _without_pilots(budget: int, trainings: Trainings, walk: Walk) -> Planned:
    left = budget - trainings.spent
    chains = min(FEWEST, left)
    plan = Plan(SAE(trainings.first(left // chains), walk=walk), chains)
    epochs = math.ceil(LEAST_STEPS / trainings.first(1).steps(trainings.rows))
    return Planned(
        plan,
        None,
        trainings.rates,
        trainings.spent,
        f"{_epochs(budget)}: too few for pilots, the shortest of which needs {_epochs(epochs)} to tell anything, in "
        f"{CHAINS} chains, beside longer ones, and {FIRST_SHARE:.0%} of the budget at most: from "
        f"{math.ceil(7 * CHAINS * epochs / FIRST_SHARE):,} epochs on there will be some.\n"
        f"{f'{chains} chains of one member share them' if chains > 1 else 'One chain of one member gets them'}."
        f"{_explain_rates(trainings.rates, plan)}",
    )


def _best(pilots: Pilots, budget: int, walk: Walk) -> _Candidate:
    """The candidate with the least square of what is left undone and of what few chains and members leave to luck."""
    candidates = list(_candidates(pilots, budget))
    sizes = [2**k for k in range(max(one.members for one in candidates).bit_length() + 1)]
    worth = [max(1.0, diagnostics.summarize(walk, size).effective_anchors) for size in sizes]

    def error(one: _Candidate) -> float:
        anchors = float(np.exp(np.interp(math.log(one.members), np.log(sizes), np.log(worth))))
        bias = pilots.unfinished(one.first)
        if one.members == 1:
            return bias**2 + pilots.spread**2 / one.chains
        bias += pilots.slips[one.short] * (one.members - 1) / one.members
        reach = min(1.0, pilots.reach[one.short])  # the rest of the spread is a chain's own, however long it walks
        return bias**2 + pilots.spread**2 / one.chains * (1 - reach + reach / anchors)

    return min(candidates, key=error)


def _candidates(pilots: Pilots, budget: int) -> Iterator[_Candidate]:
    followed = [short for short, reach in pilots.reach.items() if reach < THROWN]
    for chains in range(1, budget // pilots.lengths[0] + 1):
        each = budget // chains
        if chains >= FEWEST:
            yield _Candidate(chains, each, 1, 0)
        for short, share in itertools.product(followed, FIRST_SHARES):
            first = int(share * each)
            members = 1 + (each - first) // short
            if first >= pilots.lengths[0] and members > 1:  # shorter than any pilot: nothing is known of it
                yield _Candidate(chains, first, members, short)


def _explain_rates(rates: Rates | None, plan: Plan) -> str:
    """A line on the rate, or nothing where it was given."""
    if rates is None:
        return ""
    first = _method(plan).first
    chosen = f"\nLion with a rate of {first.optimizer.rate:.2g} and batches of {first.batch_size}"
    if not rates.losses:
        return f"{chosen}, untried: the budget is too small for trials of rates."
    found = ", ".join(f"{loss:.2f} with {rate:g}" for rate, loss in sorted(rates.losses.items()))
    return f"{chosen}: losses after trials of {_epochs(rates.length)} were {found} (nats a row)."


def _explain(pilots: Pilots, plan: Plan, budget: int, spent: int, given: bool, rates: str) -> str:
    shorter, longest = pilots.lengths[-2:]
    before, after = pilots.losses[-2:]
    where = "at the inputs that were given" if given else "at inputs mixed from training rows"
    number = "One chain" if plan.chains == 1 else f"{plan.chains:,} chains"
    fewest = f", and {FEWEST} are the least that can disagree" if (plan.chains, plan.members) == (FEWEST, 1) else ""
    return "\n".join(
        [
            f"{_epochs(budget)}: {spent:,} for trials and pilots, {plan.epochs:,} for the plan.{rates}",
            f"First trainings get {_epochs(_method(plan).first.epochs)}: from {shorter:,} to {_epochs(longest)} mean "
            f"predictions at training inputs still moved by {pilots.moved[-1]:.2g} and the anchored loss went from "
            f"{before:.4g} to {after:.4g} nats a row; after {_method(plan).first.epochs:,} they should be within "
            f"{pilots.unfinished(_method(plan).first.epochs):.2g} of where they go.",
            _explain_later(pilots, plan),
            f"{number}, because they differ by {pilots.spread:.2g} {where}, and more of them would shorten their "
            f"trainings{fewest}.",
        ]
    )


def _explain_later(pilots: Pilots, plan: Plan) -> str:
    """Why later members, or why none."""
    if plan.members > 1:
        short = _later(plan).epochs
        return (
            f"After that {short} epochs follow the anchors (off by {pilots.slips[short]:.2g}, and a chain walks "
            f"through {min(1.0, pilots.reach[short]):.0%} of what chains differ by): {plan.members:,} members a chain."
        )
    if not pilots.finished:
        why = "first trainings are so far from finished that short ones would lose what they have reached"
    elif pilots.spread == 0:
        why = "chains agree, and so would later members"
    elif not pilots.slips:
        least = min(map(follow_cost, FOLLOWS))
        why = f"short trainings can be tried from {math.ceil(least / FOLLOW_SHARE):,} epochs on"
    else:
        tried = " and ".join(
            f"{short} epochs are off by {slip:.2g} and walk through {pilots.reach[short]:.0%} of what chains differ by"
            for short, slip in pilots.slips.items()
        )
        why = f"trainings from scratch bring more than short ones, of which {tried}"
    return f"One member a chain: {why}."


def _method(plan: Plan) -> SAE:
    assert isinstance(plan.method, SAE)
    return plan.method


def _later(plan: Plan) -> Training:
    then = _method(plan).then
    assert then is not None
    return then


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'' if count == 1 else 's'}"
