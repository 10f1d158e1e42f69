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
from anchorwalk.ensembles.callbacks import Callback
from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.posterior import Posterior
from anchorwalk.ensembles.runners import Runner
from anchorwalk.ensembles.sample import sample
from anchorwalk.problem import Problem
from anchorwalk.store import Store
from anchorwalk.training import Training
from anchorwalk.types import Key, Params, WalkInfo, WalkState


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
        >>> how = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> len(aw.deep_ensemble(jax.random.key(0), problem, 4, how, callbacks=[]))
        4
    """
    plan = Plan(chains=checks.count("members", members), members=1, first=training)
    return sample(key, problem, plan, AtMean(), runner, store, callbacks)


def map_estimate(
    key: Key,
    problem: Problem,
    training: Training,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
) -> Posterior:
    """The maximum a posteriori estimate, as a posterior of one member.

    Args:
        key: `jax.random.key(...)`.
        problem: What to fit.
        training: How it is trained.
        runner: As in `sample`.
        store: As in `sample`.
        callbacks: As in `sample`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=1.0),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(3), jnp.full(3, 4.0)))
        >>> how = aw.Training(aw.SGD(0.1), epochs=100, batch_size=3)
        >>> posterior = aw.map_estimate(jax.random.key(0), problem, how, callbacks=[])
        >>> round(float(posterior[0, 0].params), 3)  # 3 * 4 / (3 + 1)
        3.0
    """
    return deep_ensemble(key, problem, 1, training, runner, store, callbacks)
