"""The contract of methods."""

import contextlib
import json
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import tree
from anchorwalk.errors import DivergedWarning
from anchorwalk.methods.base import Call, Draws, Keys, Method
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.load import load
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run import programs
from anchorwalk.run.runners import Local
from anchorwalk.run.sample import sample
from anchorwalk.run.store import DiskStore, MemoryStore, Store
from anchorwalk.serial import to_json
from anchorwalk.testing.common import require
from anchorwalk.types import Array, Key

CHAINS, LANES = 3, 2
"""Chains of the runs, in blocks of two lanes, so that the last block is filled up."""
ROUNDING = 1e-3
"""How far the first draws of a vectorised and of a looped run may be apart, of their size."""


def check_method(method: Method, problem: Problem, members: int = 3, key: Key | None = None) -> None:
    """Run the contract of methods on `method`.

    The calls of fewer members must be the first calls of more members, and calls of one kind must make equally many
    draws. A second run with another key, or with other numbers in the method, must compile nothing. Members and states
    must come back from a folder bit for bit, and a run that was ended after any call must resume to the same bits. A
    chain must not depend on its lane, and vectorised chains must agree with looped ones to rounding at their first
    draws. A draw that is not finite must be marked and left out. Costs must add up.

    Args:
        method: A method, registered as a pytree. Its calls should be short: they are carried out some twenty times.
        problem: A small problem that it is meant for.
        members: Members of a chain; 1 for a method that has one member a chain.
        key: For the runs; fixed unless given.

    Raises:
        AssertionError: What the method does wrong.
        InvalidInput: Something that is no method.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones(8), jnp.ones(8)))
        >>> aw.testing.check_method(aw.AE(aw.Training(aw.SGD(0.1), epochs=2, batch_size=8)), problem)
    """
    members = 1 if getattr(method, "one_member", False) else members
    plan = Plan(method, CHAINS, members)
    root = jax.random.key(0) if key is None else key
    require(not jax.tree_util.all_leaves([method]), "a method must be a pytree whose numbers are leaves")
    _check_calls(method, problem, members)
    posterior = _run(root, problem, plan, None)
    _check_draws(posterior, plan)
    _check_programs(root, problem, plan)
    _check_lanes(root, problem, plan, posterior)
    with tempfile.TemporaryDirectory() as folder:
        _check_store(root, problem, plan, posterior, Path(folder))
    _check_bad_draws(root, problem, plan, posterior)
    json.dumps(to_json("method", method), allow_nan=False)


def _run(key: Key, problem: Problem, plan: Plan, store: Any, lanes: int = LANES, callbacks: Any = ()) -> Posterior:
    runner = Local(threads=1, lanes=lanes)
    return sample(key, problem, plan, runner=runner, store=store, callbacks=list(callbacks))


def _check_calls(method: Method, problem: Problem, members: int) -> None:
    prepared = method.prepare(jax.random.key(0), problem)
    require(isinstance(prepared, Problem), "prepare must return a Problem")
    longest = list(method.calls(prepared, members))
    require(all(isinstance(call, Call) for call in longest), "calls must yield Call(kind, draws, passes)")
    require(sum(call.draws for call in longest) >= members, "calls must make as many draws as there are members")
    kinds: dict[str, int] = {}
    for call in longest:
        require(call.draws >= 0 and np.isfinite(call.passes) and call.passes >= 0, f"{call} cannot be")
        same = kinds.setdefault(call.kind, call.draws) == call.draws
        require(same, f"calls of the kind {call.kind!r} must all make equally many draws")
    for fewer in range(1, members):
        part = list(method.calls(prepared, fewer))
        require(part == longest[: len(part)], "calls of fewer members must be the first calls of more members")
    cost = sum(call.passes for call in longest)
    require(Plan(method, CHAINS, members).epochs == CHAINS * cost, "a plan must cost the passes of its calls")


def _check_draws(posterior: Posterior, plan: Plan) -> None:
    require(posterior.complete and not posterior.failed, "all chains must be finished")
    require(len(posterior.infos) == plan.total, f"there must be {plan.total} draws")
    require(len(posterior) == plan.total, "on a problem that suits it all draws must be finite and good")
    different = not np.array_equal(_vector(posterior[0, 0]), _vector(posterior[1, 0]))
    same_by_design = getattr(plan.method, "deterministic", False)
    require(different or same_by_design, "chains must differ: does `start` or `step` use keys.own?")


