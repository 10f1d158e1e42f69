"""Checks of public arguments: what was wrong, what was given, what is expected, what to do."""

import math
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk.errors import InvalidInput

LONGEST = 600
"""Characters of what was given that a message repeats."""


def reject(argument: str, given: object, expected: str, remedy: str) -> NoReturn:
    """Raise the one kind of message that this library gives for bad input.

    Raises:
        InvalidInput: Always.
    """
    raise InvalidInput(f"{argument}: got {_short(given)}, expected {expected}. {remedy}")


def _short(given: object) -> str:
    """What was given on one line, its middle left out where it is long."""
    text = " ".join(str(given).split()).rstrip(".")
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def number(argument: str, value: Any, remedy: str = "Pass a plain number.") -> float:
    """Return a finite real number as a float."""
    if isinstance(value, jax.core.Tracer):
        reject(argument, "a number inside jit, vmap or grad", "a plain number", "Call it outside.")
    is_number = isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray | jax.Array) and not value.ndim
    )
    if isinstance(value, bool) or not is_number or not math.isfinite(result := float(value)):
        reject(argument, repr(value), "a finite number", remedy)
    return result


def positive(argument: str, value: Any, remedy: str = "Pass a number above zero.") -> float:
    """Return a finite number above zero."""
    result = number(argument, value, remedy)
    if result <= 0:
        reject(argument, repr(value), "a number above zero", remedy)
    return result


def within(argument: str, value: Any, low: float, high: float, *, open_above: bool = False) -> float:
    """Return a number in [low, high], or in [low, high) with `open_above`."""
    result = number(argument, value)
    if not (low <= result < high if open_above else low <= result <= high):
        expected = f"a number in [{low:g}, {high:g}{')' if open_above else ']'}"
        reject(argument, repr(value), expected, "Choose it in that range.")
    return result


def count(argument: str, value: Any, least: int = 1) -> int:
    """Return a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        whole = isinstance(value, float) and value.is_integer()
        remedy = f"Pass {int(value)}, without the point." if whole else "Pass such a number."
        reject(argument, repr(value), f"a whole number of at least {least}", remedy)
    return int(value)


def choice(argument: str, value: Any, options: tuple[str, ...]) -> str:
    """Return `value` if it is one of `options`."""
    if value not in options:
        known = ", ".join(map(repr, options))
        reject(argument, repr(value), f"one of {known}", "Choose among them.")
    return str(value)


def real(argument: str, array: np.ndarray[Any, Any]) -> None:
    """Refuse everything that is not a boolean, an integer or a real number."""
    if not (
        array.dtype == bool or jnp.issubdtype(array.dtype, jnp.integer) or jnp.issubdtype(array.dtype, jnp.floating)
    ):
        reject(argument, f"values of type {array.dtype}", "real numbers", "Encode them as numbers first.")


def outside(function: str, *trees: Any, new: bool = True) -> None:
    """Refuse traced arrays and, with `new`, to make arrays where JAX traces: these have no values to check."""
    leaves = jax.tree.leaves((trees, jnp.zeros(()) if new else ()))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        remedy = "Call it outside and pass what it gives into the traced function; sample_many runs several keys."
        reject(function, "a call inside jit, vmap or grad", "a call with plain arrays", remedy)


def key(argument: str, value: Any) -> None:
    """Refuse what is no typed key, and keys whose draws depend on how work is vectorised."""
    is_key = isinstance(value, jax.Array) and jnp.issubdtype(value.dtype, jax.dtypes.prng_key) and value.ndim == 0
    if not is_key:
        given = repr(value)
        if isinstance(value, jax.Array):
            old = not jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
            given = f"an old-style key or array of {value.dtype}" if old else f"an array of {value.size} keys"
        reject(argument, given, "one typed key", "Pass jax.random.key(seed), or one of several as keys[0].")
    if jax.random.key_impl(value) != "threefry2x32":
        given = f"a key of the implementation {jax.random.key_impl(value)!r}"
        reject(argument, given, "'threefry2x32', whose draws are the same under vmap", "Pass jax.random.key(seed).")


def instance(argument: str, value: Any, interface: type, example: str) -> None:
    """Refuse what does not offer an interface's methods; a class in place of its instance is a common slip."""
    if isinstance(value, type):
        reject(argument, f"the class {value.__name__}", "an instance of it", f"Pass {example}, with brackets.")
    if not isinstance(value, interface):
        article = "an" if interface.__name__[0] in "AEIOU" else "a"
        reject(argument, repr(value), f"{article} {interface.__name__}", f"Pass {example}.")


def pytree(argument: str, value: Any, kind: str) -> None:
    """Refuse an object whose class is not registered as a pytree."""
    if jax.tree_util.all_leaves([value]):
        remedy = "Register its class, for example with jax.tree_util.register_dataclass."
        reject(argument, f"a {type(value).__name__} that is no pytree", f"{kind} whose numbers are leaves", remedy)


def finite(argument: str, array: np.ndarray[Any, Any], remedy: str) -> None:
    """Refuse NaN and infinity in a floating-point array."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return
    bad = ~np.isfinite(array)
    if bad.any():
        where = tuple(int(i) for i in np.argwhere(bad)[0])
        given = f"{int(bad.sum())} values that are not finite, the first at index {where}"
        reject(argument, given, "finite numbers only", remedy)
