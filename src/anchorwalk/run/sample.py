"""The one call: chains of anchors, trained round by round (paper, Algorithms 1 and 2)."""

import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.errors import DivergedWarning, InterruptedWarning, Status, TrainingFailed, warn
from anchorwalk.likelihoods import NormalLikelihood
from anchorwalk.methods.base import ChainState, Member
from anchorwalk.methods.chain import Options, Recipe, state_like
from anchorwalk.plan.plan import Plan, prepare_problem
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback, Progress, RoundInfo, RunCallback
from anchorwalk.run.interrupt import Interrupt
from anchorwalk.run.keys import Stream
from anchorwalk.run.programs import keep_programs, make_room
from anchorwalk.run.runners import Lanes, Runner, parse
from anchorwalk.run.store import DiskStore, MemoryStore, Round, Store, fingerprint, member_at, serialise
from anchorwalk.types import Key
from anchorwalk.walks import DEFAULT_WALK, validate_walk
from anchorwalk.walks.base import Walk

ATTEMPTS = 3
"""How often a chain whose first training diverged is initialised anew."""


def sample(
    key: Key,
    problem: Problem,
    plan: Plan,
    walk: Walk | None = None,
    runner: str | Runner = "auto",
    store: Store | str | PathLike[str] | None = None,
    callbacks: Sequence[Callback] | None = None,
    perturb_targets: bool = False,
    chains: Collection[int] | None = None,
) -> Posterior:
    """Approximate samples of the posterior: `plan.chains` chains of `plan.members` networks each.

    Python loops over rounds; a round trains the next member of a block of chains as one compiled program. Ctrl-C
    ends the run after the round, with the members so far.

    Args:
        key: `jax.random.key(...)`; all randomness comes from it.
        problem: Network, likelihood, prior and data.
        plan: Chains, members and trainings.
        walk: How the anchors walk through the prior; `GuidedWalk(step_size=0.1)` unless given.
        runner: "auto", "sequential", "vectorized", or a runner such as `Threaded(threads=4, lanes=8)`.
        store: Where members go: a folder, in which each round is safe as soon as it is finished and in which the same
            call goes on after a kill; a store; or None for memory.
        callbacks: Called after each round; None shows a progress bar, `[]` nothing.
        perturb_targets: For normal likelihoods: whether each member's targets are moved by a draw of the
            likelihood's noise that walks with its anchor. The paper has none; on a linear model it
            makes the members exact posterior samples.
        chains: Which of the plan's chains to run here, from 0; None runs all. Folders that hold different chains
            of one plan, run in different places, are put together by `anchorwalk merge`.

    Returns:
        The members, in the order (chain, member).

    Raises:
        InvalidInput: Arguments that do not fit together, before any work starts.
        TrainingFailed: A chain whose first training diverged four times.
        StoreDamaged: A stored run with a file that is not whole.
        StoreFailed: A round that could not be written; those before it are safe.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> plan = aw.Plan(chains=2, members=3, first=aw.Training(aw.SGD(0.5), epochs=50, batch_size=32),
        ...                then=aw.Training(aw.SGD(0.5), epochs=10, batch_size=32))
        >>> posterior = aw.sample(jax.random.key(0), problem, plan, callbacks=[])
        >>> len(posterior), posterior.predict(x).mean.shape
        (6, (32,))
    """
    checks.key("key", key)
    problem = prepare_problem(jax.random.fold_in(key, Stream.HOLD_BACK), problem, plan)
    walk = validate_walk(DEFAULT_WALK if walk is None else walk)
    if perturb_targets and not isinstance(problem.likelihood, NormalLikelihood):
        given = f"True with {type(problem.likelihood).__name__}()"
        checks.reject("perturb_targets", given, "a normal likelihood", "Set perturb_targets=False.")
    listeners = _check_callbacks(callbacks)
    keep_programs()
    make_room()
    place = _open(store)
    selected = _check_chains(chains, plan)
    runner = parse(runner, problem, plan.chains, place.header().get("runner"))
    settings = _settings(key, problem, plan, walk, runner, perturb_targets)
    options = Options(plan.shared_order, perturb_targets)
    place.begin(settings, state_like(problem, walk, options), _about(key, problem, plan, walk, selected))
    try:
        complete = _Run(key, problem, plan, walk, runner, place, options, selected).go(listeners)
    finally:
        place.end()
    infos = tuple(i for i in place.infos() if i.chain < plan.chains and i.index < plan.members)  # type: ignore[operator]
    posterior = Posterior(place, problem.apply, problem.likelihood, infos, settings, complete)
    _report_end(posterior, len(selected) * plan.members)
    return posterior


def _settings(
    key: Key, problem: Problem, plan: Plan, walk: Walk, runner: Runner, perturb_targets: bool
) -> dict[str, str]:
    """All that must be equal for a run to go on, as text; a plan may grow, so its counts are not in it."""
    settings = {
        "key": fingerprint.of_key(key),
        "network": fingerprint.of_network(problem),
        "data": fingerprint.of_tree((problem.data, problem.validation)),
        "prior": fingerprint.of_tree(problem.prior),
        "likelihood": fingerprint.of_settings(problem.likelihood),
        "walk": fingerprint.of_settings(walk),
        "first": fingerprint.of_training(plan.first, problem.params_like),
        "shared_order": str(plan.shared_order),
        "perturb_targets": str(perturb_targets),
        "runner": repr(runner),
        "convolution": fingerprint.of_convolution(problem),
    }
    if plan.members > 1 and plan.then is not None:  # else it is still open how a chain goes on
        settings["then"] = fingerprint.of_training(plan.then, problem.params_like)
    return settings


