"""A plan for a budget, from short trial trainings: where would the error come from, and what to spend on it?"""

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.ensembles.describe import DEFAULT_WALK
from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.posterior import Posterior
from anchorwalk.ensembles.rates import MIDDLE, Rates, find_rate, training_at
from anchorwalk.ensembles.runners import Runner
from anchorwalk.ensembles.sample import sample
from anchorwalk.errors import Status, TrainingFailed
from anchorwalk.likelihoods import ClassLikelihood
from anchorwalk.problem import Problem, check_apply, check_inputs
from anchorwalk.store import MemoryStore
from anchorwalk.store.base import Header
from anchorwalk.training import Training
from anchorwalk.types import ChainState, Inputs, Key, Params, Walk, WalkInfo, WalkState
from anchorwalk.walks import check_walk, diagnostics

HostArray = np.ndarray[Any, Any]
FIRST_SHARE, FOLLOW_SHARE = 0.15, 0.06
"""Of a budget: what pilots of first and of short trainings may spend."""
CHAINS = 3
"""Chains of each pilot."""
LEAST_STEPS = 50
"""Optimiser steps of the shortest pilot; trainings that have hardly begun tell nothing of how they end."""
WITHOUT = 2
"""Chains where a budget is too small for pilots: the least that can disagree."""
FOLLOWS = {2: 3, 10: 1}
"""Epochs of a short training, as in the paper's plans, and how many steps of the walk a pilot follows with it."""
PROBES = 256
"""Inputs of each kind at which predictions are compared."""
FINISHED = 0.1
"""Short trainings are tried where the longest pilot moved predictions by less than this share of the spread."""
HARDLY = 0.01
"""Of a walk's steps: what the anchors of a pilot move that is to show how far trainings run apart by themselves."""
FIRST_SHARES = (0.95, 0.9, 0.8, 0.65, 0.5, 0.35, 0.2, 0.1)
"""Of a chain's epochs: what its first training may get where later members follow it."""
PILOT, PROBE, TRIAL = 2**32 - 3, 2**32 - 4, 2**32 - 5
"""Folded into the key for pilots, for the choice of probes and for trials of rates; no chain has these numbers."""


class Pilots(NamedTuple):
    """What the pilots found. Distances are root mean squares over inputs, in the unit of the predictions.

    Attributes:
        lengths: Epochs of the first trainings that were tried, each twice the one before.
        losses: Mean anchored loss over the last epoch of each, in nats per row.
        moved: How far predictions at training inputs, averaged over chains, moved from each length to the next. What
            a chain moves by itself is for more chains to mend, not for longer trainings.
        spread: Standard deviation of predictions between chains, at inputs that the data do not fix, or at those that
            were given.
        slips: By epochs of a short training: how far it takes predictions at training inputs from those of the first
            member, alike in all chains. A member that follows its anchor moves by nothing on average, as walks are
            stationary. Empty where first trainings were too far from finished for short ones to be tried.
        reach: By epochs of a short training: the share of `spread` squared that a chain can reach by walking, from
            how far members are from those of chains with the same noise whose anchors stand still.
        epochs: Epochs that the pilots spent.
    """

    lengths: tuple[int, ...]
    losses: tuple[float, ...]
    moved: tuple[float, ...]
    spread: float
    slips: dict[int, float]
    reach: dict[int, float]
    epochs: int

    def unfinished(self, epochs: float) -> float:
        """How far predictions are from where they go, after a first training of so many epochs.

        Beyond the pilots it is taken to fall with a power of the epochs: that of the last two moves, but at least the
        root and at most one over the epochs, as two moves may be large or small by luck.
        """
        before, last = max(self.moved[-2], 1e-30), max(self.moved[-1], self.moved[-2] / 2, 1e-30)
        power = min(1.0, max(0.5, math.log2(before / last)))
        left = last / (2**power - 1)  # the sum of the moves of all doublings that are still to come
        if epochs >= self.lengths[-1]:
            return float(left * (self.lengths[-1] / epochs) ** power)
        known = [left + sum(self.moved[place:]) for place in range(len(self.lengths))]
        return float(np.interp(math.log(epochs), np.log(self.lengths), known))


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


