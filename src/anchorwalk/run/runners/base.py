"""What a runner is: it carries out calls for blocks of chains and returns futures."""

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from anchorwalk.methods.base import Call, Draws, Method, State
from anchorwalk.problem import Problem
from anchorwalk.types import HostArray, Key


class Layout(NamedTuple):
    """What of the way a run is carried out decides the last bits of its results."""

    lanes: int  #: Chains of a block, side by side under vmap.
    wide: bool  #: Whether a program may use several cores.
    quick: bool = False  #: Whether programs are compiled quickly, not well: for a run that is shorter than compiling.


class Job(NamedTuple):
    """One call for a block of chains."""

    call: Call  #: Which call.
    number: int  #: Of the call in its chains.
    roots: Key  #: The root key of the run; a key for each chain where the block has chains of several runs.
    chains: HostArray  #: The chains' numbers in uint32, up to `Layout.lanes` of them.
    attempts: HostArray  #: For call 0, which starts the chains: how often each has failed, in uint32.
    states: State  #: For later calls: stacked states, or what the runner left for them in `Result.carry`.


class Result(NamedTuple):
    """What a job left, on the host."""

    states: State  #: Stacked states.
    draws: Draws  #: Stacked draws, with a leading axis of chains.
    seconds: float  #: Wall time of the job.
    #: The states as the runner likes to get them back with the block's next job; None for the states on the host. It
    #: may have more lanes than the block.
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
