"""What anchored ensembles are compared with: the same training without anchors.

Differs from the paper, which has neither: both minimise -(log p(D | θ) + log p(θ)), the loss pulled towards
the prior's mean, so that anchors are the only difference.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.run.store import Store
from anchorwalk.types import Key, Params
from anchorwalk.walks.base import WalkInfo, WalkState


@tree.node()
@dataclass(frozen=True)
class AtMean:
    """Stays at the prior's mean. No walk over the prior: it fills that place for methods without anchors."""

    def init(self, key: Key, like: Params) -> WalkState:
        """At the mean."""
        return WalkState(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), like), ())

    def step(self, key: Key, state: WalkState) -> tuple[WalkState, WalkInfo]:
        """Nowhere else."""
        return state, WalkInfo(jnp.ones(()))


def deep_ensemble(
    key: Key,
    problem: Problem,
    members: int,
    training: Training,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
) -> Posterior:
    """A deep ensemble: `members` maximum a posteriori estimates that differ in initialisation and order of rows.

    Args:
        key: `jax.random.key(...)`.
        problem: What to fit.
        members: Networks to train.
        training: How each is trained.
        runner: As in `sample`.
        store: As in `sample`.
        callbacks: As in `sample`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> training = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> len(aw.deep_ensemble(jax.random.key(0), problem, 4, training, callbacks=[]))
        4
    """
    plan = Plan(chains=checks.count("members", members), members=1, first=training)
    return sample(key, problem, plan, AtMean(), runner, store, callbacks)
