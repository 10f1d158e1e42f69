"""Defaults for batches, trainings and a plan from a budget."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from anchorwalk import checks
from anchorwalk.methods.ae import AE
from anchorwalk.methods.deep_ensemble import DeepEnsemble
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Adam, Training
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.walks import GuidedWalk

METHODS = ("sae", "ae", "deep_ensemble")
CHAINS = 4
"""Chains of a sequential ensemble."""
FIRST_SHARE = 0.8
"""Share of the budget for the first trainings of a sequential ensemble: later members start from what they find."""
LATER = 50
"""A later training has so many times fewer epochs than the budget of its chain."""
MEMBERS = 10
"""Members of an ensemble without walks."""
MOST_ROWS = 128
BATCHES = 8
"""Batches in an epoch, at least, where there are as many rows."""
RATE, LATER_RATE, OWN_RATE = 1e-2, 3e-3, 1e-3
END = 0.01
"""The last rate of a training, as a share of its first."""


def batch_rows(given: Any, n: int) -> int:
    """Rows in a minibatch at most: as given, clipped to the data's room, or so many that an epoch has about eight."""
    if given == "auto":
        return int(np.clip(n // BATCHES, min(8, n), MOST_ROWS))
    return min(checks.count("batch_size", given), n)


def default_plan(
    method: str,
    budget: int,
    chains: int | None,
    batch_size: int,
    rate: float | None,
    own: bool,
    step_size: float,
    perturbs: bool,
    keep: Literal["last", "best"] = "last",
) -> Plan:
    """A plan for a budget of epochs over all chains."""
    checks.choice("method", method, METHODS)
    budget = checks.count("budget", budget)
    rate = None if rate is None else checks.positive("learning_rate", rate)
    rates = (OWN_RATE, OWN_RATE) if own else (RATE, LATER_RATE)
    first_rate, later_rate = rates if rate is None else (rate, rate * rates[1] / rates[0])

    def training(rate: float, epochs: int) -> Training:
        return Training(Adam(rate, end_rate=rate * END), epochs, batch_size, keep)

    if method != "sae":
        members = min(MEMBERS if chains is None else checks.count("chains", chains), budget)
        scratch = training(first_rate, budget // members)
        return Plan(AE(scratch, perturbs) if method == "ae" else DeepEnsemble(scratch), members)
    chains = min(CHAINS if chains is None else checks.count("chains", chains), budget)
    first = training(first_rate, max(1, round(FIRST_SHARE * budget / chains)))
    then = training(later_rate, max(1, round(budget / chains / LATER)))
    return Plan.from_budget(budget, SAE(first, then, GuidedWalk(step_size=step_size), perturbs), chains)


def grown(plan: Plan, budget: int) -> Plan:
    """The same method with as many members as a larger budget holds; never fewer than there are."""
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