def _about(key: Key, problem: Problem, plan: Plan, walk: Walk, selected: Sequence[int]) -> dict[str, Any]:
    """What a later reader of the run needs or wants to know, as JSON."""
    return {
        "plan": {**plan.to_json(), "selected": list(selected)},
        "key": {"implementation": str(jax.random.key_impl(key)), "data": np.asarray(jax.random.key_data(key)).tolist()},
        "walk": repr(walk),
        "prior": serialise.prior_to_json(problem.prior),
        "likelihood": serialise.likelihood_to_json(problem.likelihood),
        "inputs": serialise.inputs_to_json(problem.data.x),
        "rows": int(np.count_nonzero(np.asarray(problem.data.weights))),  # estimators add some without weight
    }


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


class _Run:
    """The loop over rounds and blocks, and what it must remember."""

    def __init__(
        self,
        key: Key,
        problem: Problem,
        plan: Plan,
        walk: Walk,
        runner: Runner,
        store: Store,
        options: Options,
        selected: Sequence[int],
    ) -> None:
        self.key, self.problem, self.plan, self.walk = key, problem, plan, walk
        self.runner, self.store, self.options = runner, store, options
        done = store.done()
        self.done = {chain: min(done.get(chain, 0), plan.members) for chain in selected}
        self.shown = replace(plan, chains=len(selected))
        self.states: dict[tuple[int, ...], ChainState] = {}

    @property
    def epochs_done(self) -> int:
        later = self.plan.then.epochs if self.plan.then is not None else 0
        return sum(self.plan.first.epochs + (done - 1) * later for done in self.done.values() if done)

    def go(self, listeners: Sequence[Callback]) -> bool:
        """Run what is left of the plan; False if it was interrupted."""
        whole_run = [listener for listener in listeners if isinstance(listener, RunCallback)]
        started = []
        try:
            for listener in whole_run:
                listener.start(self.shown, self.epochs_done)
                started.append(listener)
            return self._rounds(listeners)
        finally:
            for listener in started:
                listener.end()

    def _rounds(self, listeners: Sequence[Callback]) -> bool:
        began = time.perf_counter()
        with Interrupt() as interrupt:
            for index in range(self.plan.members):
                pending = [chain for chain, done in self.done.items() if done == index]
                for start in range(0, len(pending), self.runner.width):
                    block = tuple(pending[start : start + self.runner.width])
                    members = self._round(block, index)
                    finished = min(self.done.values()) >= self.plan.members
                    round_info = RoundInfo(
                        plan=self.shown,
                        chains=block,
                        index=index,
                        members=members,
                        members_done=sum(self.done.values()),
                        epochs_done=self.epochs_done,
                        seconds=time.perf_counter() - began,
                        last=finished or interrupt.asked,
                    )
                    for listener in listeners:
                        listener(round_info)
                    if round_info.last or interrupt.asked:
                        return finished
        return True

    def _round(self, block: tuple[int, ...], index: int) -> list[Member]:
        """Train, commit and return the next member of each chain of a block."""
        began = time.perf_counter()
        chains: Lanes = np.asarray(block, np.uint32)
        if index == 0:
            states, members = self._start(chains)
        else:
            previous = self.states.pop(block, None)
            if previous is None:
                previous = tree.stack([self.store.state(chain) for chain in block])
            recipe = Recipe(self.problem, self.walk, self.plan.training(index))
            states, members = self.runner.step(self.key, recipe, self.options, chains, index, previous)
        self.states[block] = states
        host_states, host_members = tree.lane(jax.device_get((states, members)), slice(len(block)))
        seconds = np.full(len(block), (time.perf_counter() - began) / len(block))
        host_members = host_members._replace(info=host_members.info._replace(seconds=seconds))
        self.store.commit(Round(block, index, host_members, host_states))
        for chain in block:
            self.done[chain] = index + 1
        return [member_at(host_members, lane) for lane in range(len(block))]

    def _start(self, chains: Lanes) -> tuple[ChainState, Member]:
        """The first members; a chain whose training diverges is initialised anew, its anchor kept."""
        recipe = Recipe(self.problem, self.walk, self.plan.first)
        attempts: Lanes = np.zeros_like(chains)
        while True:
            states, members = self.runner.start(self.key, recipe, self.options, chains, attempts)
            # A chain is trained alike whatever its neighbours' attempts: those that were good stay as they are.
            failed = np.asarray(members.info.status)[: len(chains)] != Status.OK
            if not failed.any():
                return states, members
            if np.max(attempts) >= ATTEMPTS:
                names = ("chain " if failed.sum() == 1 else "chains ") + ", ".join(str(c) for c in chains[failed])
                raise TrainingFailed(
                    f"the first training of {names} did not stay finite in {1 + ATTEMPTS} attempts, each from "
                    "another initialisation. Lower the optimiser's rate, scale the inputs, or widen the noise."
                )
            attempts = attempts + failed.astype(np.uint32)


def _report_end(posterior: Posterior, planned: int) -> None:
    if posterior.diverged:
        warn(
            f"{posterior.diverged} of {len(posterior.infos)} members did not stay finite and are left out of iteration "
            "and prediction, which is a selection; a lower rate in `then` usually mends it",
            DivergedWarning,
        )
    if not posterior.complete:
        warn(f"the run was interrupted with {len(posterior.infos)} of {planned} members done", InterruptedWarning)
