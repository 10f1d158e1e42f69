"""The maximum a posteriori estimate: one network, trained on the loss that is pulled towards the prior's mean."""

from dataclasses import dataclass

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.optimizers import Training
from anchorwalk.serial import Settings


@tree.node()
@dataclass(frozen=True)
class MAP(member.FromScratch, Settings):
    """The maximum a posteriori estimate, as a posterior of one member.

    Args:
        training: How it is trained.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=1.0),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(3), jnp.full(3, 4.0)))
        >>> training = aw.Training(aw.SGD(0.1), epochs=100, batch_size=3)
        >>> posterior = aw.sample(jax.random.key(0), problem, aw.Plan(aw.MAP(training)), callbacks=[])
        >>> round(float(posterior[0, 0].params), 3)  # 3 * 4 / (3 + 1)
        3.0
    """

    training: Training

    title = "Maximum a posteriori estimate"
    streams = True
