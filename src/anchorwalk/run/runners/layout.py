"""The rule for the layout of a run: by problem, chains and kind of device, not by the machine's cores."""

import os
from typing import Any

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.problem import Problem
from anchorwalk.run.runners.base import Layout

WIDEST = 16
"""Chains in the widest block that the rule makes."""
SMALL = 100_000
"""Parameters up to which a network on a CPU may be too small to fill a core by itself."""
LIGHT = 4_000
"""Numbers that such a network's forward pass makes for one row, up to which it is."""


def choose(problem: Problem, chains: int) -> Layout:
    """The layout for a problem.

    On a CPU each program uses one core. Chains of a small network (up to 100,000 parameters, 4,000 numbers in the
    forward pass of a row, no convolution of XLA's own) make at least two blocks of up to 16; chains of other networks
    run by themselves, and a single one may use several cores. On other platforms blocks have up to 16 chains.
    """
    if jax.default_backend() != "cpu":
        return Layout(min(chains, WIDEST), wide=True)
    if chains == 1:
        return Layout(1, wide=True)
    small = problem.size <= SMALL and _light(problem)
    return Layout(min(-(-chains // 2), WIDEST) if small else 1, wide=False)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _light(problem: Problem) -> bool:
    """Whether the network makes few numbers on its way from a row to its outputs, and none by XLA's convolution.

    That one is slow on a CPU under vmap.
    """
    row = jax.eval_shape(lambda x: tree.lane(x, slice(1)), problem.data.x)
    traced = jax.make_jaxpr(problem.apply)(problem.params_like, row)
    return "conv_general_dilated" not in str(traced) and outputs_of(traced.jaxpr) <= LIGHT


def outputs_of(jaxpr: Any) -> int:
    """Numbers that all operations of a program make."""
    total = 0
    for equation in jaxpr.eqns:
        inside = [value for value in equation.params.values() if hasattr(value, "jaxpr") or hasattr(value, "eqns")]
        if inside:
            total += sum(outputs_of(getattr(one, "jaxpr", one)) for one in inside)
        else:
            total += sum(int(np.prod(out.aval.shape)) for out in equation.outvars)
    return total
