"""The one call: a plan's chains, call by call, until every one has its members (paper, Algorithms 1 and 2)."""

import time
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from os import PathLike
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.errors import (
    DivergedWarning,
    FailedChainsWarning,
    InterruptedWarning,
    Status,
    TrainingFailed,
    warn,
)
from anchorwalk.methods.base import Call, Draws, Keys, Member, Method
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback, Progress, RoundInfo, RunCallback
from anchorwalk.run.interrupt import Interrupt
from anchorwalk.run.keys import Stream, keys_of
from anchorwalk.run.programs import wide_floats
from anchorwalk.run.runners import Job, Layout, Local, Result, Runner, Session
from anchorwalk.run.runners.layout import cores
from anchorwalk.run.store import DiskStore, Like, MemoryStore, Round, Store, environment, fingerprint, serialise
from anchorwalk.serial import to_json
from anchorwalk.types import HostArray, Key

ATTEMPTS = 3
"""How often a chain whose first draw is bad is started anew."""
LOOK = 0.2
"""Seconds from one look for Ctrl-C to the next, while calls are under way."""


def sample(
    key: Key,
    problem: Problem,
    plan: Plan,
    *,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    chains: Collection[int] | None = None,
) -> Posterior:
    """Approximate samples of the posterior: `plan.chains` chains of `plan.members` draws each.

    Python loops over calls; a call makes the next draw of a block of chains as one compiled program. Ctrl-C
    ends the run after the calls under way, with the members so far.

    Args:
        key: `jax.random.key(...)`; all randomness comes from it.
        problem: Network, likelihood, prior and data.
        plan: A method, chains and members.
        runner: "auto", or a runner such as `Local(threads=4, lanes=8)`.
        store: Where members go: a folder, in which each call is safe as soon as it is finished and in which the same
            call resumes after a kill; a store; or None for memory.
        callbacks: Called after each call; None shows a progress bar, `[]` nothing.
        chains: Which of the plan's chains to run, from 0; None runs all. Folders that hold different chains
            of one plan, run in different places, are put together by `anchorwalk merge`.

    Returns:
        The members, in the order (chain, member).

    Raises:
        InvalidInput: Arguments that do not fit together, before any work starts.
        TrainingFailed: All chains failed: none had a good first draw in four attempts.
        StoreDamaged: A stored run with a file that is not whole.
        StoreFailed: A call that could not be written; those before it are safe.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> method = aw.SAE(first=aw.Training(aw.SGD(0.5), epochs=50, batch_size=32),
        ...                 then=aw.Training(aw.SGD(0.5), epochs=10, batch_size=32))
        >>> posterior = aw.sample(jax.random.key(0), problem, aw.Plan(method, chains=2, members=3), callbacks=[])
        >>> len(posterior), posterior.predict(x).mean.shape
        (6, (32,))
    """
    checks.key("key", key)
    _check_problem(problem, plan)
    places = [_open(store)]
    selected = _check_chains(chains, plan)
    (posterior,) = _sample([key], problem, plan, _check_runner(runner), places, _check_callbacks(callbacks), selected)
    return posterior


def sample_many(
    keys: Sequence[Key] | Key,
    problem: Problem,
    plan: Plan,
    *,
    runner: str | Runner = "auto",
    stores: Sequence[Store | str | PathLike[str] | None] | None = None,
    callbacks: Sequence[Callback] | None = None,
) -> list[Posterior]:
    """Several runs of one plan side by side, each with a key of its own: for experiments that repeat a small run.

    Each run is the one that `sample` with its key and the same lanes makes, to the last bit.

    Args:
        keys: A key for each run.
        problem: As in `sample`.
        plan: As in `sample`, of each run.
        runner: As in `sample`; its blocks have chains of several runs, unless chains of a run share something, such as
            an order of rows.
        stores: Where each run's members go, as in `sample`; None keeps all in memory.
        callbacks: As in `sample`; what they count is over all runs.

    Returns:
        The posterior of each run.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.5), epochs=10, batch_size=8)), chains=2)
        >>> aw.sample_many(jax.random.split(jax.random.key(0), 3), problem, plan, callbacks=[])
        [Posterior(2 members in 2 chains), Posterior(2 members in 2 chains), Posterior(2 members in 2 chains)]
    """
    roots = list(keys)
    for key in roots:
        checks.key("keys", key)
    _check_problem(problem, plan)
    given = [None] * len(roots) if stores is None else list(stores)
    if not roots or len(given) != len(roots):
        checks.reject("stores", f"{len(given)} for {len(roots)} keys", "one for each key", "Pass as many, or None.")
    listeners, chosen = _check_callbacks(callbacks), _check_runner(runner)
    everything = list(range(plan.chains))
    prepared = [plan.method.prepare(jax.random.fold_in(key, Stream.PREPARE), problem) for key in roots]
    if any(one is not problem for one in prepared):  # each run has data of its own, such as rows held back
        return [
            _sample([key], problem, plan, chosen, [_open(place)], listeners, everything)[0]
            for key, place in zip(roots, given, strict=True)
        ]
    return _sample(roots, problem, plan, chosen, [_open(place) for place in given], listeners, everything)


