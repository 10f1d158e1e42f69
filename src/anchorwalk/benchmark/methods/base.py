"""What a method is: from keys, a case and a budget to posteriors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import jax.numpy as jnp

from anchorwalk.benchmark.tasks import Case
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.callbacks import Progress
from anchorwalk.run.runners import Runner, Sequential, SideBySide, Vectorized
from anchorwalk.run.sample import sample
from anchorwalk.types import Key
from anchorwalk.walks.base import Walk


class Method(Protocol):
    """A way to an approximate posterior. A new one is a file in this folder and a line in its `__init__`."""

    @property
    def name(self) -> str:
        """As in commands."""
        ...

    def settings(self, case: Case, budget: int) -> dict[str, Any]:
        """All that decides a run beside the case and the key, for the record.

        Raises:
            InvalidInput: A budget that the method has no plan for.
        """
        ...

    def together(self, case: Case, budget: int) -> int:
        """Runs that are best made together; 1 where a run fills the machine."""
        ...

    def run(
        self, keys: Sequence[Key], case: Case, budget: int, folder: Path | None, quiet: bool
    ) -> Iterator[Posterior]:
        """A posterior for each key.

        Args:
            keys: One for each run.
            case: What to fit.
            budget: Epochs.
            folder: Where a run by itself keeps its members, so that it goes on after a kill; None for memory.
            quiet: No progress bar.
        """
        ...


Choice = Callable[[Case, int], tuple[Plan, Walk]]
"""From a case and a budget to a plan and a walk."""


@dataclass(frozen=True)
class Anchored:
    """A method that is a plan and a walk.

    Attributes:
        name: As in commands.
        choose: Gives plan and walk.
        perturb_targets: See `sample`.
    """

    name: str
    choose: Choice
    perturb_targets: bool = False

    def settings(self, case: Case, budget: int) -> dict[str, Any]:
        """The plan and the walk."""
        plan, walk = self.choose(case, budget)
        trainings = {"first": plan.first, "then": plan.then}
        return {
            "plan": {
                "chains": plan.chains,
                "members": plan.total,
                "epochs": plan.epochs,
                **{name: repr(training) for name, training in trainings.items() if training is not None},
            },
            "walk": repr(walk),
            **({"perturb_targets": True} if self.perturb_targets else {}),
        }

    def together(self, case: Case, budget: int) -> int:
        """As many runs as fill the lanes that the case trains side by side."""
        if case.settings.keep == "best":  # each run holds rows of its own back
            return 1
        return max(1, case.side_by_side // self.choose(case, budget)[0].chains)

    def run(
        self, keys: Sequence[Key], case: Case, budget: int, folder: Path | None, quiet: bool
    ) -> Iterator[Posterior]:
        """Runs side by side where there are several, and by themselves where there is one."""
        plan, walk = self.choose(case, budget)
        callbacks = [] if quiet else [Progress()]
        if case.side_by_side == 1 or case.settings.keep == "best":
            narrow: Runner = Sequential() if case.side_by_side == 1 else Vectorized(min(plan.chains, case.side_by_side))
            for key in keys:
                yield sample(key, case.problem, plan, walk, narrow, folder, callbacks, self.perturb_targets)
            return
        whole = Plan(plan.chains * len(keys), plan.members, plan.first, plan.then)
        runner = SideBySide(jnp.stack(list(keys)), plan.chains, case.side_by_side)
        posterior = sample(keys[0], case.problem, whole, walk, runner, None, callbacks, self.perturb_targets)
        for run in range(len(keys)):
            yield posterior.select(range(run * plan.chains, (run + 1) * plan.chains))
