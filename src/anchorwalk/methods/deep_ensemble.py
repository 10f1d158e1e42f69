"""Deep ensembles: the members of an anchored ensemble without anchors.

Differs from the paper, which has none: it minimises -(log p(D | θ) + log p(θ)), the loss pulled towards the prior's
mean, so that anchors are the only difference.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


@tree.node(static=("shared_order",))
@dataclass(frozen=True)
class DeepEnsemble(Settings):
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
    one_member = True

    def __post_init__(self) -> None:
        member.check_training("DeepEnsemble(training=)", self.training)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        return member.prepare(key, problem, {"DeepEnsemble(training=)": self.training})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """One training."""
        member.one_member("DeepEnsemble", members)
        yield Call("train", passes=self.training.epochs, trace=self.training.epochs)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Params:
        """An initialisation."""
        return member.initialise(keys.own, problem, attempt)

    def step(self, keys: Keys, problem: Problem, state: Params, call: Call, number: Array) -> tuple[Params, Draws]:
        """Train towards the prior's mean."""
        order_key = keys.shared if self.shared_order else keys.own
        params, _, draws = member.train_member(order_key, problem, self.training, mean_anchor(problem), state)
        return params, draws


def mean_anchor(problem: Problem) -> Params:
    """The prior's mean in the place of an anchor."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, tree.precise(leaf.dtype)), problem.params_like)
    return problem.prior.anchor(zeros)
