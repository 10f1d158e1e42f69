"""Anchored ensembles (paper, Algorithm 1): every member from scratch, each with its own anchor."""

from dataclasses import dataclass
from typing import NamedTuple

import jax

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


class AEState(NamedTuple):
    """What one training needs."""

    position: Array  # the anchor, in prior standard deviations from the prior's mean, and the targets' perturbation
    params: Params  # where training starts, and after it the optimum


@tree.node(static=("perturb_targets", "shared_order"))
@dataclass(frozen=True)
class AE(member.FromScratch, Settings):
    """Networks trained from scratch, each pulled towards its own draw from the prior; one a chain.

    Args:
        training: How each is trained.
        perturb_targets: As in `SAE`.
        shared_order: As in `SAE`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> training = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> len(aw.sample(jax.random.key(0), problem, aw.Plan(aw.AE(training), chains=4), callbacks=[]))
        4
    """

    training: Training
    perturb_targets: bool = False
    shared_order: bool = False

    title = "Anchored ensemble"
    streams = True

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        member.check_perturbs("AE", self.perturb_targets, problem)
        return super().prepare(key, problem)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> AEState:
        """Algorithm 1, lines 2 and 3: an anchor from the prior, and an initialisation."""
        init_key, anchor_key = jax.random.split(keys.own)
        position = tree.normal_like(anchor_key, member.position_like(problem, self.perturb_targets))
        return AEState(position, member.initialise(init_key, problem, attempt))

    def step(self, keys: Keys, problem: Problem, state: AEState, call: Call, number: Array) -> tuple[AEState, Draws]:
        """Algorithm 1, line 4: train towards the anchor."""
        order_key = keys.shared if self.shared_order else keys.own
        anchor, noise = member.anchor_at(problem, state.position)
        params, _, draws = member.train_member(order_key, problem, self.training, anchor, state.params, noise)
        return state._replace(params=params), draws
