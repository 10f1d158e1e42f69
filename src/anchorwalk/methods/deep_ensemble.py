"""Deep ensembles: the members of an anchored ensemble without anchors.

Differs from the paper, which has none. The loss is -(log p(D | θ) + log p(θ)), pulled towards the prior's mean.
"""

from dataclasses import dataclass

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.optimizers import Training
from anchorwalk.serial import Settings


@tree.node(static=("shared_order",))
@dataclass(frozen=True)
class DeepEnsemble(member.FromScratch, Settings):
    """Maximum a posteriori estimates that differ in initialisation and order of rows; one a chain.

    Args:
        training: How each is trained.
        shared_order: As in `SAE`.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> training = aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)
        >>> len(aw.sample(jax.random.key(0), problem, aw.Plan(aw.DeepEnsemble(training), chains=4), callbacks=[]))
        4
    """

    training: Training
    shared_order: bool = False

    title = "Deep ensemble, without anchors"
    streams = True
