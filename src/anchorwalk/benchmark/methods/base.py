"""What a method is: from keys, a case and a budget to posteriors."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.ae import AE
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.callbacks import Progress
from anchorwalk.run.runners import Local, Ray
from anchorwalk.run.sample import sample, sample_many
from anchorwalk.serial import to_json
from anchorwalk.types import Key
from anchorwalk.walks import Independent


@runtime_checkable
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
            folder: Where a run by itself keeps its members, so that it resumes after a kill; None for memory.
            quiet: No progress bar.
        """
        ...


Choice = Callable[[Case, int], Plan]
"""From a case and a budget to a plan."""


RECORDED = {"training", "first", "then", "walk", "perturb_targets", "shared_order", "keep_optimizer", "shift_start"}
"""Settings of methods whose records do not name the method in full: those of the first records."""


@dataclass(frozen=True)
class Entry:
    """A method of the benchmark that is a plan.

    Attributes:
        name: As in commands.
        choose: Gives the plan.
        budgets: Those that it has a plan for; None for any.
    """

    name: str
    choose: Choice
    budgets: tuple[int, ...] | None = None

    def settings(self, case: Case, budget: int) -> dict[str, Any]:
        """The plan, its trainings and its walk."""
        plan = self.choose(case, budget)
        method = plan.method
        named = {"training": "first", "first": "first", "then": "then"}  # as records have always called them
        trainings = {named[name]: getattr(method, name, None) for name in named if hasattr(method, name)}
        described: dict[str, Any] = {name: repr(value) for name, value in trainings.items() if value is not None}
        if not described or set(getattr(method, "__dict__", {})) - RECORDED:
            described = {"method": to_json("method", method)}
        return {
            "plan": {"chains": plan.chains, "members": plan.total, "epochs": plan.epochs, **described},
            "walk": repr(getattr(method, "walk", Independent() if isinstance(method, AE) else None)),
            **{
                name: True
                for name in ("perturb_targets", "keep_optimizer", "shift_start")
                if getattr(method, name, False)
            },
        }

    def together(self, case: Case, budget: int) -> int:
        """As many runs as fill the lanes that the case trains side by side."""
        if case.settings.keep == "best":  # each run holds rows of its own back
            return 1
        return max(1, case.side_by_side // self.choose(case, budget).chains)

    def run(
        self, keys: Sequence[Key], case: Case, budget: int, folder: Path | None, quiet: bool
    ) -> Iterator[Posterior]:
        """Runs side by side where there are several, and by themselves where there is one."""
        plan = self.choose(case, budget)
        callbacks = [] if quiet else [Progress()]
        if _by_itself(case):
            runner = Local(lanes=min(plan.chains, case.side_by_side))
            for key in keys:
                yield sample(key, case.problem, plan, runner=runner, store=folder, callbacks=callbacks)
            return
        runner = Local(threads=1, lanes=case.side_by_side)
        yield from sample_many(keys, case.problem, plan, runner=runner, callbacks=callbacks)

    def spread(
        self, keys: Sequence[Key], case: Case, budget: int, folders: Sequence[Path], quiet: bool, cluster: Ray
    ) -> Sequence[Posterior]:
        """The same runs on a cluster, in blocks of the same lanes; runs by themselves keep members in their folders."""
        plan, own = self.choose(case, budget), _by_itself(case)
        runner = replace(cluster, lanes=min(plan.chains, case.side_by_side) if own else case.side_by_side)
        stores, callbacks = folders if own else None, [] if quiet else [Progress()]
        return sample_many(keys, case.problem, plan, runner=runner, stores=stores, callbacks=callbacks)


@dataclass(frozen=True, kw_only=True)
class Searched(Entry):
    """A method of the benchmark with settings to choose among, on rows that are not tested.

    Attributes:
        make: Gives the plan of a case, a budget and settings.
        grid: The settings to try; the first are the default.
    """

    make: Callable[..., Plan]
    grid: tuple[dict[str, Any], ...]

    @classmethod
    def of(cls, name: str, make: Callable[..., Plan], **options: Sequence[Any]) -> "Searched":
        """All combinations of some options."""
        names = list(options)
        grid = tuple(dict(zip(names, values, strict=True)) for values in itertools.product(*options.values()))
        return cls(name, lambda case, budget: make(case, budget, **grid[0]), make=make, grid=grid)

    def with_settings(self, **settings: Any) -> Entry:
        """The method with these settings."""
        return Entry(self.name, lambda case, budget: self.make(case, budget, **settings))


def _by_itself(case: Case) -> bool:
    """Whether a run shares no block with others: its chains fill one, or it has rows of its own."""
    return case.side_by_side == 1 or case.settings.keep == "best"
