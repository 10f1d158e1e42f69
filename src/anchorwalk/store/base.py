"""What a store is: a place that takes finished rounds and gives members and chain states back."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from anchorwalk.types import ChainState, Member, MemberInfo

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


class Store(Protocol):
    """Keeps the members of one run."""

    def begin(self, header: Header) -> None:
        """Start a run, or go on with the one that is here.

        Raises:
            InvalidInput: Where a run with another header is here.
        """
        ...

    def commit(self, round_: Round) -> None:
        """Take a finished round; when this returns, it is safe."""
        ...

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        ...

    def member(self, chain: int, index: int) -> Member:
        """One member."""
        ...

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        ...
