"""The loop of a run: send what is next, commit what is finished, tell the callbacks."""

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.errors import Status, WorkerLost
from anchorwalk.methods.base import Call, Draws
from anchorwalk.plan.plan import Plan
from anchorwalk.run import programs
from anchorwalk.run.callbacks import Callback, RoundInfo, RunCallback
from anchorwalk.run.runners import Job, Layout, Result, Session
from anchorwalk.run.store import Like, Progress, Round, Store
from anchorwalk.run.store.base import status_of
from anchorwalk.types import HostArray, Key

ATTEMPTS = 3  # how often a chain whose first draw is bad is started anew
AHEAD = 64  # calls that a block may make in a row
LOOK = 0.2  # seconds between two looks at whether Ctrl-C was pressed


class Block(NamedTuple):
    """Chains that advance together."""

    lanes: tuple[tuple[int, int], ...]  # run and chain of each
    number: int  # of the next call
    attempt: int  # how often they have been started anew
    states: Any  # stacked; None before the first call


@dataclass
class Loop:
    """The loop over calls and blocks, and what it must remember."""

    roots: list[Key]
    plan: Plan
    calls: list[Call]
    session: Session
    layout: Layout
    stores: list[Store]
    selected: list[int]
    apart: bool  # whether the chains of a block are of one run
    like: Like

    def __post_init__(self) -> None:
        self.shown = replace(self.plan, chains=len(self.selected) * len(self.roots))
        self.passes = np.concatenate([[0.0], np.cumsum([call.passes for call in self.calls])])
        self.draws = np.concatenate([[0], np.cumsum([call.draws for call in self.calls])])
        self.done: dict[tuple[int, int], int] = {}
        self.lost: dict[tuple[int, int], WorkerLost] = {}  # run and chain of those that were given up
        self.interrupted = False
        self.blocks = list(self._blocks())
        self.began, self.compiled = time.perf_counter(), programs.seconds()

    def _blocks(self) -> Iterator[Block]:
        """Chains that are not finished, those equally far together."""
        groups: dict[tuple[int, int, int], list[tuple[int, int]]] = defaultdict(list)
        width = getattr(self.session, "width", self.layout.lanes)
        for run, store in enumerate(self.stores):
            progress, failed = store.progress(), store.failed()
            for chain in self.selected:
                at = progress.get(chain, Progress(calls=0, members=0, attempt=0))
                self.done[run, chain] = min(at.calls, len(self.calls))
                if at.calls < len(self.calls) and chain not in failed:
                    groups[at.calls, at.attempt, run if self.apart else 0].append((run, chain))
        for (number, attempt, _), lanes in sorted(groups.items()):
            for start in range(0, len(lanes), width):
                block = tuple(lanes[start : start + width])
                states = tree.stack([self.stores[run].state(chain) for run, chain in block]) if number else None
                yield Block(block, number, attempt, states)

    def go(self, listeners: Sequence[Callback]) -> bool:
        """Run what is left of the plan; False if it was interrupted."""
        started: list[RunCallback] = []

        def compiling(begins: bool) -> None:
            for listener in started:
                if hasattr(listener, "compiling"):
                    listener.compiling(begins)

        try:
            for listener in listeners:
                if isinstance(listener, RunCallback):
                    listener.start(self.shown, self._passes_done())
                    started.append(listener)
            with programs.watched(compiling):
                return self._calls(listeners)
        finally:
            for listener in started:
                listener.end()

    @contextmanager
    def _until_interrupted(self) -> Iterator[None]:
        """Remember the first Ctrl-C; a second one interrupts at once.

        Signals reach the main thread alone. Where Ctrl-C is ignored, or not handled by Python, that stays so.
        """

        def handle(number: int, frame: Any) -> None:
            if self.interrupted:
                raise KeyboardInterrupt
            self.interrupted = True

        previous: Any = signal.getsignal(signal.SIGINT)
        ours = threading.current_thread() is threading.main_thread() and previous not in (signal.SIG_IGN, None)
        if ours:
            signal.signal(signal.SIGINT, handle)
        try:
            yield
        finally:
            if ours:
                signal.signal(signal.SIGINT, previous)

    def _calls(self, listeners: Sequence[Callback]) -> bool:
        """Send what is next, commit what is finished, in whatever order; the queue is fair to all blocks."""
        waiting, running = list(self.blocks), dict[Future[Result], Block]()
        with self._until_interrupted():
            while waiting or running:
                while waiting and len(running) <= self.session.slots and not self.interrupted:
                    block = waiting.pop(0)
                    running[self.session.submit(self._job(block))] = block
                if not running:
                    return False  # Ctrl-C
                finished, _ = wait(running, LOOK, FIRST_COMPLETED)
                if self.interrupted:  # what was sent and has not begun is taken back
                    waiting.extend([running.pop(future) for future in list(running) if future.cancel()])
                at_work = min(self.session.slots, len(running))
                for future in [one for one in running if one in finished]:  # in the order in which they were sent
                    block = running.pop(future)
                    results = self._results(block, future)
                    for rest, result in zip(range(len(results))[::-1], results, strict=True):
                        rounds, further = self._take(block, result, result.seconds / at_work) if result else ([], [])
                        waiting.extend(further if not rest else ())
                        last = not (running or rest) and (self.interrupted or not waiting)
                        for listener in listeners:
                            listener(self._info(block, rounds, last))
                        block = further[0] if rest else block
        return True

    def _results(self, block: Block, future: Future[Result]) -> list[Result | None]:
        """What a job left, each call by itself; None where the block is given up."""
        try:
            result = future.result()
        except WorkerLost as lost:
            self.lost |= dict.fromkeys(block.lanes, lost)
            self._note(block, "given up", lost.losses)
            return [None]
        if result.losses:
            self._note(block, "sent again", result.losses)
        return [result, *result.more]

    def _note(self, block: Block, event: str, losses: Sequence[str]) -> None:
        """Write into the runs' logs, where their stores have one, what happened to workers."""
        for run in dict.fromkeys(run for run, _ in block.lanes):
            note = getattr(self.stores[run], "note", None)
            if note is not None:
                chains = [chain for other, chain in block.lanes if other == run]
                note({"event": event, "chains": chains, "call": block.number, "losses": list(losses)})

    def _job(self, block: Block) -> Job:
        runs, chains = zip(*block.lanes, strict=True)
        roots = self.roots[runs[0]] if self.apart else jnp.stack([self.roots[run] for run in runs])
        attempts = np.full(len(chains), block.attempt, np.uint32)
        number = block.number
        # From its first draw on nothing starts a chain anew, and a block continues whatever its calls leave.
        after = number + 1 if self.draws[number] else len(self.calls)
        more = tuple(self.calls[after : after + AHEAD])
        return Job(self.calls[number], number, roots, np.asarray(chains, np.uint32), attempts, block.states, more)

    def _take(self, block: Block, result: Result, seconds: float) -> tuple[list[Round], list[Block]]:
        """Commit what a call left; and the blocks that continue from there."""
        call = self.calls[block.number]
        states, draws = jax.tree.map(_read_only, (result.states, result.draws))
        _check_result(states, draws, call, self.like)
        status = status_of(draws)
        # A chain without a good first draw is begun anew.
        bad = (self.draws[block.number] == 0) & (status[:, :1] != Status.OK).any(axis=1)
        share = seconds / (len(block.lanes) * max(1, call.draws))
        good, first = np.flatnonzero(~bad), int(self.draws[block.number])
        rounds, further = list[Round](), list[Block]()
        for run in sorted({block.lanes[lane][0] for lane in good}):  # each gets its part of the block
            lanes = [lane for lane in good if block.lanes[lane][0] == run]
            whole = len(lanes) == len(block.lanes)  # states can be large: no copy without need
            own, found = (states, draws) if whole else tree.lane((states, draws), lanes)
            chains = tuple(block.lanes[lane][1] for lane in lanes)
            round_ = Round(chains, block.number, call.kind, block.attempt, first, found, status[lanes], share, own)
            self.stores[run].commit(round_)
            self.done |= {(run, chain): block.number + 1 for chain in chains}
            rounds.append(round_)
        if good.size and block.number + 1 < len(self.calls):
            carry = states if result.carry is None else result.carry
            kept = tree.lane(states, good) if bad.any() else carry
            further.append(Block(tuple(block.lanes[lane] for lane in good), block.number + 1, block.attempt, kept))
        again = tuple(block.lanes[lane] for lane in np.flatnonzero(bad))
        if again and block.attempt < ATTEMPTS:
            further.append(Block(again, 0, block.attempt + 1, None))
        elif again:
            for run, chain in again:
                self.stores[run].fail(chain)
        return rounds, further

    def _passes_done(self) -> float:
        return float(sum(self.passes[calls] for calls in self.done.values()))

    def _info(self, block: Block, rounds: list[Round], last: bool) -> RoundInfo:
        places = [(one, lane, row) for one in rounds for lane in range(len(one.chains)) for row in range(one.size)]
        return RoundInfo(
            plan=self.shown,
            call=self.calls[block.number],
            number=block.number,
            chains=tuple(chain for round_ in rounds for chain in round_.chains),
            members=[one.member(lane, row) for one, lane, row in places],
            members_done=int(sum(min(self.draws[calls], self.plan.members) for calls in self.done.values())),
            passes_done=self._passes_done(),
            seconds=time.perf_counter() - self.began,
            compiling=programs.seconds() - self.compiled,
            failed=sum(len(store.failed()) for store in self.stores),
            last=last,
        )


