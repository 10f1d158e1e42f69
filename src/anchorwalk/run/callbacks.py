"""What callbacks get after each round, and the progress bar as the first of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from anchorwalk.methods.base import Member
from anchorwalk.plan.plan import Plan


class RoundInfo(NamedTuple):
    """One finished round.

    Attributes:
        plan: The run's plan, with the chains that are run here alone.
        chains: The chains that were trained.
        index: The place of the new members in their chains.
        members: The new members, one for each of `chains`.
        members_done: Members of the run so far.
        epochs_done: Epochs of the run so far.
        seconds: Wall time of this call of `sample` so far.
        last: Whether this was the last round of the plan, or Ctrl-C was pressed during it.
    """

    plan: Plan
    chains: tuple[int, ...]
    index: int  # type: ignore[assignment]  # it hides tuple.index, which nobody calls here
    members: Sequence[Member]
    members_done: int
    epochs_done: int
    seconds: float
    last: bool


Callback = Callable[[RoundInfo], Any]
"""Called after each round, once its members are safe."""


@runtime_checkable
class RunCallback(Protocol):
    """A callback that also wants to know when a run starts and ends."""

    def start(self, plan: Plan, epochs_done: int) -> None:
        """Called before the first round."""
        ...

    def __call__(self, round_info: RoundInfo) -> Any:
        """Called after each round."""
        ...

    def end(self) -> None:
        """Called when the run is over, however it ended."""
        ...


class Progress:
    """A progress bar over epochs, with the time left and the newest loss; silent where there is no terminal.

    Args:
        description: What stands before the bar.
        disable: True or False; None switches the bar off where there is no terminal.

    Example:
        >>> import anchorwalk as aw
        >>> bar = aw.Progress("derma")
    """

    def __init__(self, description: str = "sampling", disable: bool | None = None) -> None:
        self._description = description
        self._disable = disable
        self._bar: Any = None

    def start(self, plan: Plan, epochs_done: int) -> None:
        """Show the bar."""
        from tqdm.auto import tqdm

        self._bar = tqdm(
            total=plan.epochs,
            initial=epochs_done,
            unit="epoch",
            desc=self._description,
            disable=self._disable,
        )

    def __call__(self, round_info: RoundInfo) -> None:
        """Move the bar."""
        loss = float(np.mean([member.losses[-1] for member in round_info.members]))
        self._bar.set_postfix_str(
            f"{round_info.members_done}/{round_info.plan.total} members, loss {loss:.4g}", refresh=False
        )
        self._bar.update(round_info.epochs_done - self._bar.n)

    def end(self) -> None:
        """Leave the bar as it stands."""
        self._bar.close()