def _sample(
    roots: list[Key],
    problem: Problem,
    plan: Plan,
    runner: Runner,
    stores: list[Store],
    listeners: Sequence[Callback],
    selected: list[int],
) -> list[Posterior]:
    """Runs that share everything but their keys and stores."""
    given, problem = problem, plan.method.prepare(jax.random.fold_in(roots[0], Stream.PREPARE), problem)
    calls = list(plan.method.calls(problem, plan.members))
    layout = runner.layout(problem, plan.chains * len(roots), _recorded(stores[0]))
    like = _like(roots[0], plan.method, problem, calls)
    now = environment.current(cores() if layout.wide else 1)
    opened: list[Store] = []
    try:
        for root, store in zip(roots, stores, strict=True):
            header = {**_header(root, given, plan, layout), "data": fingerprint.of_data(problem)}
            store.begin(header, like, _about(root, given, plan, calls, selected), now)
            opened.append(store)
        with runner.open(plan.method, problem, layout, len(selected) * len(roots)) as session:
            apart = len(roots) == 1 or _shares(roots[0], plan.method, problem, calls)
            run = _Run(roots, plan, calls, session, layout, stores, selected, apart)
            complete = run.go(listeners)
    finally:
        for store in opened:
            store.end()
    posteriors = []
    for store in stores:
        infos = tuple(i for i in store.infos() if i.chain < plan.chains and i.index < plan.members)
        failed = tuple(chain for chain in store.failed() if chain in selected)
        if not any(info.good for info in infos) and failed and complete:
            raise TrainingFailed(_failure(failed))
        posterior = Posterior(store, given.apply, given.likelihood, infos, store.header(), complete, failed)
        _report_end(posterior, len(selected) * plan.members)
        posteriors.append(posterior)
    return posteriors


def _check_problem(problem: Any, plan: Any) -> None:
    if not isinstance(problem, Problem):
        checks.reject("problem", type(problem).__name__, "a Problem", "Pass Problem(init=, apply=, ...).")
    if not isinstance(plan, Plan):
        checks.reject("plan", type(plan).__name__, "a Plan", "Pass Plan(method, ...) or Plan.from_budget(...).")


def _check_runner(runner: Any) -> Runner:
    if isinstance(runner, str):
        checks.choice("runner", runner, ("auto",))
        return Local()
    checks.instance("runner", runner, Runner, '"auto" or Local(threads=2, lanes=8)')
    return runner  # type: ignore[no-any-return]


def _check_chains(chains: Any, plan: Plan) -> list[int]:
    if chains is None:
        return list(range(plan.chains))
    try:
        numbers = sorted({checks.count("chains", chain, least=0) for chain in chains})
    except TypeError:
        checks.reject("chains", repr(chains), "numbers of chains, from 0", "Pass a list, or None for all.")
    if not numbers or numbers[-1] >= plan.chains:
        given = f"{numbers} for a plan of {plan.chains} chains"
        checks.reject("chains", given, f"numbers from 0 to {plan.chains - 1}", "Pass those, or None for all.")
    return numbers


def _check_callbacks(callbacks: Any) -> Sequence[Callback]:
    if callbacks is None:
        return [Progress()]
    if not (isinstance(callbacks, list | tuple) and all(callable(one) for one in callbacks)):
        checks.reject("callbacks", repr(callbacks), "a list of functions", "Pass [Progress()], or [] for none.")
    return callbacks


def _open(store: Any) -> Store:
    if store is None:
        return MemoryStore()
    if isinstance(store, str | PathLike):
        return DiskStore(store)
    checks.instance("store", store, Store, 'a folder such as "runs/mine", or None')
    return store  # type: ignore[no-any-return]