class _Trainings(NamedTuple):
    """The trainings of pilots and plans, by their epochs: as given, or with rates that were found."""

    rows: int
    rates: Rates | None
    given_first: Training | None
    given_then: Training | None

    @property
    def spent(self) -> int:
        return 0 if self.rates is None else self.rates.epochs

    def first(self, epochs: int) -> Training:
        if self.given_first is not None:
            return replace(self.given_first, epochs=epochs)
        assert self.rates is not None
        return self.rates.training(self.rows, epochs)

    def then(self, epochs: int, after: int) -> Training:
        """After a first training of so many epochs, whose rate it has unless it was given."""
        return replace(self.first(after) if self.given_then is None else self.given_then, epochs=epochs)


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
    looked at. A budget that leaves pilots fewer than 50 steps is shared by two chains, without pilots.

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
    trainings = _Trainings(problem.n, rates, first, then)
    shortest = int(FIRST_SHARE * budget / (7 * CHAINS))
    if shortest == 0 or trainings.first(shortest).steps(problem.n) < LEAST_STEPS:
        return _without_pilots(budget, trainings)
    pilots = _fly(key, problem, budget, shortest, walk, trainings, runner, at)
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


def _without_pilots(budget: int, trainings: _Trainings) -> Planned:
    left = budget - trainings.spent
    chains = min(WITHOUT, left)
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


def _fly(
    key: Key,
    problem: Problem,
    budget: int,
    shortest: int,
    walk: Walk,
    trainings: _Trainings,
    runner: str | Runner,
    at: Inputs | None,
) -> Pilots:
    """Run the pilots: three lengths of first trainings, and short ones where the first are finished."""
    lengths = (shortest, 2 * shortest, 4 * shortest)
    own, (seen, asked) = jax.random.fold_in(key, PILOT), _probes(jax.random.fold_in(key, PROBE), problem, at)
    found, losses = [], []
    for epochs in lengths:
        store = MemoryStore()
        first = replace(trainings.first(epochs), evaluate=False)
        longest = sample(own, problem, Plan(CHAINS, 1, first), walk, runner, store, [])
        found.append(_predictions(longest, problem, seen, 0))
        losses.append(float(np.mean([np.asarray(member.losses)[-1] for member in longest])))
    means = [predictions.mean(axis=0) for predictions in found]
    moved = tuple(math.sqrt(_mean_square(after - before)) for before, after in itertools.pairwise(means))
    there = _predictions(longest, problem, asked, 0)
    spread = _mean_square(there - there.mean(axis=0)) * CHAINS / (CHAINS - 1)
    cost, slips, reach = CHAINS * sum(lengths), {}, {}
    limit = cost + FOLLOW_SHARE * budget
    for epochs, steps in FOLLOWS.items() if moved[-1] < FINISHED * math.sqrt(spread) else ():
        if cost + 3 * CHAINS * epochs * steps > limit:
            break
        plan = Plan(CHAINS, 1 + steps, first, replace(trainings.then(epochs, lengths[-1]), evaluate=False))
        ways = (walk, _Slowed(walk, 0.0), _Slowed(walk, HARDLY))
        walking, still, hardly = (sample(own, problem, plan, how, runner, _AnyWalk(store), []) for how in ways)
        cost += 3 * CHAINS * epochs * steps
        slips[epochs] = _alike(_predictions(walking, problem, seen, steps) - found[-1])
        # Starts, orders of rows and first anchors are the same: only the anchors' steps can make a difference, and
        # trainings that run apart from the smallest one: so far do those whose anchors hardly move.
        # Predictions are taken as linear in the anchor: those of unrelated anchors differ by as much more as they do.
        there, *others = (_predictions(one, problem, asked, steps) for one in (still, walking, hardly))
        apart = [_mean_square(one - there) for one in others]
        by_walking = max(0.0, apart[0] - apart[1]) / (1 - HARDLY**2)
        reach[epochs] = min(1.0, by_walking / (2 * _anchors_moved(walk, steps)) / spread)
    return Pilots(lengths, tuple(losses), moved, math.sqrt(spread), slips, reach, cost)


