"""What a runner is: it carries out calls for blocks of chains and returns futures."""

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from anchorwalk.methods.base import Call, Draws, Method, State
from anchorwalk.problem import Problem
from anchorwalk.types import Key

Numbers = np.ndarray[tuple[int], np.dtype[np.uint32]]
"""Numbers, one for each chain of a block."""


class Layout(NamedTuple):
    """What of the way a run is carried out decides the last bits of its results.

    Attributes:
        lanes: Chains of a block, side by side under vmap.
        wide: Whether a program may use several cores.
        quick: Whether programs are compiled quickly rather than well, for a run that is shorter than compiling.
    """

    lanes: int
    wide: bool
    quick: bool = False


class Job(NamedTuple):
    """One call for a block of chains.

    Attributes:
        call: Which call.
        number: Of the call in its chains.
        roots: The root key of the run; a key for each chain where the block has chains of several runs.
        chains: The chains' numbers, up to `Layout.lanes` of them.
        attempts: For call 0, which starts the chains: how often each has failed.
        states: For later calls: stacked states, or what the runner left for them in `Result.carry`.
    """

    call: Call
    number: int
    roots: Key
    chains: Numbers
    attempts: Numbers
    states: State


class Result(NamedTuple):
    """What a job left, on the host.

    Attributes:
        states: Stacked states.
        draws: Stacked draws, with a leading axis of chains.
        seconds: Wall time of the job.
        carry: The states as the runner likes to get them back with the block's next job; None for the states on the
            host. It may have more lanes than the block.
    """

    states: State
    draws: Draws
    seconds: float
    carry: Any = None


class Session(AbstractContextManager["Session"], Protocol):
    """A runner at work on one method and problem; closed when the run ends."""

    @property
    def slots(self) -> int:
        """Jobs that are carried out at a time."""

    def submit(self, job: Job) -> Future[Result]:
        """Carry out a job, some time from now."""


@runtime_checkable
class Runner(Protocol):
    """Carries out calls. A chain's draws depend on its keys and on the layout, not on its lane or its neighbours."""

    def layout(self, problem: Problem, chains: int, passes: float, recorded: Layout | None) -> Layout:
        """How blocks are laid out.

        Args:
            problem: As the method prepared it.
            chains: Chains that go side by side.
            passes: Cost of the plan in passes over the training rows.
            recorded: The layout of the run that is resumed, or None.
        """

    def open(self, method: Method, problem: Problem, layout: Layout, chains: int) -> Session:
        """Get ready for a run."""


def filled(lanes: Any, width: int) -> Any:
    """Lanes of a block, filled up to its width with copies of the last one."""
    count = lanes.shape[0]
    return lanes if count == width else lanes[np.minimum(np.arange(width), count - 1)]
