"""The maximum a posteriori estimate: one network, trained on the loss that is pulled towards the prior's mean."""

from collections.abc import Iterator
from dataclasses import dataclass

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.deep_ensemble import mean_anchor
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


@tree.node()
@dataclass(frozen=True)
class MAP(Settings):
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
    one_member = True

    def __post_init__(self) -> None:
        member.check_training("MAP(training=)", self.training)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        return member.prepare(key, problem, {"MAP(training=)": self.training})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """One training."""
        member.one_member("MAP", members)
        yield Call("train", passes=self.training.epochs, trace=self.training.epochs)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Params:
        """An initialisation."""
        return member.initialise(keys.own, problem, attempt)

    def step(self, keys: Keys, problem: Problem, state: Params, call: Call, number: Array) -> tuple[Params, Draws]:
        """Train towards the prior's mean."""
        params, _, draws = member.train_member(keys.own, problem, self.training, mean_anchor(problem), state)
        return params, draws
