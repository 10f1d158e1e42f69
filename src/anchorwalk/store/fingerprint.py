"""Names for what decides a run's results, so that a run is only gone on with by the same arguments."""

import hashlib
import re
from typing import Any

import jax
import numpy as np

from anchorwalk import tree
from anchorwalk.problem import Problem
from anchorwalk.training import Bare, Training


def of_tree(value: Any) -> str:
    """A fingerprint of structure, shapes, dtypes and values."""
    leaves, structure = jax.tree.flatten(value)
    digest = hashlib.sha256(_without_addresses(str(structure)).encode())
    for leaf in leaves:
        array = np.ascontiguousarray(leaf)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


def of_function(function: Any, *arguments: Any) -> str:
    """A fingerprint of what a function computes on arguments of these shapes: its jaxpr and constants."""
    closed = jax.make_jaxpr(function)(*arguments)
    digest = hashlib.sha256(_without_addresses(str(closed.jaxpr)).encode())
    digest.update(of_tree(closed.consts).encode())
    return digest.hexdigest()[:16]


def of_network(problem: Problem) -> str:
    """A fingerprint of `init` and `apply`."""
    like = problem.params_like
    one_row = jax.eval_shape(lambda x: tree.lane(x, slice(1)), problem.data.x)
    return of_function(problem.init, jax.random.key(0)) + of_function(problem.apply, like, one_row)


def of_training(how: Training | None, like: Any) -> str:
    """The training as text; an optimiser that is bare optax by what its update computes."""
    if how is None or not isinstance(how.optimizer, Bare):
        return repr(how)
    optimizer = how.optimizer.transformation
    update = of_function(lambda g: optimizer.update(g, optimizer.init(g), g), like)
    return f"Training(optax {update}, epochs={how.epochs}, batch_size={how.batch_size}, keep={how.keep!r})"


def of_key(key: jax.Array) -> str:
    """A key as its implementation and data."""
    return f"{jax.random.key_impl(key)}:{np.asarray(jax.random.key_data(key)).tolist()}"


def _without_addresses(text: str) -> str:
    return re.sub(r"0x[0-9a-f]+", "0x", text)
