"""What a runner is: it carries out calls for blocks of chains and returns futures."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from anchorwalk.methods.base import Call, Draws, Method, State
from anchorwalk.problem import Problem
from anchorwalk.types import HostArray, Key

T = TypeVar("T")


class Layout(NamedTuple):
    """The part of a run's execution that decides the last bits of its results.

    `lanes` chains are a block, side by side under vmap. A `wide` program may use several cores. A `quick` one is
    compiled quickly rather than well, for a run that is shorter than compiling.
    """

    lanes: int
    wide: bool
    quick: bool = False


class Job(NamedTuple):
    """The call of a `number` for a block of `chains`, up to `Layout.lanes` of them; both are numbers in uint32.

    `roots` is the root key of the run, or a key for each chain where the block has chains of several runs. Call 0
    starts the chains, and `attempts` tells how often each has failed. Later calls start from stacked `states`, or from
    what the runner left for them in `Result.carry`. `more` are the block's next calls: a runner may carry out some of
    them as well, each from what the one before left, and so save the way back and forth where calls are short.
    """

    call: Call
    number: int
    roots: Key
    chains: HostArray
    attempts: HostArray
    states: State
    more: tuple[Call, ...] = ()


class Result(NamedTuple):
    """What a job left, on the host: states and draws with a leading axis of chains, and its wall time.

    `carry` are the states as the runner likes to get them back with the block's next job, maybe with more lanes than
    the block; None for those on the host. `more` are the results of the first of `Job.more`, as many as were carried
    out. `losses` say what happened to workers that began the job and did not end it.
    """

    states: State
    draws: Draws
    seconds: float
    carry: Any = None
    more: "tuple[Result, ...]" = ()
    losses: tuple[str, ...] = ()


class Session(AbstractContextManager["Session"], Protocol):
    """A runner at work on one method and problem; closed when the run ends.

    A session may have a `width`: chains of a block, where they are more than the layout's lanes.
    """

    @property
    def slots(self) -> int:
        """Jobs that are carried out at a time."""

    def submit(self, job: Job) -> Future[Result]:
        """Carry out a job, some time from now; WorkerLost where those who tried were lost again and again."""


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


@runtime_checkable
class Mapper(Protocol):
    """A runner that can carry out other work too: the passes over members in `posterior.predict(x, runner=...)`."""

    def map(self, function: Callable[..., T], common: Any, items: Iterable[Any]) -> Iterator[T]:
        """What `function(common, item)` gives for each item, in their order.

        Args:
            function: Importable by its name.
            common: What all items need; sent once.
            items: Taken as they are needed.
        """