def _recorded(store: Store) -> Layout | None:
    """The layout of the run that is in a store."""
    header = store.header()
    return Layout(int(header["lanes"]), header["cores"] != "one") if "lanes" in header else None


def _header(key: Key, problem: Problem, plan: Plan, layout: Layout) -> dict[str, str]:
    """All that must be equal for a run to resume, as text; a plan may grow, so its counts are not in it."""
    return {
        "key": fingerprint.of_key(key),
        "network": fingerprint.of_network(problem),
        "prior": fingerprint.of_tree(problem.prior),
        "likelihood": fingerprint.of_settings(problem.likelihood),
        **fingerprint.of_method(plan.method, problem),
        "lanes": str(layout.lanes),
        "cores": "several" if layout.wide else "one",
        "convolution": fingerprint.of_convolution(problem),
    }


def _about(key: Key, problem: Problem, plan: Plan, calls: list[Call], selected: Sequence[int]) -> dict[str, Any]:
    """What a later reader of the run needs or wants to know, as JSON."""
    return {
        "plan": {
            "chains": plan.chains,
            "members": plan.members,
            "selected": list(selected),
            "calls": [[*call, count] for call, count in _grouped(calls)],
        },
        "method": {**to_json("method", plan.method), "title": _title(plan.method)},
        "key": {"implementation": str(jax.random.key_impl(key)), "data": np.asarray(jax.random.key_data(key)).tolist()},
        "prior": serialise.prior_to_json(problem.prior),
        "likelihood": serialise.likelihood_to_json(problem.likelihood),
        "inputs": serialise.inputs_to_json(problem.data.x),
        "rows": int(np.count_nonzero(np.asarray(problem.data.weights))),  # estimators add some without weight
    }


def _title(method: Method) -> str:
    return str(getattr(method, "title", type(method).__name__))


def _grouped(calls: list[Call]) -> Iterator[tuple[Call, int]]:
    """Equal calls in a row, and how many."""
    start = 0
    for place in range(1, len(calls) + 1):
        if place == len(calls) or calls[place] != calls[start]:
            yield calls[start], place - start
            start = place


def _like(root: Key, method: Method, problem: Problem, calls: list[Call]) -> Like:
    """Shapes and dtypes of a chain's state and of a draw."""
    with jax.enable_x64(wide_floats(problem)):
        keys, number = keys_of(root, 0, 0), jnp.int32(0)
        state = jax.eval_shape(lambda: method.start(keys, problem, jnp.uint32(0)))
        drawing = next((call for call in calls if call.draws), None)
        if drawing is None:
            checks.reject("plan", "a method whose calls make no draws", "at least one draw", "Ask for more members.")
        after, draws = jax.eval_shape(lambda state: method.step(keys, problem, state, drawing, number), state)
    if not isinstance(draws, Draws):
        checks.reject("method.step", f"(state, {type(draws).__name__})", "(state, Draws)", "Return Draws(...).")
    if _shapes(after) != _shapes(state):
        remedy = "Return a state of the same tree, shapes and dtypes."
        checks.reject("method.step", "a state of other arrays than method.start's", "the same arrays", remedy)
    if _shapes(draws.good) != _shapes(np.zeros(drawing.draws, bool)):
        given = f"{draws.good.dtype}{draws.good.shape} as Draws.good of a call of {drawing.draws} draws"
        checks.reject("method.step", given, f"bool({drawing.draws},)", "Draws have a leading axis of draws.")
    return Like(tree.lane_like(draws.params), state)


def _shares(root: Key, method: Method, problem: Problem, calls: list[Call]) -> bool:
    """Whether a method uses the key that all chains of a run have in common."""
    own, shared = keys_of(root, 0, 0)

    def chain(shared: Key) -> Any:
        keys, found = Keys(own, shared), []
        state = method.start(keys, problem, jnp.uint32(0))
        for call in dict.fromkeys(calls):  # each kind once
            state, draws = method.step(keys, problem, state, call, jnp.int32(0))
            found.append(draws)
        return state, found

    with jax.enable_x64(wide_floats(problem)):
        traced = jax.make_jaxpr(chain)(shared).jaxpr
    uses = [*traced.outvars, *(used for equation in traced.eqns for used in equation.invars)]
    return any(used is traced.invars[0] for used in uses)


def _shapes(value: Any) -> Any:
    return jax.tree.structure(value), [(leaf.shape, np.dtype(leaf.dtype)) for leaf in jax.tree.leaves(value)]


