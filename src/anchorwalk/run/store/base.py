"""What a store is: it takes finished calls and gives members and chain states back. Memory is the plainest one."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.errors import Status
from anchorwalk.methods.base import Draws, Member, MemberInfo, State
from anchorwalk.types import HostArray, Params

Header = Mapping[str, str]  # what must be equal for a run to resume, as text: a value or a fingerprint by its name


def status_of(draws: Draws) -> HostArray:
    """Of each draw of each chain: OK where the method says so and all numbers are finite."""
    good = draws.good
    for leaf in jax.tree.leaves(draws.params) if good.size else ():
        finite = np.isfinite(np.asarray(leaf, np.float32 if leaf.dtype.itemsize < 4 else None))
        good = good & finite.reshape(*good.shape, -1).all(axis=-1)
    return np.where(good, int(Status.OK), int(Status.DIVERGED)).astype(np.int32)


class Round(NamedTuple):
    """One finished call of a block of chains, committed as one step. Arrays are on the host.

    `number` and `kind` are the call's; `attempt` tells how often these chains have been started anew. `first` is the
    place of the first draw in its chain, or without draws of the next one. `draws` and their `status` have leading axes
    (chain, draw); `seconds` is the wall time of one. `states` after the call have a leading axis of chains.
    """

    chains: tuple[int, ...]
    number: int
    kind: str
    attempt: int
    first: int
    draws: Draws
    status: HostArray
    seconds: float
    states: State

    @property
    def size(self) -> int:
        """Draws of each chain."""
        return int(self.status.shape[1])

    def member(self, lane: int, row: int) -> Member:
        """One draw."""
        values = {name: np.asarray(value)[lane, row].item() for name, value in self.draws.info.items()}
        status = int(self.status[lane, row])
        info = MemberInfo(self.chains[lane], self.first + row, status, self.seconds, values)
        return Member(tree.lane(self.draws.params, (lane, row)), self.draws.trace[lane, row], info)

    def __repr__(self) -> str:
        return f"Round(call {self.number}, {self.kind!r}, of chains {list(self.chains)}: {self.size} draws each)"


class Progress(NamedTuple):
    """How far a chain is: calls that are done, draws that they made, and how often it has been started anew."""

    calls: int
    members: int
    attempt: int


class Like(NamedTuple):
    """Shapes and dtypes of what a run stores: the parameters of one draw, and the state of one chain."""

    params: Params
    state: State


@runtime_checkable
class Store(Protocol):
    """Keeps the members of one run."""

    def header(self) -> Header:
        """The header of the run that is in the store; empty where there is none."""

    def begin(self, header: Header, like: Like, about: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Start a run, or resume the one that is in the store.

        Args:
            header: What must be equal for the run to resume.
            like: Shapes and dtypes.
            about: What a later reader needs, as JSON.
            environment: Versions and machine, on which the last bits depend.

        Raises:
            InvalidInput: Where a run with another header is in the store.
        """

    def commit(self, round_: Round) -> None:
        """Take a finished call; when this returns, it is safe."""

    def fail(self, chain: int) -> None:
        """Mark a chain that has no good first draw: it is not tried again."""

    def end(self) -> None:
        """The run is over, or was ended: others may write, and it can still be read."""

    def about(self) -> Mapping[str, Any]:
        """What the run says of itself."""

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""

    def progress(self) -> dict[int, Progress]:
        """How far each chain is."""

    def failed(self) -> list[int]:
        """Chains that are marked as failed."""

    def member(self, chain: int, index: int) -> Member:
        """One member."""

    def state(self, chain: int) -> State:
        """The state of a chain after its last finished call."""


def check_same(stored: Header, given: Header, where: str) -> None:
    """Refuse to resume a run of other arguments, naming what differs; what one of them lacks is not compared."""
    differing = [name for name in given if stored.get(name, given[name]) != given[name]]
    if differing:
        details = "; ".join(f"{name} was {stored[name]}, is {given[name]}" for name in differing)
        remedy = "Repeat the arguments of the stored run, or choose another store."
        checks.reject("store", f"{where} with a run of other arguments: {details}", "the same run", remedy)


class MemoryStore:
    """Keeps a run in memory. Pass it to `sample` again with a larger plan and the run resumes.

    Example:
        >>> import anchorwalk as aw
        >>> aw.MemoryStore().infos()
        []
    """

    def __init__(self) -> None:
        self._header: dict[str, str] = {}
        self._about: dict[str, Any] = {}
        self._environment: dict[str, Any] = {}
        self._like: Like | None = None
        self._rounds: list[Round] = []
        self._places: dict[tuple[int, int], tuple[Round, int, int]] = {}
        self._last: dict[int, tuple[Round, int]] = {}
        self._failed: set[int] = set()

    def header(self) -> Header:
        """The header of the run that is in the store; empty where there is none."""
        return self._header

    def begin(self, header: Header, like: Like, about: Mapping[str, Any], environment: Mapping[str, Any]) -> None:
        """Start a run, or resume the one that is in the store."""
        check_same(self._header, header, "a store in memory")
        self._header = {**self._header, **header}
        self._like, self._about, self._environment = like, dict(about), dict(environment)

    def commit(self, round_: Round) -> None:
        """Take a finished call."""
        self._rounds.append(round_)
        for lane, chain in enumerate(round_.chains):
            self._last[chain] = (round_, lane)
            for row in range(round_.size):
                self._places[chain, round_.first + row] = (round_, lane, row)

    def fail(self, chain: int) -> None:
        """Mark a chain that has no good first draw."""
        self._failed.add(chain)

    def end(self) -> None:
        """Nothing is left to do."""

    def about(self) -> Mapping[str, Any]:
        """What the run says of itself."""
        return self._about

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        return [self.member(*place).info for place in sorted(self._places)]

    def progress(self) -> dict[int, Progress]:
        """How far each chain is."""
        return {
            chain: Progress(last.number + 1, last.first + last.size, last.attempt)
            for chain, (last, _) in self._last.items()
        }

    def failed(self) -> list[int]:
        """Chains that are marked as failed."""
        return sorted(self._failed)

    def member(self, chain: int, index: int) -> Member:
        """One member."""
        round_, lane, row = self._places[chain, index]
        return round_.member(lane, row)

    def state(self, chain: int) -> State:
        """The state of a chain after its last finished call."""
        round_, lane = self._last[chain]
        return tree.lane(round_.states, lane)

    def copy_to(self, store: Store) -> None:
        """Give the run to another store, one without a run, where it can be read and resumed."""
        assert self._like is not None, "there is no run in this store"
        store.begin(self._header, self._like, self._about, self._environment)
        try:
            for round_ in self._rounds:
                store.commit(round_)
            for chain in self._failed:
                store.fail(chain)
        finally:
            store.end()
