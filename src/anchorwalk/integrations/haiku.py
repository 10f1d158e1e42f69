"""Networks of Haiku."""

import inspect
from typing import Any

import jax

from anchorwalk import checks
from anchorwalk.integrations import common
from anchorwalk.integrations.common import Adapted, Keywords, Row
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Inputs, Key, Params

DOOR = "from_haiku"
FUNCTION = "from_haiku(function=)"
RANDOM = (
    "Dropout of Haiku is a function of a key, which only the model can leave out: pass its own switch, such as "
    "from_haiku(..., is_training=False). x_sample has rows first."
)
STATE = "Use modules that call no hk.get_state or hk.set_state."


def from_haiku(function: Any, x_sample: Inputs, **call: Any) -> Network:
    """A Haiku model as a pair of functions; equal arguments give the same functions, and so the same programs.

    Parameters are dictionaries under Haiku's own names, such as `mlp/~/linear_0/w`. Models with state, such as batch
    normalisation, are refused, and so are models that draw random numbers when they are called.

    Args:
        function: A function of inputs that uses Haiku's modules, or what `hk.transform` or
            `hk.transform_with_state` made of one, with `hk.without_apply_rng` or without it.
        x_sample: Some rows of inputs; only the shape and dtype of a row are used.
        call: Further arguments of each call of the function, such as `is_training=False`.

    Raises:
        InvalidInput: A model that keeps state, needs random numbers, or fails on a row of zeros.
        ImportError: Haiku is not installed.

    Example:
        >>> import anchorwalk as aw, haiku as hk, jax, jax.numpy as jnp
        >>> network = aw.from_haiku(lambda x: hk.nets.MLP([8, 2])(x), jnp.zeros((1, 3)))
        >>> params = network.init(jax.random.key(0))
        >>> sorted(params)
        ['mlp/~/linear_0', 'mlp/~/linear_1']
        >>> network.apply(params, jnp.ones((5, 3))).shape
        (5, 2)
    """
    haiku = common.library(DOOR, "haiku", "haiku")
    row = common.one_row(DOOR, x_sample)
    if isinstance(function, haiku.MultiTransformed | haiku.MultiTransformedWithState):
        remedy = "Pass the one function that gives the outputs to hk.transform."
        checks.reject(FUNCTION, type(function).__name__, "one function of inputs", remedy)
    if isinstance(function, haiku.Module) or (isinstance(function, type) and issubclass(function, haiku.Module)):
        remedy = "Pass lambda x: Net(...)(x): Haiku makes its modules inside of a function."
        checks.reject(FUNCTION, "a module", "a function of inputs", remedy)
    transformed = isinstance(function, haiku.Transformed | haiku.TransformedWithState)
    if not transformed and not callable(function):
        expected = "a function of inputs, or what hk.transform made of one"
        checks.reject(FUNCTION, repr(function), expected, "See help(anchorwalk.from_haiku).")
    return _haiku(function, row, common.keywords(call)).network


@common.cached
def _haiku(function: Any, row: Row, call: Keywords) -> Adapted:
    haiku = common.library(DOOR, "haiku", "haiku")
    if not isinstance(function, haiku.Transformed | haiku.TransformedWithState):
        function = haiku.transform_with_state(function)
    with_state = isinstance(function, haiku.TransformedWithState)
    # hk.without_apply_rng takes the argument away.
    key_too = (None,) if "rng" in inspect.signature(function.apply).parameters else ()

    def no_batch_norm(next_function: Any, arguments: Any, named: Any, context: Any) -> Any:
        if isinstance(context.module, haiku.BatchNorm):
            common.refuse_statistics(FUNCTION, "hk.BatchNorm")
        return next_function(*arguments, **named)

    def initialise(key: Key) -> tuple[Params, Any]:
        found = function.init(key, row.zeros(), **dict(call))
        return found if with_state else (found, {})

    def init(key: Key) -> Params:
        return {module: dict(params) for module, params in initialise(key)[0].items()}

    def apply(params: Params, x: Inputs) -> Array:
        if with_state:
            return function.apply(params, {}, *key_too, x, **dict(call))[0]  # type: ignore[no-any-return]
        return function.apply(params, *key_too, x, **dict(call))  # type: ignore[no-any-return]

    def works() -> None:
        with haiku.intercept_methods(no_batch_norm):
            _, state = jax.eval_shape(initialise, jax.random.key(0))
        if jax.tree.leaves(state):
            names = ", ".join(map(repr, state))
            common.refuse_state(FUNCTION, f"the state of {names}", STATE)
        jax.eval_shape(apply, jax.eval_shape(init, jax.random.key(0)), row.zeros())

    error = common.attempt(works)
    if error is not None:
        if not with_state and "_state" in str(error):  # what hk.transform says of a function that uses them
            common.refuse_state(FUNCTION, f"{type(error).__name__}: {error}", STATE)
        common.refuse_error(FUNCTION, error, common.remedy_for(error, row, RANDOM))
    return Adapted(Network(init, apply), False)
