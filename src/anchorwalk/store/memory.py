"""Members in memory, behind the interface of every store."""

import numpy as np

from anchorwalk import checks, tree
from anchorwalk.store.base import Header, Round
from anchorwalk.types import ChainState, Member, MemberInfo


class MemoryStore:
    """Keeps a run in memory. Pass it to `sample` again with a larger plan and the run goes on.

    Example:
        >>> import anchorwalk as aw
        >>> aw.MemoryStore().infos()
        []
    """

    def __init__(self) -> None:
        self._header: dict[str, str] = {}
        self._rounds: dict[tuple[int, int], tuple[Member, int]] = {}
        self._states: dict[int, tuple[ChainState, int]] = {}

    def begin(self, header: Header) -> None:
        """Start a run, or go on with the one that is here.

        Raises:
            InvalidInput: Where a run with another header is here.
        """
        if self._header:
            check_same(self._header, header)
        self._header = dict(header)

    def commit(self, round_: Round) -> None:
        """Take a finished round."""
        for lane, chain in enumerate(round_.chains):
            self._rounds[chain, round_.index] = (round_.members, lane)
            self._states[chain] = (round_.states, lane)

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        return [self.member(*place).info for place in sorted(self._rounds)]

    def member(self, chain: int, index: int) -> Member:
        """One member."""
        members, lane = self._rounds[chain, index]
        params, losses, info = tree.lane(members, lane)
        return Member(params, losses, MemberInfo(*(np.asarray(value).item() for value in info)))

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        states, lane = self._states[chain]
        return tree.lane(states, lane)  # type: ignore[no-any-return]


def check_same(stored: Header, given: Header) -> None:
    """Refuse to go on with a run of other arguments, naming what differs.

    Raises:
        InvalidInput: Where anything differs.
    """
    differing = [name for name in given if stored.get(name) != given[name]]
    if differing:
        details = "; ".join(f"{name} was {stored.get(name)}, is {given[name]}" for name in differing)
        remedy = "Repeat the arguments of the stored run, or choose another store."
        checks.reject("store", f"a run whose {', '.join(differing)} differ ({details})", "the same run", remedy)