def _check_programs(key: Key, problem: Problem, plan: Plan) -> None:
    before = programs.compilations()
    _run(jax.random.fold_in(key, 1), problem, plan, None)
    require(programs.compilations() == before, "a run with another key must compile nothing")
    moved = jax.tree.map(lambda leaf: leaf * 1.01 if isinstance(leaf, float) else leaf, plan.method)
    _run(key, problem, Plan(moved, plan.chains, plan.members), None)
    require(
        programs.compilations() == before, "a method with other numbers must compile nothing: are its numbers leaves?"
    )


def _check_lanes(key: Key, problem: Problem, plan: Plan, posterior: Posterior) -> None:
    alone = sample(key, problem, plan, runner=Local(threads=1, lanes=LANES), chains=[CHAINS - 1], callbacks=[])
    for index in range(plan.members):
        equal = np.array_equal(_vector(alone[CHAINS - 1, index]), _vector(posterior[CHAINS - 1, index]))
        require(equal, "a chain must not depend on its lane or its neighbours")
    looped = _run(key, problem, plan, None, lanes=1)
    for chain in range(CHAINS):
        one, other = _vector(posterior[chain, 0]), _vector(looped[chain, 0])
        size = max(1e-6, float(np.abs(other).max()))
        near = float(np.abs(one - other).max()) <= ROUNDING * size
        require(near, "vectorised chains must agree with looped ones to rounding at their first draws")


class _Ended(Exception):
    pass


def _check_store(key: Key, problem: Problem, plan: Plan, posterior: Posterior, folder: Path) -> None:
    calls = len(list(plan.method.calls(_prepared(plan.method, problem), plan.members)))
    for last in range(calls):
        place = folder / f"ended-{last}"

        def end(round_info: Any, last: int = last) -> None:
            if round_info.number == last:
                raise _Ended

        with contextlib.suppress(_Ended):
            _run(key, problem, plan, place, callbacks=[end])
        store = DiskStore(place)
        resumed = _run(key, problem, plan, store)
        _require_same(resumed, posterior, f"a run that was ended after call {last} must resume to the same bits")
        if last == calls - 1:
            _require_same(
                load(place, problem.apply, problem.init, likelihood=problem.likelihood),
                posterior,
                "members must come back from a folder bit for bit",
            )
            _check_states(key, problem, plan, store)


def _check_states(key: Key, problem: Problem, plan: Plan, store: Store) -> None:
    memory = MemoryStore()
    _run(key, problem, plan, memory)
    for chain in range(CHAINS):
        pairs = zip(jax.tree.leaves(store.state(chain)), jax.tree.leaves(memory.state(chain)), strict=True)
        same = all(np.array_equal(np.asarray(a), np.asarray(b), equal_nan=True) for a, b in pairs)
        require(same, "states must come back from a folder bit for bit")


def _prepared(method: Method, problem: Problem) -> Problem:
    """The problem as a method uses it."""
    return method.prepare(jax.random.key(0), problem)


def _require_same(one: Posterior, other: Posterior, message: str) -> None:
    require([info[:3] for info in one.infos] == [info[:3] for info in other.infos], message)
    for a, b in zip(one, other, strict=True):
        same = np.array_equal(_vector(a), _vector(b)) and np.array_equal(a.trace, b.trace, equal_nan=True)
        values = all(np.array_equal(a.info.value(n), b.info.value(n), equal_nan=True) for n in b.info.values)
        require(same and values, message)


@tree.node()
@dataclass(frozen=True)
class _Broken:
    """A method whose last draw is not finite."""

    method: Any
    last: Any

    def prepare(self, key: Key, problem: Problem) -> Problem:
        return self.method.prepare(key, problem)  # type: ignore[no-any-return]

    def calls(self, problem: Problem | None, members: int) -> Any:
        return self.method.calls(problem, members)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Any:
        return self.method.start(keys, problem, attempt)

    def step(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        state, draws = self.method.step(keys, problem, state, call, number)
        broken = jax.tree.map(lambda leaf: jnp.where(number == self.last, jnp.nan, leaf), draws.params)
        return state, draws._replace(params=broken)


def _check_bad_draws(key: Key, problem: Problem, plan: Plan, posterior: Posterior) -> None:
    calls = list(plan.method.calls(_prepared(plan.method, problem), plan.members))
    last = len(calls) - 1
    first = sum(call.draws for call in calls[:last])
    if first == 0:  # the only call with draws: a chain without a good draw fails as a whole
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DivergedWarning)
        found = _run(key, problem, Plan(_Broken(plan.method, np.int32(last)), CHAINS, plan.members), None)
    bad = CHAINS * (plan.members - first)
    require(found.diverged == bad, "a draw that is not finite must be marked")
    require(len(found) == plan.total - bad, "a draw that is not finite must be left out")


def _vector(member: Any) -> Any:
    return np.concatenate([np.ravel(np.asarray(leaf)) for leaf in jax.tree.leaves(member.params)])
