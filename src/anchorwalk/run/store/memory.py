"""Members in memory, behind the interface of every store."""

from collections.abc import Mapping
from typing import Any

from anchorwalk import tree
from anchorwalk.methods.base import Member, MemberInfo, State
from anchorwalk.run.store.base import Header, Like, Progress, Round, Store, check_same


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
