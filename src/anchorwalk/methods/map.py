"""The maximum a posteriori estimate: what an ensemble of one member without an anchor is."""

from collections.abc import Sequence
from os import PathLike

from anchorwalk.methods.deep_ensemble import deep_ensemble
from anchorwalk.optimizers import Training
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback
from anchorwalk.run.runners import Runner
from anchorwalk.run.store import Store
from anchorwalk.types import Key


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
        >>> training = aw.Training(aw.SGD(0.1), epochs=100, batch_size=3)
        >>> posterior = aw.map_estimate(jax.random.key(0), problem, training, callbacks=[])
        >>> round(float(posterior[0, 0].params), 3)  # 3 * 4 / (3 + 1)
        3.0
    """
    return deep_ensemble(key, problem, 1, training, runner, store, callbacks)
