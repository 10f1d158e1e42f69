"""What the adapters share: the libraries, a row of inputs, parameters as plain dictionaries, and what is refused."""

import importlib
import inspect
import re
from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import DropoutWarning, InvalidInput, warn
from anchorwalk.networks.network import Network
from anchorwalk.types import Inputs, Params

Path = tuple[str, ...]
Keywords = tuple[tuple[str, Any], ...]
"""Arguments of a model's call, in the order of their names."""


class Adapted(NamedTuple):
    """A network, and whether dropout had to be switched off for it."""

    network: Network
    dropout: bool


class Row(NamedTuple):
    """Shapes and dtypes of one row of inputs; hashable, so that networks can be kept by it."""

    structure: Any
    leaves: tuple[tuple[tuple[int, ...], Any], ...]

    def zeros(self) -> Inputs:
        """One row of zeros."""
        return jax.tree.unflatten(self.structure, [jnp.zeros(shape, dtype) for shape, dtype in self.leaves])


def library(adapter: str, name: str, extra: str) -> Any:
    """An optional library's module.

    Raises:
        ImportError: It is not installed, or does not work with this version of JAX.
    """
    try:
        return importlib.import_module(name)
    except (ImportError, AttributeError) as error:  # a library for another JAX fails by either
        raise ImportError(f"{adapter} needs {name} ({error}): pip install 'anchorwalk[{extra}]'") from error


def cached(make: Callable[..., Adapted]) -> Callable[..., Adapted]:
    """Equal arguments give the same functions, where arguments can be compared; others are made anew."""
    kept = lru_cache(make)

    @wraps(make)
    def call(*arguments: Any) -> Adapted:
        try:
            hash(arguments)
        except TypeError:
            return make(*arguments)
        return kept(*arguments)

    return call


def one_row(adapter: str, x_sample: Inputs) -> Row:
    """Shapes and dtypes of one row of a sample of inputs.

    Raises:
        InvalidInput: No arrays with a leading axis of rows.
    """
    argument = f"{adapter}(x_sample=)"
    leaves, structure = jax.tree.flatten(x_sample)
    if not leaves or any(np.ndim(leaf) == 0 for leaf in leaves):
        remedy = "Pass a few rows of the data, such as x[:1], as arrays."
        checks.reject(argument, repr(x_sample), "arrays with a leading axis of rows", remedy)
    like = [jax.eval_shape(jnp.asarray, leaf) for leaf in leaves]
    return Row(structure, tuple(((1, *leaf.shape[1:]), leaf.dtype) for leaf in like))


def keywords(call: dict[str, Any]) -> Keywords:
    """Arguments of a call as a tuple."""
    return tuple(sorted(call.items()))


def takes(function: Callable[..., Any], name: str) -> bool:
    """Whether a function or a class has an argument of this name; some built-in ones do not say."""
    # Flax hides the arguments of its classes behind those of their metaclass.
    maker = inspect.getattr_static(function, "__init__") if isinstance(function, type) else function
    try:
        parameter = inspect.signature(maker).parameters.get(name)
    except (TypeError, ValueError):
        return False
    return parameter is not None and parameter.kind is not inspect.Parameter.POSITIONAL_ONLY


def nested(paths: Iterable[Path], leaves: Iterable[Any]) -> dict[str, Any]:
    """Leaves as dictionaries in dictionaries, which stores can write and open without the model."""
    result: dict[str, Any] = {}
    for path, leaf in zip(paths, leaves, strict=True):
        place = result
        for part in path[:-1]:
            place = place.setdefault(part, {})
        place[path[-1]] = leaf
    return result


def leaves_at(params: Params, paths: Iterable[Path]) -> list[Any]:
    """The inverse of `nested`: the leaves in the order of their paths."""
    leaves = []
    for path in paths:
        place = params
        for part in path:
            place = place[part]
        leaves.append(place)
    return leaves


def attempt(work: Callable[[], Any]) -> Exception | None:
    """What goes wrong in some work; what this library refuses on purpose is raised."""
    try:
        work()
    except InvalidInput:
        raise
    except Exception as error:
        return error
    return None


def remedy_for(error: Exception, row: Row, otherwise: str) -> str:
    """What to do about a model that fails on a row of zeros: look at the row, unless the error is of another kind."""
    if re.search(r"rng|random|deterministic|\btrain|is_training|missing .*argument", str(error), re.IGNORECASE):
        return otherwise
    shapes = ", ".join(str(shape[1:]) for shape, _ in row.leaves)
    return f"Does the model take rows of shape {shapes}, as those of x_sample are? Rows come first in x_sample."


def refuse_error(argument: str, error: Exception, remedy: str) -> NoReturn:
    """Refuse a model that fails on a row of zeros."""
    checks.reject(argument, f"{type(error).__name__}: {error}", "a model that works on one row of inputs", remedy)


def refuse_statistics(argument: str, what: str) -> NoReturn:
    """Refuse batch normalisation and its like."""
    checks.reject(
        argument,
        what,
        "a model without batch statistics: they are no parameters, so that no prior speaks of them, and the "
        "anchored loss needs rows that do not influence one another",
        "Use LayerNorm, GroupNorm or a filter response norm (anchorwalk.networks.layers) in its place.",
    )


def refuse_state(argument: str, what: str, remedy: str) -> NoReturn:
    """Refuse what changes from call to call."""
    checks.reject(argument, what, "a model of parameters alone, whose calls change nothing", remedy)


def warn_of_dropout(adapter: str) -> None:
    """Say that dropout is off."""
    warn(
        f"{adapter}: dropout is switched off, in training too: the members of an anchored ensemble differ by their "
        "anchors, and each minimises a loss without noise of its own. Take dropout out of the model, or switch it off "
        "there, to be rid of this warning",
        DropoutWarning,
    )
