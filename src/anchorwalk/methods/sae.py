"""Sequential anchored ensembles (paper, Algorithm 2): anchors that walk, trainings that go on."""

from collections.abc import Sequence
from os import PathLike

from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.run.store import Store
from anchorwalk.types import Key
from anchorwalk.walks.base import Walk


def sequential_anchored_ensemble(
    key: Key,
    problem: Problem,
    chains: int,
    members: int,
    first: Training,
    then: Training,
    walk: Walk | None = None,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    perturb_targets: bool = False,
) -> Posterior:
    """Train `chains` chains of `members` networks, each network from the optimum of the one before.

    Args:
        key: `jax.random.key(...)`.
        problem: What to fit.
        chains: Independent chains.
        members: Members of each chain, the first included.
        first: The long training of each chain's first member.
        then: The short training of each later one.
        walk: How the anchors walk; `GuidedWalk(step_size=0.1)` unless given.
        runner: As in `sample`.
        store: As in `sample`.
        callbacks: As in `sample`.
        perturb_targets: As in `sample`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> long = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> short = aw.Training(aw.SGD(0.5), epochs=1, batch_size=8)
        >>> len(aw.sequential_anchored_ensemble(jax.random.key(0), problem, 2, 5, long, short, callbacks=[]))
        10
    """
    plan = Plan(chains, members, first, then)
    return sample(key, problem, plan, walk, runner, store, callbacks, perturb_targets)
