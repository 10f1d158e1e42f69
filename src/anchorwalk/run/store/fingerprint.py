"""Names for what decides a run's results: its arguments. Those of versions and machine are in `run/machine.py`."""

import dataclasses
import hashlib
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk.optimizers import RECIPES, Training
from anchorwalk.problem import Problem


def of_tree(value: Any) -> str:
    """A fingerprint of structure, shapes, dtypes and values."""
    leaves, structure = jax.tree.flatten(value)
    arrays = [np.ascontiguousarray(leaf) for leaf in leaves]
    shapes = [f"{array.dtype}{array.shape}" for array in arrays]
    return _digest(_without_addresses(str(structure)), *shapes, *(array.tobytes() for array in arrays))


def of_function(function: Any, *arguments: Any) -> str:
    """A fingerprint of what a function computes on arguments of these shapes, constants included."""
    return _digest(jax.jit(function).lower(*arguments).as_text())


def of_settings(value: Any) -> str:
    """A walk or a likelihood as text, with a fingerprint of its numbers, which text may abbreviate."""
    return f"{_without_addresses(repr(value))} {of_tree(value)}"


def of_network(problem: Problem) -> str:
    """A fingerprint of `init` and `apply`."""
    like = problem.params_like
    return of_function(problem.init, jax.random.key(0)) + of_function(problem.apply, like, problem.row_like)


def of_convolution(problem: Problem) -> str:
    """How the network convolves, if it does: "native" by XLA's own convolution, else "patches or none"."""
    traced = jax.make_jaxpr(problem.apply)(problem.params_like, problem.row_like)
    return "native" if "conv_general_dilated" in str(traced) else "patches or none"


def of_training(training: Training, like: Any, n: int) -> str:
    """The training on `n` rows as text; an optimiser that is not of this package also by what its update computes."""
    optimizer = _without_addresses(repr(training.optimizer))
    if type(training.optimizer) not in RECIPES:
        bare = training.build(n)
        value = {"value": jnp.zeros(()), "value_fn": lambda params: jnp.zeros(())}
        optimizer += f" {of_function(lambda g: bare.update(g, bare.init(g), g, grad=g, **value), like)}"
    first = "" if training.mean_first is None else f", mean_first={training.mean_first}"
    return f"{optimizer}, epochs={training.epochs}, batch_size={training.batch_size}, keep={training.keep!r}{first}"


def of_method(method: Any, problem: Problem) -> dict[str, str]:
    """The method's name and each of its settings as text; one that is None is left open and may be given later."""
    names = [field.name for field in dataclasses.fields(method)] if dataclasses.is_dataclass(method) else []
    found = {"method": type(method).__name__ if names else of_settings(method)}
    for name in names:
        value = getattr(method, name)
        if isinstance(value, Training):
            found[name] = of_training(value, problem.params_like, problem.n)
        elif value is not None:
            found[name] = of_settings(value)
    return found


def _digest(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
    return digest.hexdigest()[:16]


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)