@tree.node()
@dataclass(frozen=True)
class _Slowed:
    """The same start as a walk's, and a share of its steps."""

    walk: Walk
    share: float

    def init(self, key: Key, like: Params) -> WalkState:
        return self.walk.init(key, like)

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        walked, info = self.walk.step(key, state)
        position = jax.tree.map(lambda old, new: old + self.share * (new - old), state.position, walked.position)
        return WalkState(position, walked.memory), info


class _AnyWalk(MemoryStore):
    """The first members of a run, to go on from with its own walk or another."""

    def __init__(self, run: MemoryStore) -> None:
        super().__init__()
        run.copy_to(self)

    def begin(self, header: Header, like: ChainState, about: Mapping[str, Any]) -> None:
        super().begin({name: value for name, value in header.items() if name != "walk"}, like, about)


def _probes(key: Key, problem: Problem, at: Inputs | None = None) -> tuple[Any, Any]:
    """Training inputs, and given ones, or such in which each feature comes from a training row of its own."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    rows = rng.integers(0, problem.n, PROBES)

    def mix(leaf: HostArray) -> HostArray:
        flat = leaf.reshape(len(leaf), -1)
        sources = rng.integers(0, len(flat), (PROBES, flat.shape[1]))
        return np.take_along_axis(flat, sources, axis=0).reshape(PROBES, *leaf.shape[1:])

    x = jax.tree.map(np.asarray, problem.data.x)
    seen = jax.tree.map(lambda leaf: leaf[rows], x)
    if at is None:
        return seen, jax.tree.map(mix, x)
    given = rng.integers(0, len(jax.tree.leaves(at)[0]), PROBES)
    return seen, jax.tree.map(lambda leaf: leaf[given], at)


def _predictions(posterior: Posterior, problem: Problem, probes: Any, index: int) -> HostArray:
    """Of each chain's member at `index`: means, and standard deviations where targets are numbers; chains first."""
    infos = [info for info in posterior.infos if info.index == index]
    if any(info.status != Status.OK for info in infos):
        raise TrainingFailed(
            "a pilot's short training did not stay finite. "
            "Lower the optimiser's rate, scale the inputs, or widen the noise."
        )
    found = []
    likelihood = problem.likelihood
    for _, outputs in posterior.passes("plan_for", infos, probes, None).outputs():
        parts = [np.asarray(likelihood.mean(outputs))]
        if not isinstance(likelihood, ClassLikelihood):
            parts.append(np.sqrt(np.asarray(likelihood.variance(outputs))))
        found.append(np.concatenate([part.reshape(PROBES, -1) for part in parts], axis=1))
    return np.stack(found).astype(np.float64)


def _mean_square(values: HostArray) -> float:
    """Over chains and probes, summed over what is predicted for a probe."""
    return float((values**2).sum(axis=-1).mean())


def _alike(moves: HostArray) -> float:
    """The size of what chains have in common: products of different chains only, so that their own moves fall out."""
    total = float((moves.sum(axis=0) ** 2).sum(axis=-1).mean()) - CHAINS * _mean_square(moves)
    return math.sqrt(max(0.0, total / (CHAINS * (CHAINS - 1))))


def _anchors_moved(walk: Walk, steps: int) -> float:
    """One minus the anchors' correlation after so many steps, from a simulated walk of many parameters."""
    key = jax.random.key(0)
    state = start = walk.init(key, np.zeros(diagnostics.PARAMETERS, np.float32))
    for step in range(steps):
        state, _ = walk.step(jax.random.fold_in(key, step + 1), state)
    return float(np.mean((np.asarray(state.position) - np.asarray(start.position)) ** 2)) / 2


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
    lines.append(
        f"{number}, because they differ by {pilots.spread:.2g} {where}, and more of them would shorten their trainings."
    )
    return "\n".join(lines)
