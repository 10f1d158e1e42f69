"""Sequential anchored ensembles (paper, Algorithm 2): anchors that walk, trainings that go on."""

from typing import Any

from anchorwalk.ensembles.plan import Plan
from anchorwalk.ensembles.posterior import Posterior
from anchorwalk.ensembles.sample import sample
from anchorwalk.problem import Problem
from anchorwalk.training import Training
from anchorwalk.types import Key, Walk


def sequential_anchored_ensemble(
    key: Key,
    problem: Problem,
    chains: int,
    members: int,
    first: Training,
    then: Training,
    walk: Walk | None = None,
    **options: Any,
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
        **options: `runner`, `store`, `callbacks`, `perturb_targets` of `sample`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> long = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> short = aw.Training(aw.SGD(0.5), epochs=1, batch_size=8)
        >>> len(aw.sequential_anchored_ensemble(jax.random.key(0), problem, 2, 5, long, short, callbacks=[]))
        10
    """
    return sample(key, problem, Plan(chains, members, first, then), walk=walk, **options)
