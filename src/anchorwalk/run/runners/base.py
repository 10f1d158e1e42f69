"""What a runner is: it carries out calls for blocks of chains and returns futures."""

from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

from anchorwalk.methods.base import Call, Draws, Method, State
from anchorwalk.problem import Problem
from anchorwalk.types import HostArray, Key


class Layout(NamedTuple):
    """What of the way a run is carried out decides the last bits of its results.

    `lanes` chains are a block, side by side under vmap. A `wide` program may use several cores. A `quick` one is
    compiled quickly rather than well, for a run that is shorter than compiling.
    """

    lanes: int
    wide: bool
    quick: bool = False


class Job(NamedTuple):
    """The call of a `number` for a block of `chains`, up to `Layout.lanes` of them; both are numbers in uint32.

    `roots` is the root key of the run, or a key for each chain where the block has chains of several runs. Call 0
    starts the chains, and `attempts` tells how often each has failed. Later calls go on from stacked `states`, or from
    what the runner left for them in `Result.carry`.
    """

    call: Call
    number: int
    roots: Key
    chains: HostArray
    attempts: HostArray
    states: State


class Result(NamedTuple):
    """What a job left, on the host: states and draws with a leading axis of chains, and its wall time.

    `carry` are the states as the runner likes to get them back with the block's next job, maybe with more lanes than
    the block; None for those on the host.
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
