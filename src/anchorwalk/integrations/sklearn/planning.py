"""How an estimator's parameters and the size of its data become a plan."""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.methods.ae import AE
from anchorwalk.methods.deep_ensemble import DeepEnsemble
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Adam
from anchorwalk.plan.plan import Plan
from anchorwalk.plan.planner import Planned, plan_for
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem
from anchorwalk.types import Key
from anchorwalk.walks import GuidedWalk

METHODS = {"sae": SAE, "ae": AE, "deep_ensemble": DeepEnsemble}
BATCHES, FEWEST_ROWS, MOST_ROWS = 100, 16, 128
"""Batches in an epoch, where their rows are within these bounds."""
STEPS, STEPS_A_ROW, MOST_STEPS, FEWEST_EPOCHS, MOST_EPOCHS = 100_000, 20, 400_000, 100, 4000
"""Steps of a budget that the data's size decides, and bounds of its epochs."""
CHAINS, MEMBERS = 8, 4
"""Chains of a sequential ensemble, and members of each."""
RATE = 1e-2
END = 0.01
"""The last rate of a training, as a share of its first."""
MEAN_FIRST = 0.5
"""Share of a training in which the mean learns as if the noise were even, where it varies."""


def batch_rows(given: Any, n: int) -> int:
    """Rows in a minibatch at most: as given, clipped to the data's room, or for about a hundred in an epoch."""
    if given == "auto":
        return min(n, int(np.clip(n // BATCHES, FEWEST_ROWS, MOST_ROWS)))
    return min(checks.count("batch_size", given), n)


def epochs(budget: Any, rows: int, batch_size: int) -> int:
    """A budget in epochs: as given, or as many as give a number of steps."""
    if isinstance(budget, str):
        checks.choice("budget", budget, ("auto",))
        steps = min(STEPS + STEPS_A_ROW * rows, MOST_STEPS)
        return int(np.clip(steps // -(-rows // batch_size), FEWEST_EPOCHS, MOST_EPOCHS))
    return checks.count("budget", budget)


def planned(key: Key, problem: Problem, priors: Sequence[Prior], estimator: Any, varies: bool) -> Planned:
    """The plan for an estimator's parameters.

    Args:
        key: Of the trials.
        problem: With the first of the priors.
        priors: Those to choose from.
        estimator: Has the parameters.
        varies: Whether the noise varies, so that the mean is learned first.
    """
    batch_size = batch_rows(estimator.batch_size, problem.data.room)
    rate = estimator.learning_rate
    if rate is not None:
        rate = checks.positive("learning_rate", rate)
    elif estimator.network is None:
        rate = RATE
    sequential = estimator.method == "sae"
    return plan_for(
        key,
        problem,
        epochs(estimator.budget, problem.n, batch_size),
        optimizer=Adam if rate is None else Adam(rate, end_rate=rate * END),
        batch_size=min(batch_size, problem.n),
        walk=None if estimator.step_size is None else GuidedWalk(step_size=estimator.step_size),
        method=METHODS[checks.choice("method", estimator.method, tuple(METHODS))],
        chains=CHAINS if estimator.chains is None and sequential else estimator.chains,
        members=MEMBERS if sequential else None,
        perturb_targets=estimator._perturbs(),
        mean_first=MEAN_FIRST if varies else None,
        keep="best" if estimator.early_stopping else "last",
        priors=priors[1:],
        shift_start=False,
        runner=estimator.runner,
    )


def grown(plan: Plan, budget: Any) -> Plan:
    """The same method with as many members as a larger budget holds; never fewer than there are."""
    budget = int(plan.epochs) if budget == "auto" else checks.count("budget", budget)
    chains = None if getattr(plan.method, "one_member", False) else plan.chains
    more = Plan.from_budget(max(budget, int(plan.epochs)), plan.method, chains)
    return replace(plan, chains=max(plan.chains, more.chains), members=max(plan.members, more.members))


def until(seconds: float, plan: Plan, run: Callable[[Plan], Posterior]) -> Posterior:
    """Run a plan's first trainings, whatever they take, and then more of it until about so many seconds are over."""
    checks.positive("seconds", seconds)
    began = time.perf_counter()
    walks = not getattr(plan.method, "one_member", False)
    more = 1 if walks else plan.chains
    plan = replace(plan, members=1)
    found = run(plan)
    if time.perf_counter() - began >= seconds:
        return found
    while more and found.complete:  # else it was interrupted
        before = time.perf_counter()
        plan = replace(plan, chains=plan.chains + more * (not walks), members=plan.members + more * walks)
        found = run(plan)
        now = time.perf_counter()
        fitting = int((seconds - (now - began)) * more / (now - before))
        more = max(0, min(fitting, 2 * more))  # the first time is long, by compilation: believe it in small steps
    return found
