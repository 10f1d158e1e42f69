"""All devices of this process: a block's lanes are spread over them, and each device runs the program of its own."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
from jax.sharding import Mesh

from anchorwalk import checks
from anchorwalk.methods.base import Method
from anchorwalk.problem import Problem
from anchorwalk.run.runners.base import Layout, Runner, T
from anchorwalk.run.runners.layout import choose
from anchorwalk.run.runners.local import Local, LocalSession


@dataclass(frozen=True)
class Devices:
    """Blocks of `lanes` chains on each of several devices, in one compiled program; no device waits for another's data.

    `runner="auto"` is this where the process has several devices. Members are those of `Local` with the same lanes.

    Args:
        lanes: Chains on each device, side by side under vmap; None follows a rule by problem, number of chains and
            number of devices. Decides the last bits of the results.
        count: Devices; None for all of this process. Decides no result.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Devices(lanes=5)
        Devices(lanes=5, count=None)
    """

    lanes: int | None = None
    count: int | None = None

    def __post_init__(self) -> None:
        for name in ("lanes", "count"):
            if getattr(self, name) is not None:
                checks.count(f"Devices({name}=)", getattr(self, name))
        if self.count is not None and self.count > len(jax.local_devices()):
            given = f"{self.count} for a process with {len(jax.local_devices())}"
            checks.reject("Devices(count=)", given, "no more than there are", "See jax.local_devices().")

    @property
    def _devices(self) -> list[Any]:
        return list(jax.local_devices()[: self.count])

    def layout(self, problem: Problem, chains: int, passes: float, recorded: Layout | None) -> Layout:
        """As asked for; else as the run was begun; else by the rule, with chains on all devices."""
        if self.lanes is not None or recorded:
            return Local(lanes=self.lanes).layout(problem, chains, passes, recorded)
        chosen = choose(problem, chains, passes)
        return chosen._replace(lanes=min(chosen.lanes, -(-chains // len(self._devices))))

    def open(self, method: Method, problem: Problem, layout: Layout, chains: int) -> LocalSession:
        """Put the data on all devices; one thread, since each block uses all of them."""
        if problem.data.streamed:
            remedy = "Pass runner=Local()."
            checks.reject("data", "rows that are read while a run trains, on several devices", "one device", remedy)
        needed = self._devices[: -(-chains // layout.lanes)]
        return LocalSession(method, problem, layout, 1, Mesh(needed, ("devices",)))

    def map(self, function: Callable[..., T], common: Any, items: Iterable[Any]) -> Iterator[T]:
        """As `Local`: on one device."""
        return Local().map(function, common, items)


def default() -> Runner:
    """The runner of this machine."""
    return Devices() if len(jax.local_devices()) > 1 else Local()
