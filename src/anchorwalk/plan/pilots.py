"""Pilots: short trial trainings that show where an ensemble's error would come from."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.errors import Status, TrainingFailed
from anchorwalk.likelihoods import ClassLikelihood
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.rates import Rates
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.run.store import MemoryStore
from anchorwalk.run.store.base import Header, Like
from anchorwalk.types import HostArray, Inputs, Key, Params
from anchorwalk.walks import diagnostics
from anchorwalk.walks.base import Walk, WalkInfo, WalkState

FIRST_SHARE, FOLLOW_SHARE = 0.15, 0.06
"""Of a budget: what pilots of first and of short trainings may spend."""
CHAINS = 3
"""Chains of each pilot."""
FOLLOWS = {2: 3, 10: 1}
"""Epochs of a short training, as in the paper's plans, and how many steps of the walk a pilot follows with it."""
PROBES = 256
"""Inputs of each kind at which predictions are compared."""
FINISHED = 0.1
"""Short trainings are tried where the longest pilot moved mean predictions by less than this share of the spread."""
HARDLY = 0.01
"""Of a walk's steps: what the anchors of a pilot move that is to show how far trainings run apart by themselves."""


class Pilots(NamedTuple):
    """What the pilots found. Distances are root mean squares over inputs, in the unit of the predictions.

    Attributes:
        lengths: Epochs of the first trainings that were tried, each twice the one before.
        losses: Mean anchored loss over the last epoch of each, in nats per row.
        moved: How far predictions at training inputs moved from each length to the next, alike in all chains. What a
            chain moves by itself is for more chains to mend, not for longer trainings.
        spread: Standard deviation of predictions between chains, at inputs that the data do not fix, or at those that
            were given.
        finished: Whether first trainings came near enough to their end for short ones to be worth trying.
        slips: By epochs of a short training: how far it takes predictions at training inputs from those of the first
            member, alike in all chains, where anchors stand still: walks are stationary, so that members which follow
            them do not move on average either. Empty where first trainings are not finished, where chains agree
            anyway, or where short trainings are too dear to be tried.
        reach: By epochs of a short training: the share of `spread` squared that a chain can reach by walking, from
            how far members are from those of chains with the same noise whose anchors stand still. More than one
            where short trainings throw members about.
        epochs: Epochs that the pilots spent, were no training begun anew that diverged.
    """

    lengths: tuple[int, ...]
    losses: tuple[float, ...]
    moved: tuple[float, ...]
    spread: float
    finished: bool
    slips: dict[int, float]
    reach: dict[int, float]
    epochs: int

    def unfinished(self, epochs: float) -> float:
        """How far predictions are from where they go, after a first training of so many epochs.

        Beyond the pilots it is taken to fall with the root of the epochs, as what stochastic descent leaves does. The
        last move counts as half of the one before at least, as it may be small by luck.
        """
        before, last = self.moved[-2], max(self.moved[-1], self.moved[-2] / 2)
        left = last / (math.sqrt(2) - 1)  # the sum of the moves of all doublings that are still to come
        if epochs >= self.lengths[-1]:
            return left * math.sqrt(self.lengths[-1] / epochs)
        known = (left + last + before, left + last, left)
        return float(np.interp(math.log(epochs), np.log(self.lengths), known))


class Trainings(NamedTuple):
    """The trainings of pilots and plans, by their epochs: as given, or with rates that were found."""

    rows: int
    rates: Rates | None
    given_first: Training | None
    given_then: Training | None

    @property
    def spent(self) -> int:
        """Epochs that trials of rates took."""
        return 0 if self.rates is None else self.rates.epochs

    def first(self, epochs: int) -> Training:
        """From scratch."""
        if self.given_first is not None:
            return replace(self.given_first, epochs=epochs)
        assert self.rates is not None
        return self.rates.training(self.rows, epochs)

    def then(self, epochs: int, after: int) -> Training:
        """After a first training of so many epochs, whose rate it has unless it was given."""
        return replace(self.first(after) if self.given_then is None else self.given_then, epochs=epochs)


