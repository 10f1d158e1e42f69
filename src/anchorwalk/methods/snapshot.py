"""Snapshot ensembles (Huang et al. 2017): a training whose rate starts anew, again and again, and a member each time.

They are sequential ensembles without anchors: a training of `SAE` with the anchor at the prior's mean.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params


@tree.node()
@dataclass(frozen=True)
class Snapshot(Settings):
    """Members at the ends of the cycles of one long training.

    Args:
        cycle: One cycle: a training whose rate should begin high, to leave the last mode, and end near zero. The
            optimiser's state is fresh in each.

    Raises:
        InvalidInput: Something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> cycle = aw.Training(aw.SGD(0.1, end_rate=0.0, momentum=0.9), epochs=40, batch_size=32)
        >>> aw.Plan(aw.Snapshot(cycle), chains=1, members=25).epochs
        1000
    """

    cycle: Training

    title = "Snapshot ensemble"

    def __post_init__(self) -> None:
        member.check_training("Snapshot(cycle=)", self.cycle)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        return member.prepare(key, problem, {"Snapshot(cycle=)": self.cycle})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A cycle for each member."""
        for _ in range(members):
            yield Call("cycle", passes=self.cycle.epochs, trace=self.cycle.epochs)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Params:
        """An initialisation."""
        return member.initialise(keys.own, problem, attempt)

    def step(self, keys: Keys, problem: Problem, state: Params, call: Call, number: Array) -> tuple[Params, Draws]:
        """A cycle from where the last one ended."""
        params, _, draws = member.train_member(keys.own, problem, self.cycle, member.prior_mean(problem), state)
        return params, draws