class _Block(NamedTuple):
    """Chains that go on together.

    Attributes:
        lanes: Run and chain of each.
        number: The next call.
        first: Draws of each chain so far.
        attempt: How often they have been started anew.
        states: Stacked states; None before the first call.
    """

    lanes: tuple[tuple[int, int], ...]
    number: int
    first: int
    attempt: int
    states: Any


class _Run:
    """The loop over calls and blocks, and what it must remember."""

    def __init__(
        self,
        roots: list[Key],
        plan: Plan,
        calls: list[Call],
        session: Session,
        layout: Layout,
        stores: list[Store],
        selected: list[int],
        apart: bool,
    ) -> None:
        self.roots, self.plan, self.calls = roots, plan, calls
        self.session, self.layout, self.stores = session, layout, stores
        self.apart = apart  # whether the chains of a block are of one run
        self.shown = replace(plan, chains=len(selected) * len(roots))
        self.passes = np.concatenate([[0.0], np.cumsum([call.passes for call in calls])])
        self.draws = np.concatenate([[0], np.cumsum([call.draws for call in calls])])
        self.done: dict[tuple[int, int], int] = {}
        self.blocks = list(self._blocks(selected))
        self.began = time.perf_counter()

    def _blocks(self, selected: list[int]) -> Iterator[_Block]:
        """Chains that are not finished, those equally far together."""
        groups: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for run, store in enumerate(self.stores):
            progress, failed = store.progress() if store.header() else {}, store.failed()
            for chain in selected:
                at = progress.get(chain)
                calls, attempt = (at.calls, at.attempt) if at else (0, 0)
                self.done[run, chain] = min(calls, len(self.calls))
                if calls < len(self.calls) and chain not in failed:
                    groups.setdefault((calls, attempt, run if self.apart else 0), []).append((run, chain))
        for (number, attempt, _), lanes in sorted(groups.items()):
            for start in range(0, len(lanes), self.layout.lanes):
                block = tuple(lanes[start : start + self.layout.lanes])
                states = None
                if number:
                    states = tree.stack([self.stores[run].state(chain) for run, chain in block])
                yield _Block(block, number, int(self.draws[number]), attempt, states)

    def go(self, listeners: Sequence[Callback]) -> bool:
        """Run what is left of the plan; False if it was interrupted."""
        whole_run = [listener for listener in listeners if isinstance(listener, RunCallback)]
        started = []
        try:
            for listener in whole_run:
                listener.start(self.shown, self._passes_done())
                started.append(listener)
            return self._calls(listeners)
        finally:
            for listener in started:
                listener.end()

    def _calls(self, listeners: Sequence[Callback]) -> bool:
        """Send what is next, commit what is finished, in whatever order; the queue is fair to all blocks."""
        waiting, running = list(self.blocks), dict[Future[Result], _Block]()
        with Interrupt() as interrupt:
            while waiting or running:
                while waiting and len(running) <= self.session.slots and not interrupt.asked:
                    block = waiting.pop(0)
                    running[self.session.submit(self._job(block))] = block
                if not running:
                    return False  # Ctrl-C
                finished, _ = wait(running, LOOK, FIRST_COMPLETED)
                if interrupt.asked:  # what was sent and has not begun is taken back
                    waiting.extend([running.pop(future) for future in list(running) if future.cancel()])
                at_work = min(self.session.slots, len(running))
                for future in [one for one in running if one in finished]:  # in the order in which they were sent
                    block = running.pop(future)
                    result = future.result()
                    rounds, further = self._take(block, result, result.seconds / at_work)
                    waiting.extend(further)
                    last = (not waiting and not running) or (interrupt.asked and not running)
                    for listener in listeners:
                        listener(self._info(block, rounds, last))
        return True

    def _job(self, block: _Block) -> Job:
        runs, chains = zip(*block.lanes, strict=True)
        roots = self.roots[runs[0]] if self.apart else jnp.stack([self.roots[run] for run in runs])
        attempts = np.full(len(chains), block.attempt, np.uint32)
        call = self.calls[block.number]
        return Job(call, block.number, roots, np.asarray(chains, np.uint32), attempts, block.states)

    def _take(self, block: _Block, result: Result, seconds: float) -> tuple[list[Round], list[_Block]]:
        """Commit what a call left; and the blocks that go on from there."""
        call = self.calls[block.number]
        states, draws = _read_only((result.states, result.draws))
        status = _status(draws, call, len(block.lanes))
        bad = np.zeros(len(block.lanes), bool)
        if call.draws and block.first == 0:  # a chain without a good first draw is begun anew
            bad = status[:, 0] != Status.OK
        share = seconds / (len(block.lanes) * max(1, call.draws))
        rounds = list(self._commit(block, call, states, draws, status, share, ~bad))
        further = []
        good = np.flatnonzero(~bad)
        if good.size and block.number + 1 < len(self.calls):
            lanes = tuple(block.lanes[lane] for lane in good)
            after = block.first + call.draws
            further.append(_Block(lanes, block.number + 1, after, block.attempt, tree.lane(states, good)))
        again = tuple(block.lanes[lane] for lane in np.flatnonzero(bad))
        if again and block.attempt < ATTEMPTS:
            further.append(_Block(again, 0, 0, block.attempt + 1, None))
        elif again:
            for run, chain in again:
                self.stores[run].fail(chain)
        return rounds, further

    def _commit(
        self,
        block: _Block,
        call: Call,
        states: Any,
        draws: Draws,
        status: HostArray,
        seconds: float,
        kept: HostArray,
    ) -> Iterator[Round]:
        """Give each run its part of a block."""
        for run in sorted({run for run, _ in block.lanes}):
            lanes = [lane for lane, (owner, _) in enumerate(block.lanes) if owner == run and kept[lane]]
            if not lanes:
                continue
            whole = len(lanes) == len(block.lanes)
            own_states, own_draws = (states, draws) if whole else tree.lane((states, draws), lanes)
            chains = tuple(block.lanes[lane][1] for lane in lanes)
            round_ = Round(
                chains,
                block.number,
                call.kind,
                block.attempt,
                block.first,
                own_draws,
                status[lanes],
                seconds,
                own_states,
            )
            self.stores[run].commit(round_)
            for chain in chains:
                self.done[run, chain] = block.number + 1
            yield round_

    def _passes_done(self) -> float:
        return float(sum(self.passes[calls] for calls in self.done.values()))

    def _info(self, block: _Block, rounds: list[Round], last: bool) -> RoundInfo:
        members: list[Member] = [
            round_.member(lane, row)
            for round_ in rounds
            for lane in range(len(round_.chains))
            for row in range(round_.size)
        ]
        return RoundInfo(
            plan=self.shown,
            call=self.calls[block.number],
            number=block.number,
            chains=tuple(chain for round_ in rounds for chain in round_.chains),
            members=members,
            members_done=int(sum(self.draws[calls] for calls in self.done.values())),
            passes_done=self._passes_done(),
            seconds=time.perf_counter() - self.began,
            last=last,
        )


