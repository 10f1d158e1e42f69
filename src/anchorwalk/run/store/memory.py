"""Members in memory, behind the interface of every store."""

from collections.abc import Mapping
from typing import Any

from anchorwalk import tree
from anchorwalk.methods.base import ChainState, Member, MemberInfo
from anchorwalk.run.store.base import Header, Round, Store, check_same, info_at, member_at


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
        self._like: ChainState | None = None
        self._about: dict[str, Any] = {}

    def header(self) -> Header:
        """The header of the run that is here; empty where there is none."""
        return self._header

    def begin(self, header: Header, like: ChainState, about: Mapping[str, Any]) -> None:
        """Start a run, or go on with the one that is here.

        Raises:
            InvalidInput: Where a run with another header is here.
        """
        check_same(self._header, header, "a store in memory")
        self._header = {**self._header, **header}
        self._like, self._about = like, dict(about)

    def commit(self, round_: Round) -> None:
        """Take a finished round."""
        for lane, chain in enumerate(round_.chains):
            self._rounds[chain, round_.index] = (round_.members, lane)
            self._states[chain] = (round_.states, lane)

    def end(self) -> None:
        """Nothing is left to do."""

    def infos(self) -> list[MemberInfo]:
        """Everything known of all members so far, in the order (chain, member)."""
        in_order = (self._rounds[place] for place in sorted(self._rounds))
        return [info_at(members.info, lane) for members, lane in in_order]

    def done(self) -> dict[int, int]:
        """Members finished of each chain."""
        result: dict[int, int] = {}
        for chain, index in self._rounds:
            result[chain] = max(result.get(chain, 0), index + 1)
        return result

    def member(self, chain: int, index: int) -> Member:
        """One member."""
        return member_at(*self._rounds[chain, index])

    def state(self, chain: int) -> ChainState:
        """The state of a chain after its last finished member."""
        states, lane = self._states[chain]
        return tree.lane(states, lane)  # type: ignore[no-any-return]

    def copy_to(self, store: Store) -> None:
        """Give the run to another store, where it can be read and can go on.

        Args:
            store: One without a run.
        """
        assert self._like is not None, "there is no run here"
        store.begin(self._header, self._like, self._about)
        try:
            for index in sorted({index for _, index in self._rounds}):
                blocks: dict[int, list[int]] = {}
                for chain in sorted(chain for chain, at in self._rounds if at == index):
                    blocks.setdefault(id(self._rounds[chain, index][0]), []).append(chain)
                for chains in blocks.values():
                    members = [self._rounds[chain, index] for chain in chains]
                    stacked = tree.stack([tree.lane(block, lane) for block, lane in members])
                    # Only a chain's last state is known, and only that one is kept.
                    states = tree.stack([self.state(chain) for chain in chains])
                    store.commit(Round(tuple(chains), index, stacked, states))
        finally:
            store.end()
