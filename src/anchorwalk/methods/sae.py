"""Sequential anchored ensembles (paper, Algorithm 2): anchors that walk, trainings that start from the last optimum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks import DEFAULT_WALK, Walk, WalkState, validate_walk


class SAEState(NamedTuple):
    """All that a chain needs to go on.

    Attributes:
        walk: The anchor's walk.
        noise: The walk of the targets' perturbation, or None where there is none.
        params: The last good optimum, from which the next training starts.
    """

    walk: WalkState
    noise: WalkState | None
    params: Params


@tree.node(static=("perturb_targets", "shared_order"))
@dataclass(frozen=True)
class SAE(Settings):
    """Chains of networks: a long first training, then a short one after each step of the anchor's walk.

    Args:
        first: The training from scratch of each chain's first member.
        then: The training of each later member from the previous optimum.
        walk: How the anchors walk through the prior.
        perturb_targets: For normal likelihoods: whether each member's targets are moved by a draw of the likelihood's
            noise that walks with its anchor. The paper has none; on a linear model it makes the members exact
            posterior samples.
        shared_order: Whether all chains visit the rows in one common order. It is faster (one gather serves all
            chains), and the chains' minibatch noise is then no longer independent.

    Raises:
        InvalidInput: Something that is no training or no walk, or trainings that use different rows.

    Example:
        >>> import anchorwalk as aw
        >>> long = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
        >>> short = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=32)
        >>> plan = aw.Plan(aw.SAE(long, short, aw.GuidedWalk(0.1)), chains=3, members=117)
        >>> plan.total, plan.epochs
        (351, 996)
    """

    first: Training
    then: Training | None = None
    walk: Walk = DEFAULT_WALK
    perturb_targets: bool = False
    shared_order: bool = False

    title = "Sequential anchored ensemble"

    @property
    def one_member(self) -> bool:
        """Without later trainings a chain has its first member alone."""
        return self.then is None

    def __post_init__(self) -> None:
        member.check_training("SAE(first=)", self.first)
        validate_walk(self.walk)
        if self.then is not None:
            member.check_training("SAE(then=)", self.then)
            if self.then.keep != self.first.keep:
                expected = f"keep={self.first.keep!r}, as in first="
                remedy = "Both trainings of a chain use the same rows."
                checks.reject("SAE(then=)", f"keep={self.then.keep!r}", expected, remedy)

    def evaluating(self, evaluate: bool) -> "SAE":
        """The same, with or without the loss and its gradient on all rows before and after each training."""
        then = self.then and replace(self.then, evaluate=evaluate)
        return replace(self, first=replace(self.first, evaluate=evaluate), then=then)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        member.check_perturbs("SAE", self.perturb_targets, problem)
        return member.prepare(key, problem, {"SAE(first=)": self.first, "SAE(then=)": self.then})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A first training, then later ones."""
        if members > 1 and self.then is None:
            remedy = "Pass then=Training(...), the short training, or members=1."
            checks.reject("SAE(then=)", f"None for {members} members a chain", "a Training", remedy)
        yield Call("first", passes=self.first.epochs)
        for _ in range(members - 1):
            yield Call("then", passes=self.then.epochs)  # type: ignore[union-attr]

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> SAEState:
        """Algorithm 2, lines 1 to 3."""
        start = member.start_keys(keys.own)
        walk = self.walk.init(start.walk, problem.params_like)  # Alg. 2, lines 1 and 3
        noise = self.walk.init(start.noise, member.noise_like(problem)) if self.perturb_targets else None
        return SAEState(walk, noise, member.initialise(start.init, problem, attempt))  # Alg. 2, line 2

    def step(self, keys: Keys, problem: Problem, state: SAEState, call: Call, number: Array) -> tuple[SAEState, Draws]:
        """Algorithm 2, line 4 for the first member and lines 6 to 8 for every later one."""
        order_key, walk_key, noise_key = jax.random.split(keys.own, 3)
        walk, noise, acceptance = state.walk, state.noise, jnp.ones(())
        if call.kind == "then":
            walk, info = self.walk.step(walk_key, walk)  # Alg. 2, line 6
            acceptance = info.acceptance
            if noise is not None:
                noise, _ = self.walk.step(noise_key, noise)
        params, draws = member.train_member(  # Alg. 2, lines 4 and 8
            keys.shared if self.shared_order else order_key,
            problem,
            self.first if call.kind == "first" else self.then,  # type: ignore[arg-type]
            problem.prior.anchor(walk.position),
            state.params,  # Alg. 2, line 7: from the previous optimum
            None if noise is None else noise.position,
            acceptance=acceptance,
        )
        return SAEState(walk, noise, params), draws