def _status(draws: Draws, call: Call, chains: int) -> HostArray:
    """OK where the method says so and all numbers are finite."""
    good = np.asarray(draws.good).reshape(chains, call.draws)
    for leaf in jax.tree.leaves(draws.params) if call.draws else ():
        finite = np.isfinite(np.asarray(leaf, np.float32 if leaf.dtype.itemsize < 4 else None))
        good = good & finite.reshape(chains, call.draws, -1).all(axis=-1)
    return np.where(good, int(Status.OK), int(Status.DIVERGED)).astype(np.int32)


def _read_only(arrays: tuple[Any, Draws]) -> tuple[Any, Draws]:
    """The same arrays, which nobody may change: callbacks, stores and the next call share them."""

    def fixed(leaf: Any) -> Any:
        array = np.asarray(leaf)
        array.flags.writeable = False
        return array

    result: tuple[Any, Draws] = jax.tree.map(fixed, arrays)
    return result


def _failure(failed: tuple[int, ...]) -> str:
    names = ("chain " if len(failed) == 1 else "chains ") + ", ".join(map(str, failed))
    return (
        f"the first training of {names} did not stay finite in {1 + ATTEMPTS} attempts, each from "
        "another initialisation. Lower the optimiser's rate, scale the inputs, or widen the noise."
    )


def _report_end(posterior: Posterior, planned: int) -> None:
    if posterior.diverged:
        warn(
            f"{posterior.diverged} of {len(posterior.infos)} members did not stay finite and are left out of iteration "
            "and prediction, which is a selection; a lower rate in `then` usually mends it",
            DivergedWarning,
        )
    if posterior.failed:
        warn(f"{_failure(posterior.failed)} The other chains went on", FailedChainsWarning)
    if not posterior.complete:
        warn(f"the run was interrupted with {len(posterior.infos)} of {planned} members done", InterruptedWarning)
