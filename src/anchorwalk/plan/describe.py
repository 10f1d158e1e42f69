"""What a plan will cost and what its anchors are worth, before anything runs."""

from dataclasses import dataclass

import jax

from anchorwalk import tree
from anchorwalk.plan.plan import Plan, prepare_problem
from anchorwalk.problem import Problem
from anchorwalk.walks import DEFAULT_WALK, diagnostics, validate_walk
from anchorwalk.walks.base import Walk


@dataclass(frozen=True)
class Description:
    """What `describe` tells; printed, it is a short table.

    Attributes:
        parameters: Parameters of one network.
        rows: Training rows.
        chains: Chains of the plan.
        members: Members over all chains.
        epochs: Epochs over all chains.
        steps: Optimiser steps over all chains.
        effective_anchors: Effective number of independent anchors; see `walks.diagnostics.summarize`.
        acceptance: Mean share of the walk's proposals that are accepted.
        span: Mean share of the prior's mass that one chain's anchors reach over.
        bytes: Size of all members' parameters.
    """

    parameters: int
    rows: int
    chains: int
    members: int
    epochs: int
    steps: int
    effective_anchors: float
    acceptance: float
    span: float
    bytes: int

    def __str__(self) -> str:
        lines = {
            "network": f"{self.parameters:,} parameters, {self.rows:,} rows",
            "members": f"{self.members:,} ({self.chains:,} chains x {self.members // self.chains:,})",
            "epochs": f"{self.epochs:,} ({self.steps:,} steps)",
            "anchors": f"worth about {self.effective_anchors:,.0f} independent ones",
            "walk": f"acceptance {self.acceptance:.0%}, one chain reaches over {self.span:.0%} of the prior",
            "size": _readable(self.bytes),
        }
        return "\n".join(f"{name:<8} {text}" for name, text in lines.items())


def describe(problem: Problem, plan: Plan, walk: Walk | None = None) -> Description:
    """Members, epochs, effective anchors and bytes of a plan, without training anything.

    Args:
        problem: What to fit.
        plan: Chains, members and trainings.
        walk: How the anchors walk; `GuidedWalk(step_size=0.1)` unless given, as in `sample`.

    Raises:
        InvalidInput: What `sample` would refuse.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(3), lambda w, x: x @ w, aw.Normal(scale=0.1),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones((64, 3)), jnp.ones(64)))
        >>> long = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
        >>> short = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=32)
        >>> plan = aw.Plan.from_budget(1000, chains=2, first=long, then=short)
        >>> print(aw.describe(problem, plan, aw.Independent()).members)
        402
    """
    problem = prepare_problem(jax.random.key(0), problem, plan)
    walk = validate_walk(DEFAULT_WALK if walk is None else walk)
    summary = diagnostics.summarize(walk, plan.members, plan.chains)
    like = problem.params_like
    later = 0 if plan.then is None else (plan.members - 1) * plan.then.steps(problem.n)
    return Description(
        parameters=tree.size(like),
        rows=problem.n,
        chains=plan.chains,
        members=plan.total,
        epochs=plan.epochs,
        steps=plan.chains * (plan.first.steps(problem.n) + later),
        effective_anchors=summary.effective_anchors,
        acceptance=summary.acceptance,
        span=summary.span,
        bytes=plan.total * tree.nbytes(like),
    )


def _readable(number: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
