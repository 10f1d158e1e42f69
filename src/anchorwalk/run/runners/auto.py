"""The rule that picks a runner."""

import os
import re
from typing import Any

import jax
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.problem import Problem
from anchorwalk.run.runners.base import Runner
from anchorwalk.run.runners.sequential import Sequential
from anchorwalk.run.runners.threaded import Threaded
from anchorwalk.run.runners.vectorized import Vectorized

WIDEST = 16
"""Chains in the widest block that the rule makes."""
SMALL = 100_000
"""Parameters up to which a network on a CPU may be too small to fill a core by itself."""
LIGHT = 4_000
"""Numbers that such a network's forward pass makes for one row, up to which it is."""
MOST_THREADS = 8
"""Chains of a large network at a time: each needs memory for its own activations."""


def choose(problem: Problem, chains: int) -> Runner:
    """The runner for a problem: a documented rule, by platform and shape.

    On a CPU, chains run in threads, a core each. A thread of a small network (up to 100,000 parameters, 4,000 numbers
    in the forward pass of a row, no convolution of XLA's own) has blocks of up to 16 chains, that of others one chain.
    A single chain runs by itself. On other platforms blocks of up to 16 chains run one after the other.
    """
    if chains == 1:
        return Sequential()
    if jax.default_backend() != "cpu":
        return Vectorized(width=min(chains, WIDEST))
    small = problem.size <= SMALL and _light(problem)
    threads = min(cores(), chains, *([] if small else [MOST_THREADS]))
    if threads == 1:
        return Vectorized(width=min(chains, WIDEST)) if small else Sequential()
    return Threaded(threads, min(-(-chains // threads), WIDEST) if small else 1)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def parse(runner: Any, problem: Problem, chains: int, recorded: str | None) -> Runner:
    """A runner from what a user may pass: a name or an object.

    Args:
        runner: What was passed.
        problem: Decides what "auto" means.
        chains: Chains of the plan.
        recorded: How the run that is gone on with was run; its blocks are kept where a name leaves them open.

    Raises:
        InvalidInput: An unknown name, or something that is no runner.
    """
    if not isinstance(runner, str):
        example = '"auto", "sequential", "vectorized" or Vectorized(width=8)'
        checks.instance("runner", runner, Runner, example)
        return runner  # type: ignore[no-any-return]
    checks.choice("runner", runner, ("auto", "sequential", "vectorized"))
    width = re.fullmatch(r"Vectorized\(width=(\d+)\)", recorded or "")
    if width and runner != "sequential":
        return Vectorized(width=int(width.group(1)))
    threaded = re.fullmatch(r"Threaded\(threads=(\d+), lanes=(\d+)\)", recorded or "")
    if threaded and runner == "auto":
        return Threaded(*map(int, threaded.groups()))
    if runner == "sequential" or (runner == "auto" and recorded == repr(Sequential())):
        return Sequential()
    return choose(problem, chains) if runner == "auto" else Vectorized(width=min(chains, WIDEST))


def _light(problem: Problem) -> bool:
    """Whether the network makes few numbers on its way from a row to its outputs, and none by XLA's convolution.

    That one is slow on a CPU under vmap.
    """
    row = jax.eval_shape(lambda x: tree.lane(x, slice(1)), problem.data.x)
    traced = jax.make_jaxpr(problem.apply)(problem.params_like, row)
    return "conv_general_dilated" not in str(traced) and _made(traced.jaxpr) <= LIGHT


def _made(jaxpr: Any) -> int:
    total = 0
    for equation in jaxpr.eqns:
        inside = [value for value in equation.params.values() if hasattr(value, "jaxpr") or hasattr(value, "eqns")]
        if inside:
            total += sum(_made(getattr(one, "jaxpr", one)) for one in inside)
        else:
            total += sum(int(np.prod(out.aval.shape)) for out in equation.outvars)
    return total