def run_pilots(
    key: Key,
    problem: Problem,
    budget: int,
    shortest: int,
    walk: Walk,
    trainings: Trainings,
    runner: str | Runner,
    at: Inputs | None,
) -> Pilots:
    """Run the pilots: three lengths of first trainings, and short ones where the first are finished."""
    lengths = (shortest, 2 * shortest, 4 * shortest)
    own = jax.random.fold_in(key, Stream.PILOT)
    seen, asked = _probes(jax.random.fold_in(key, Stream.PROBE), problem, at)
    found, losses = [], []
    for epochs in lengths:
        store = MemoryStore()
        first = replace(trainings.first(epochs), evaluate=False)
        longest = _run_pilot(own, problem, Plan(SAE(first, walk=walk), CHAINS), runner, store)
        found.append(_predictions(longest, problem, seen, 0))
        losses.append(float(np.mean([np.asarray(member.trace)[-1] for member in longest])))
    moves = [after - before for before, after in itertools.pairwise(found)]
    moved = tuple(_common(move) for move in moves)
    there = _predictions(longest, problem, asked, 0)
    spread = _mean_square(there - there.mean(axis=0)) * CHAINS / (CHAINS - 1)
    cost, slips, reach = CHAINS * sum(lengths), {}, {}
    limit = cost + FOLLOW_SHARE * budget
    finished = _of_mean(moves[-1]) <= FINISHED * math.sqrt(spread)
    for epochs, steps in FOLLOWS.items() if finished and spread > 0 else ():
        if cost + follow_cost(epochs) > limit:
            break
        then = replace(trainings.then(epochs, lengths[-1]), evaluate=False)
        plans = [
            Plan(SAE(first, then, each), CHAINS, 1 + steps)
            for each in (walk, _Slowed(walk, 0.0), _Slowed(walk, HARDLY))
        ]
        walking, still, hardly = (_run_pilot(own, problem, plan, runner, _AnyWalk(store)) for plan in plans)
        cost += follow_cost(epochs)
        slips[epochs] = _alike(_predictions(still, problem, seen, steps) - found[-1])
        # Starts, orders of rows and first anchors are the same: only the anchors' steps can make a difference, and
        # trainings that run apart from the smallest one: so far do those whose anchors hardly move.
        # Predictions are taken as linear in the anchor: those of unrelated anchors differ by as much more as they do.
        there, *others = (_predictions(one, problem, asked, steps) for one in (still, walking, hardly))
        apart = [((one - there) ** 2).sum(axis=-1).mean(axis=-1) for one in others]
        by_walking = _significant_mean(apart[0] - apart[1]) / (1 - HARDLY**2)
        reach[epochs] = by_walking / (2 * _anchors_moved(walk, steps)) / spread
    return Pilots(lengths, tuple(losses), moved, math.sqrt(spread), finished, slips, reach, cost)


def follow_cost(epochs: int) -> int:
    """Epochs that trying short trainings of so many takes: chains whose anchors walk, stand still and hardly move."""
    return 3 * CHAINS * epochs * FOLLOWS[epochs]


def _run_pilot(key: Key, problem: Problem, plan: Plan, runner: str | Runner, store: MemoryStore) -> Posterior:
    """A pilot, whole: one that Ctrl-C ended, or a chain of which failed, has too few chains to tell anything."""
    posterior = sample(key, problem, plan, runner=runner, store=store, callbacks=[])
    if not posterior.complete:
        raise KeyboardInterrupt
    if posterior.failed:
        raise TrainingFailed(
            "a pilot's first training did not stay finite. Lower the optimiser's rate, scale the inputs, or widen the "
            "noise."
        )
    return posterior


def _significant_mean(values: HostArray) -> float:
    """The mean over chains, or nothing where it is not above twice its standard error.

    Where the mean is nothing, three normal values pass for something once in eleven times (t, two degrees of freedom).
    """
    mean = float(values.mean())
    return mean if mean > 2 * float(values.std(ddof=1)) / math.sqrt(len(values)) else 0.0


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

    def begin(self, header: Header, like: Like, about: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        others = {name: value for name, value in header.items() if name != "walk"}
        super().begin(others, like, about, environment)


def _probes(key: Key, problem: Problem, at: Inputs | None = None) -> tuple[Any, Any]:
    """Training inputs, and given ones, or such in which each feature comes from a training row of its own."""
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)).tolist())
    counted = np.flatnonzero(np.asarray(problem.data.weights))  # rows without weight only fill up
    x = jax.tree.map(lambda leaf: np.asarray(leaf)[counted], problem.data.x)
    rows = rng.integers(0, len(counted), PROBES)

    def mix(leaf: HostArray) -> HostArray:
        flat = leaf.reshape(len(leaf), -1)
        sources = rng.integers(0, len(flat), (PROBES, flat.shape[1]))
        return np.take_along_axis(flat, sources, axis=0).reshape(PROBES, *leaf.shape[1:])

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
    predictions = np.stack(found).astype(np.float64)
    if not np.isfinite(predictions).all():
        raise TrainingFailed(
            "a pilot's predictions are not finite at all inputs where they are compared. Scale the inputs, those of "
            "at= as those of training."
        )
    return predictions


def _mean_square(values: HostArray) -> float:
    """Over chains and probes, summed over what is predicted for a probe."""
    return float((values**2).sum(axis=-1).mean())


def _alike(moves: HostArray) -> float:
    """The size of what chains have in common: products of different chains only, so that their own moves fall out."""
    total = float((moves.sum(axis=0) ** 2).sum(axis=-1).mean()) - CHAINS * _mean_square(moves)
    return math.sqrt(max(0.0, total / (CHAINS * (CHAINS - 1))))


def _of_mean(moves: HostArray) -> float:
    """The size of the mean over chains: what they have in common, and what is left of their own."""
    return math.sqrt(_mean_square(moves.mean(axis=0)))


def _common(moves: HostArray) -> float:
    """The size of what chains have in common; at least half of their mean's, so that it is not nothing by luck."""
    return max(_alike(moves), _of_mean(moves) / 2)


def _anchors_moved(walk: Walk, steps: int) -> float:
    """One minus the anchors' correlation after so many steps, from a simulated walk of many parameters."""
    key = jax.random.key(0)
    state = start = walk.init(key, np.zeros(diagnostics.PARAMETERS, np.float32))
    for step in range(steps):
        state, _ = walk.step(jax.random.fold_in(key, step + 1), state)
    return float(np.mean((np.asarray(state.position) - np.asarray(start.position)) ** 2)) / 2
