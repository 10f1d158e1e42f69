"""What a store is: a place that takes finished rounds and gives members and chain states back."""

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from anchorwalk import checks, tree
from anchorwalk.methods.base import ChainState, Member, MemberInfo

Header = Mapping[str, str]
"""All that must be equal for a run to go on, as text: from a name such as "prior" to a value or a fingerprint."""


class Round(NamedTuple):
    """One finished member of each chain of a block, committed as one step.

    Attributes:
        chains: The chains' numbers.
        index: The members' common place in their chains.
        members: Stacked members, host arrays with a leading axis of chains.
        states: Stacked chain states after this round, likewise.
    """

    chains: tuple[int, ...]
    index: int  # type: ignore[assignment]  # it hides tuple.index, which nobody calls here
    members: Member
    states: ChainState


@runtime_checkable
class Store(Protocol):
    """Keeps the members of one run."""

    def header(self) -> Header:
        """The header of the run that is here; empty where there is none."""
        ...

    def begin(self, header: Header, like: ChainState, about: Mapping[str, Any]) -> None:
        """Start a run, or go on with the one that is here.

        Args:
            header: What must be equal for the run to go on.
            like: Shapes and dtypes of a chain's state.
            about: What a later reader needs, as JSON.

        Raises:
            InvalidInput: Where a run with another header is here.
        """
        ...

    def commit(self, round_: Round) -> None:
        """Take a finished round; when this returns, it is safe."""
        ...

    def end(self) -> None:
        """The run is over, or was ended: others may write, and reading goes on."""
        ...

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        ...

    def done(self) -> dict[int, int]:
        """Members finished of each chain."""
        ...

    def member(self, chain: int, index: int) -> Member:
        """One member."""
        ...

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        ...


def check_same(stored: Header, given: Header, where: str) -> None:
    """Refuse to go on with a run of other arguments, naming what differs; what one of them lacks is not compared.

    Raises:
        InvalidInput: Where anything differs.
    """
    differing = [name for name in given if stored.get(name, given[name]) != given[name]]
    if differing:
        details = "; ".join(f"{name} was {stored[name]}, is {given[name]}" for name in differing)
        remedy = "Repeat the arguments of the stored run, or choose another store."
        given_run = f"{where} with a run of other arguments: {details}"
        checks.reject("store", given_run, "the same run", remedy)


def info_at(infos: MemberInfo, lane: int) -> MemberInfo:
    """One member's info from stacked ones, as plain numbers."""
    return MemberInfo(*(np.asarray(value)[lane].item() for value in infos))


def member_at(members: Member, lane: int) -> Member:
    """One member from stacked ones."""
    return Member(tree.lane(members.params, lane), members.losses[lane], info_at(members.info, lane))
