"""What callbacks get after each call, and the progress bar as the first of them."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from anchorwalk.methods.base import Call, Member
from anchorwalk.plan.plan import Plan


class RoundInfo(NamedTuple):
    """One finished call of a block of chains, and how far the run is.

    `plan` is the run's, with only the chains that this run has. `call` is the one of that `number` in its `chains`,
    without those that are begun anew. `members` are the new ones, chain by chain; their arrays cannot be changed.
    `members_done` and `passes_done`, over the data, are those of the run so far, `seconds` the wall time of this call
    of `sample`, of which `compiling` went into programs. `last` tells whether this was the last call of the plan, or
    the last one after Ctrl-C; `failed` counts chains without a good first draw in any attempt.
    """

    plan: Plan
    call: Call
    number: int
    chains: tuple[int, ...]
    members: Sequence[Member]
    members_done: int
    passes_done: float
    seconds: float
    last: bool
    failed: int = 0
    compiling: float = 0.0

    def __repr__(self) -> str:
        what = f"call {self.number} ({self.call.kind}) of chains {list(self.chains)}"
        time = f"{self.seconds:.1f} s, of which {self.compiling:.1f} s of compiling"
        return f"RoundInfo({what}, {self.members_done}/{self.plan.total} members, {time})"


Callback = Callable[[RoundInfo], Any]  # called after each call, once its members are safe


@runtime_checkable
class RunCallback(Protocol):
    """A callback that also wants to know when a run starts and ends.

    It may offer `compiling(begins)` too, which is called with True before a program is compiled and with False after.
    """

    def start(self, plan: Plan, passes_done: float) -> None:
        """Called before the first call."""

    def __call__(self, round_info: RoundInfo) -> Any:
        """Called after each call."""

    def end(self) -> None:
        """Called when the run is over, however it ended."""


class Progress:
    """A progress bar over passes, with the time left and the newest loss; silent where there is no terminal.

    Args:
        description: What stands before the bar.
        disable: True or False; None switches the bar off where there is no terminal.

    Example:
        >>> import anchorwalk as aw
        >>> bar = aw.Progress("derma")
    """

    def __init__(self, description: str = "sampling", disable: bool | None = None) -> None:
        self._description, self._disable = description, disable
        self._bar: Any = None

    def start(self, plan: Plan, passes_done: float) -> None:
        """Show the bar."""
        from tqdm.auto import tqdm

        done, text = round(passes_done), self._description
        self._bar = tqdm(total=round(plan.epochs), initial=done, unit="epoch", desc=text, disable=self._disable)

    def compiling(self, begins: bool) -> None:
        """Say that the bar stands still because something is compiled."""
        self._bar.set_description_str(f"{self._description}, compiling" if begins else self._description)

    def __call__(self, round_info: RoundInfo) -> None:
        """Move the bar."""
        ends = [member.trace[-1] for member in round_info.members if len(member.trace)]
        loss = f", loss {float(np.mean(ends)):.4g}" if ends else ""
        self._bar.set_postfix_str(f"{round_info.members_done}/{round_info.plan.total} members{loss}", refresh=False)
        self._bar.update(round(round_info.passes_done) - self._bar.n)

    def end(self) -> None:
        """Leave the bar as it is."""
        self._bar.close()