def _read_only(leaf: Any) -> HostArray:
    """The same array, which nobody may change: callbacks, stores and the next call share it."""
    array = np.asarray(leaf)
    array.flags.writeable = False
    return array


def _check_result(states: Any, draws: Any, call: Call, like: Like) -> None:
    """Refuse states and draws of other trees, shapes or dtypes than they must have; numbers are looked at elsewhere."""
    if not isinstance(draws, Draws):
        checks.reject("method.step", f"(state, {type(draws).__name__})", "(state, Draws)", "Return Draws(...).")
    if _shapes(states, 1) != _shapes(like.state, 0):
        remedy = "Return a state of the same tree, shapes and dtypes."
        checks.reject("method.step", "a state of other arrays than method.start's", "the same arrays", remedy)
    if (draws.good.shape[1:], draws.good.dtype) != ((call.draws,), bool):
        given = f"{draws.good.dtype}{draws.good.shape[1:]} as Draws.good of a call of {call.draws} draws"
        checks.reject("method.step", given, f"bool({call.draws},)", "Draws have a leading axis of draws.")
    if call.draws and _shapes(draws.params, 2) != _shapes(like.params, 0):
        remedy = "Return them in the tree, shapes and dtypes of problem.params_like, with a leading axis of draws."
        checks.reject("method.step", "draws of other arrays than the parameters", "the parameters' own", remedy)


def _shapes(value: Any, lead: int) -> Any:
    leaves = [(tuple(leaf.shape)[lead:], np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(value)]
    return jax.tree.structure(value), leaves
