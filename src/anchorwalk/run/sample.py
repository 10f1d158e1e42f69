"""`sample`: a plan's chains, call by call, until each has its members (paper, Algorithms 1 and 2)."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from itertools import groupby
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import (
    DivergedWarning,
    FailedChainsWarning,
    InterruptedWarning,
    LostChainsWarning,
    TrainingFailed,
    WorkerLost,
    warn,
)
from anchorwalk.methods.base import Call, Keys, Method
from anchorwalk.plan.plan import Plan, check_run
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Callback, Progress
from anchorwalk.run.keys import Stream, keys_of
from anchorwalk.run.loop import ATTEMPTS, Loop
from anchorwalk.run.machine import of_machine
from anchorwalk.run.programs import wide_floats
from anchorwalk.run.runners import Layout, Local, Runner
from anchorwalk.run.runners.devices import default
from anchorwalk.run.runners.layout import cores
from anchorwalk.run.store import DiskStore, Like, MemoryStore, Store, fingerprint, serialise
from anchorwalk.serial import to_json
from anchorwalk.types import Key


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

    Ctrl-C ends the run after the calls under way, with the members so far.

    Args:
        key: `jax.random.key(...)`; all randomness comes from it.
        problem: Network, likelihood, prior and data.
        plan: A method, chains and members.
        runner: Where chains are trained: "auto" for this machine, `Local(threads=4, lanes=8)`, `Devices(...)`,
            `Ray(...)` for a cluster, or your own.
        store: Where members go: a folder, where finished calls are safe and the same `sample` resumes after a kill; a
            store; or None for memory.
        callbacks: Called after each call; None shows a progress bar, `[]` nothing.
        chains: Which of the plan's chains to run, from 0; None runs all. Folders that hold different chains
            of one plan, run in different places, are put together by `anchorwalk merge`.

    Returns:
        The members, in the order (chain, member).

    Raises:
        InvalidInput: Arguments that do not fit together, before any work starts.
        TrainingFailed: All chains failed: none had a good first draw in four attempts.
        WorkerLost: No chain has a member, since workers elsewhere died again and again.
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
    checks.outside("sample", key, problem, plan)
    checks.key("key", key)
    (posterior,) = _runs([key], problem, plan, runner, [store], callbacks, chains)
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
    checks.outside("sample_many", keys, problem, plan)
    roots = list(keys)
    for key in roots:
        checks.key("keys", key)
    given = [None] * len(roots) if stores is None else list(stores)
    if not roots or len(given) != len(roots):
        checks.reject("stores", f"{len(given)} for {len(roots)} keys", "one for each key", "Pass as many, or None.")
    return _runs(roots, problem, plan, runner, given, callbacks, None)


def _runs(
    roots: list[Key], problem: Any, plan: Any, runner: Any, stores: Sequence[Any], callbacks: Any, chains: Any
) -> list[Posterior]:
    """Check all arguments; then runs side by side, or one by one where each has data of its own, as rows held back."""
    check_run(problem, plan)
    if problem.data.streamed and not getattr(plan.method, "streams", False):
        given = f"{type(plan.method).__name__} on rows that are read while a run trains"
        expected = "rows in memory, or SAE, AE, DeepEnsemble or MAP"
        checks.reject("data", given, expected, "Pass arrays as data=.")
    opened, selected = [_open(store) for store in stores], _check_chains(chains, plan)
    if isinstance(runner, str):
        checks.choice("runner", runner, ("auto",))
        runner = Local() if problem.data.streamed else default()
    checks.instance("runner", runner, Runner, '"auto" or Local(threads=2, lanes=8)')
    listeners = [Progress()] if callbacks is None else callbacks
    if not (isinstance(listeners, list | tuple) and all(callable(one) for one in listeners)):
        checks.reject("callbacks", repr(callbacks), "a list of functions", "Pass [Progress()], or [] for none.")
    prepared = [plan.method.prepare(jax.random.fold_in(root, Stream.PREPARE), problem) for root in roots]
    if all(one is problem for one in prepared):
        return _sample(roots, opened, problem, problem, plan, runner, listeners, selected)
    each = zip(roots, opened, prepared, strict=True)
    return [_sample([root], [store], problem, own, plan, runner, listeners, selected)[0] for root, store, own in each]


def _sample(
    roots: list[Key],
    stores: list[Store],
    given: Problem,
    problem: Problem,
    plan: Plan,
    runner: Runner,
    listeners: Sequence[Callback],
    selected: list[int],
) -> list[Posterior]:
    """Runs that share everything but their keys and stores, of a problem as it was given and as it was prepared."""
    calls = list(plan.method.calls(problem, plan.members))
    passes = plan.chains * sum(call.passes for call in calls)
    stored = stores[0].about().get("layout")
    recorded = Layout(**stored) if isinstance(stored, dict) else None
    layout = runner.layout(problem, plan.chains * len(roots), passes, recorded)
    with jax.enable_x64(wide_floats(problem)):
        keys = keys_of(roots[0], 0, 0)
        state = jax.eval_shape(lambda: plan.method.start(keys, problem, jnp.uint32(0)))
    like = Like(given.params_like, state)
    now = of_machine(cores() if layout.wide else 1)
    with ExitStack() as open_now:
        for root, store in zip(roots, stores, strict=True):
            header, about = _described(root, given, problem, plan, layout, calls, selected)
            store.begin(header, like, about, now)
            open_now.callback(store.end)
        session = open_now.enter_context(runner.open(plan.method, problem, layout, len(selected) * len(roots)))
        apart = len(roots) == 1 or _shares(roots[0], plan.method, problem, calls)
        loop = Loop(roots, plan, calls, session, layout, stores, selected, apart, like)
        ended = loop.go(listeners)
    complete = ended and not loop.lost
    posteriors = []
    for store in stores:
        infos = tuple(i for i in store.infos() if i.chain < plan.chains and i.index < plan.members)
        failed = tuple(chain for chain in store.failed() if chain in selected)
        posteriors.append(Posterior(store, given.apply, given.likelihood, infos, store.header(), complete, failed))
    if complete and not any(map(len, posteriors)) and all(posterior.failed for posterior in posteriors):
        raise TrainingFailed(_failure(posteriors[0].failed))
    if loop.lost and not any(map(len, posteriors)):
        raise next(iter(loop.lost.values()))
    for posterior in posteriors:
        _report_end(posterior, len(selected) * plan.members, ended, loop.lost)
    return posteriors


def _described(
    root: Key, given: Problem, problem: Problem, plan: Plan, layout: Layout, calls: list[Call], selected: list[int]
) -> tuple[dict[str, str], dict[str, Any]]:
    """What must be equal for a run to resume, as text (a plan's counts may grow); what a reader wants, as JSON."""
    key = {"implementation": str(jax.random.key_impl(root)), "data": np.asarray(jax.random.key_data(root)).tolist()}
    title = str(getattr(plan.method, "title", type(plan.method).__name__))
    header = {
        "key": f"{key['implementation']}:{key['data']}",
        "network": fingerprint.of_network(given),
        "prior": fingerprint.of_tree(given.prior),
        "likelihood": fingerprint.of_settings(given.likelihood),
        **fingerprint.of_method(plan.method, given),
        "lanes": str(layout.lanes),
        "cores": "several" if layout.wide else "one",
        "compiled": "quickly" if layout.quick else "well",
        "convolution": fingerprint.of_convolution(given),
        "data": fingerprint.of_tree((problem.data, problem.validation)),
    }
    about = {
        "plan": {
            "chains": plan.chains,
            "members": plan.members,
            "selected": selected,
            "calls": [[one.kind, one.draws, one.passes, len(list(same))] for one, same in groupby(calls)],
        },
        "layout": layout._asdict(),
        "method": {**to_json("method", plan.method), "title": title},
        "key": key,
        "prior": serialise.prior_to_json(given.prior),
        "likelihood": serialise.likelihood_to_json(given.likelihood),
        "inputs": serialise.inputs_to_json(given.data.x),
        "rows": given.data.used,
    }
    return header, about


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


def _open(store: Any) -> Store:
    if store is None:
        return MemoryStore()
    if isinstance(store, str | PathLike):
        return DiskStore(store)
    checks.instance("store", store, Store, 'a folder such as "runs/mine", or None')
    return store  # type: ignore[no-any-return]


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


def _chains(numbers: Sequence[int]) -> str:
    return ("chain " if len(numbers) == 1 else "chains ") + ", ".join(map(str, numbers))


def _failure(failed: tuple[int, ...]) -> str:
    return (
        f"the first training of {_chains(failed)} did not stay finite in {1 + ATTEMPTS} attempts, each from "
        "another initialisation. Lower the optimiser's rate, scale the inputs, or widen the noise."
    )


def _report_end(posterior: Posterior, planned: int, ended: bool, lost: Mapping[tuple[int, int], WorkerLost]) -> None:
    if posterior.diverged:
        warn(
            f"{posterior.diverged} of {len(posterior.infos)} members did not stay finite and are left out of iteration "
            "and prediction, which is a selection; a lower rate in `then` usually mends it",
            DivergedWarning,
        )
    if posterior.failed:
        warn(f"{_failure(posterior.failed)} The other chains continued", FailedChainsWarning)
    if lost:
        warn(
            f"{_chains(sorted({chain for _, chain in lost}))} given up: {next(iter(lost.values()))}. "
            "The others continued, and the same call of sample resumes these from their last finished calls",
            LostChainsWarning,
        )
    if not ended:
        warn(f"the run was interrupted with {len(posterior.infos)} of {planned} members done", InterruptedWarning)
