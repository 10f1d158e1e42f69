"""Anchored ensembles (paper, Algorithm 1): every member from scratch, each with its own anchor."""

from collections.abc import Sequence
from os import PathLike

from anchorwalk import checks
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.run.store import Store
from anchorwalk.types import Key
from anchorwalk.walks import Independent


def anchored_ensemble(
    key: Key,
    problem: Problem,
    members: int,
    training: Training,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    perturb_targets: bool = False,
) -> Posterior:
    """Train `members` networks from scratch, each pulled towards its own draw from the prior.

    Args:
        key: `jax.random.key(...)`.
        problem: What to fit.
        members: Networks to train.
        training: How each is trained.
        runner: As in `sample`.
        store: As in `sample`.
        callbacks: As in `sample`.
        perturb_targets: As in `sample`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> training = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> len(aw.anchored_ensemble(jax.random.key(0), problem, 4, training, callbacks=[]))
        4
    """
    plan = Plan(chains=checks.count("members", members), members=1, first=training)
    return sample(key, problem, plan, Independent(), runner, store, callbacks, perturb_targets)
