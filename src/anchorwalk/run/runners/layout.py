"""The rule for the layout of a run: by problem, chains and kind of device, not by the machine's cores."""

import math
import os
from typing import Any, NamedTuple

import jax

from anchorwalk.problem import Problem
from anchorwalk.run.runners.base import Layout

WIDEST = 16  # chains in the widest block that the rule makes
SMALL = 100_000  # parameters up to which a network on a CPU may be too small to fill a core by itself
LIGHT = 4_000  # numbers that such a network's forward pass makes for one row, up to which it is
SHORT = 2e10  # products, or numbers made, in all forward passes of a run that is shorter than compiling well


def choose(problem: Problem, chains: int, passes: float) -> Layout:
    """The layout for a problem.

    On a CPU each program uses one core, unless there is one chain. Chains of a small network make at least two blocks,
    other chains run by themselves. On other platforms blocks are as wide as they may be.
    """
    if jax.default_backend() != "cpu":
        return Layout(min(chains, WIDEST), wide=True)
    traced = jax.make_jaxpr(problem.apply)(problem.params_like, problem.row_like)
    effort = effort_of(traced.jaxpr)
    quick = passes * problem.n * max(effort) <= SHORT
    if chains == 1:
        return Layout(1, wide=True, quick=quick)
    small = problem.size <= SMALL and effort.outputs <= LIGHT
    small = small and "conv_general_dilated" not in str(traced)  # it is slow on a CPU under vmap
    return Layout(min(-(-chains // 2), WIDEST) if small else 1, wide=False, quick=quick)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Effort(NamedTuple):
    """What a program costs: numbers that its operations make, and products of numbers in its matrix products."""

    outputs: int
    products: int


def effort_of(jaxpr: Any) -> Effort:
    """The effort of a program; a loop's body counts as often as it runs, where that is known."""
    outputs = products = 0
    for equation in jaxpr.eqns:
        inside = [value for value in equation.params.values() if hasattr(value, "jaxpr") or hasattr(value, "eqns")]
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        for one in inside:
            more = effort_of(getattr(one, "jaxpr", one))
            outputs, products = outputs + times * more.outputs, products + times * more.products
        if not inside:
            made = sum(math.prod(out.aval.shape) for out in equation.outvars)
            outputs, products = outputs + made, products + made * _summed(equation)
    return Effort(outputs, products)


def _summed(equation: Any) -> int:
    """Products in each number that a matrix product or a convolution makes; none for other operations."""
    shapes = [operand.aval.shape for operand in equation.invars]
    if equation.primitive.name == "dot_general":
        (axes, _), _ = equation.params["dimension_numbers"]
        return math.prod(shapes[0][axis] for axis in axes)
    if equation.primitive.name == "conv_general_dilated":
        outputs: int = shapes[1][equation.params["dimension_numbers"].rhs_spec[0]]
        return int(math.prod(shapes[1])) // outputs
    return 0
