"""The rule that picks a runner."""

import re
from typing import Any

import jax

from anchorwalk import checks
from anchorwalk.ensembles.runners.base import Runner
from anchorwalk.ensembles.runners.sequential import Sequential
from anchorwalk.ensembles.runners.vectorized import Vectorized
from anchorwalk.problem import Problem

WIDEST = 16
"""Chains in the widest block that the rule makes."""
SMALL = 100_000
"""Parameters up to which a network on a CPU is too small to fill the machine by itself."""


def choose(problem: Problem, chains: int) -> Runner:
    """The runner for a problem: a documented rule, by platform and shape.

    On a CPU, networks with convolutions (which are slow there under vmap) and networks of more than
    100,000 parameters run one chain after the other; all others, and everything on other platforms, in
    blocks of up to 16 chains. A single chain is never vectorised.
    """
    on_cpu = jax.default_backend() == "cpu"
    if chains == 1 or (on_cpu and (problem.size > SMALL or _convolves(problem))):
        return Sequential()
    return Vectorized(width=min(chains, WIDEST))


def parse(runner: Any, problem: Problem, chains: int, recorded: str | None) -> Runner:
    """A runner from what a user may pass: a name or an object.

    Args:
        runner: What was passed.
        problem: Decides what "auto" means.
        chains: Chains of the plan.
        recorded: How the run that is gone on with was run; its block width is kept where a name leaves it open.

    Raises:
        InvalidInput: An unknown name, or something that is no runner.
    """
    if not isinstance(runner, str):
        checks.instance("runner", runner, Runner, '"auto", "sequential", "vectorized" or Vectorized(width=8)')
        return runner  # type: ignore[no-any-return]
    checks.choice("runner", runner, ("auto", "sequential", "vectorized"))
    width = re.fullmatch(r"Vectorized\(width=(\d+)\)", recorded or "")
    if width and runner != "sequential":
        return Vectorized(width=int(width.group(1)))
    if runner == "sequential" or (runner == "auto" and recorded == repr(Sequential())):
        return Sequential()
    return choose(problem, chains) if runner == "auto" else Vectorized(width=min(chains, WIDEST))


def _convolves(problem: Problem) -> bool:
    jaxpr = jax.make_jaxpr(problem.apply)(problem.params_like, problem.data.x)
    return "conv_general_dilated" in str(jaxpr)
