"""Networks of Equinox."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.integrations import common
from anchorwalk.integrations.common import Adapted, Keywords
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Inputs, Key, Params

DOOR = "from_equinox"
MAKER = "from_equinox(maker=)"


def from_equinox(maker: Any, *, vmap: bool = True, **call: Any) -> Network:
    """An Equinox model as a pair of functions; the same maker gives the same functions, and so the same programs.

    Every JAX array of floats in the model is a parameter, in nested dictionaries under the names of the model's fields,
    such as `layers/0/weight`. NumPy arrays, whole numbers and functions are constants. Models with state, such as batch
    normalisation, are refused. Dropout is switched off, with a warning. An Equinox model takes a single row, so it is
    vmapped over the rows of a batch.

    Equinox's weights are of shape (outputs, inputs, ...), other than `fan_in` expects: pass
    `Prior(scale=lambda path, leaf: math.prod(leaf.shape[1:]) ** -0.5)` for scales by fan-in.

    Args:
        maker: A function of a key that makes the model, such as `lambda key: eqx.nn.MLP(3, 1, 50, 1, key=key)`, or a
            class that takes `key`. A model that is made already has its one initialisation, where each chain
            needs its own. A function that is kept (rather than written anew each time) shares its compiled programs.
        vmap: False for a model that takes all rows of a batch at once.
        call: Further arguments of each call of the model, such as `key=None`.

    Raises:
        InvalidInput: A model that keeps state, or has other random arrays than of floats.
        ImportError: Equinox is not installed.

    Example:
        >>> import anchorwalk as aw, equinox as eqx, jax, jax.numpy as jnp
        >>> network = aw.from_equinox(lambda key: eqx.nn.MLP(3, 2, 8, 1, key=key))
        >>> params = network.init(jax.random.key(0))
        >>> params["layers"]["0"]["weight"].shape
        (8, 3)
        >>> network.apply(params, jnp.ones((5, 3))).shape
        (5, 2)
    """
    equinox = common.library(DOOR, "equinox", "equinox")
    if isinstance(maker, equinox.Module):
        given = f"a model that is made already, of type {type(maker).__name__}"
        remedy = "Pass what makes it, from_equinox(lambda key: Net(..., key=key))."
        checks.reject(MAKER, given, "a function of a key: each chain starts from its own initialisation", remedy)
    if not callable(maker):
        checks.reject(MAKER, repr(maker), "a function from a key to a model", "See help(anchorwalk.from_equinox).")
    if not isinstance(vmap, bool):
        checks.reject("from_equinox(vmap=)", repr(vmap), "True or False", "See help(anchorwalk.from_equinox).")
    adapted = _equinox(maker, vmap, common.keywords(call))
    if adapted.dropout:
        common.warn_of_dropout(DOOR)
    return adapted.network


@common.cached
def _equinox(maker: Any, vmap: bool, call: Keywords) -> Adapted:
    equinox = common.library(DOOR, "equinox", "equinox")
    by_name = common.takes(maker, "key")

    def model_of(key: Key) -> Any:
        return maker(key=key) if by_name else maker(key)

    template = _template(model_of)
    _refuse_state(equinox, template)
    dropout = _has_dropout(equinox, template)
    template = equinox.nn.inference_mode(template)
    places, structure = jax.tree_util.tree_flatten_with_path(template)
    is_param = [_is_float(leaf) for _, leaf in places]
    paths = [_path(path) for (path, _), chosen in zip(places, is_param, strict=True) if chosen]
    rest = _constants(model_of, [leaf for _, leaf in places])

    def init(key: Key) -> Params:
        leaves = jax.tree.leaves(model_of(key))
        return common.nested(paths, [leaf for leaf, chosen in zip(leaves, is_param, strict=True) if chosen])

    def apply(params: Params, x: Inputs) -> Array:
        given = iter(common.leaves_at(params, paths))
        leaves = [next(given) if chosen else leaf for leaf, chosen in zip(rest, is_param, strict=True)]
        model = jax.tree.unflatten(structure, leaves)

        def function(x: Inputs) -> Array:
            return model(x, **dict(call))  # type: ignore[no-any-return]

        return jax.vmap(function)(x) if vmap else function(x)

    return Adapted(Network(init, apply), dropout)


def _template(model_of: Any) -> Any:
    """A model with shapes and dtypes in place of its JAX arrays; all else in it is there."""
    found: list[Any] = []

    def arrays(key: Key) -> list[Array]:
        leaves, structure = jax.tree.flatten(model_of(key))
        found.append((structure, [None if isinstance(leaf, jax.Array) else leaf for leaf in leaves]))
        return [leaf for leaf in leaves if isinstance(leaf, jax.Array)]

    shapes: list[Any] = []
    error = common.attempt(lambda: shapes.extend(jax.eval_shape(arrays, jax.random.key(0))))
    if error is not None:
        common.refuse_error(MAKER, error, "Pass a function of a key that makes the model.")
    structure, rest = found[-1]
    given = iter(shapes)  # leaves of a tree are never None
    return jax.tree.unflatten(structure, [next(given) if leaf is None else leaf for leaf in rest])


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _is_float(leaf: Any) -> bool:
    return _is_array(leaf) and jnp.issubdtype(leaf.dtype, jnp.inexact)


def _path(path: tuple[Any, ...]) -> tuple[str, ...]:
    return tuple(jax.tree_util.keystr((key,), simple=True) for key in path)


def _constants(model_of: Any, places: list[Any]) -> list[Any]:
    """The model's leaves with its arrays of other dtypes than floats filled in, which must not depend on the key."""
    numbers = [i for i, leaf in enumerate(places) if _is_array(leaf) and not _is_float(leaf)]
    if not numbers:
        return places
    # Compiled, so that parameters are not computed for them.
    chosen = jax.jit(lambda key: [jax.tree.leaves(model_of(key))[i] for i in numbers])
    first, second = (jax.device_get(chosen(jax.random.key(seed))) for seed in (0, 1))
    if not all(np.array_equal(one, other) for one, other in zip(first, second, strict=True)):
        given = "a model with random arrays that are not of floats"
        remedy = "Make them outside of the model, or keep them as floats."
        common.refuse_state(MAKER, given, remedy)
    filled = dict(zip(numbers, first, strict=True))
    return [filled.get(i, leaf) for i, leaf in enumerate(places)]


def _refuse_state(equinox: Any, model: Any) -> None:
    nn = equinox.nn
    kinds = (nn.BatchNorm, nn.State, nn.StateIndex)
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, kinds))
    if any(isinstance(part, nn.BatchNorm) for part in parts):
        common.refuse_statistics(MAKER, "eqx.nn.BatchNorm")
    if any(isinstance(part, kinds) for part in parts):
        remedy = "Use layers that keep no eqx.nn.State, such as LayerNorm or GroupNorm."
        common.refuse_state(MAKER, "a model with eqx.nn.State", remedy)
    if not callable(model):
        given = f"a function that returns {type(model).__name__}"
        checks.reject(MAKER, given, "one that returns a model", "Pass lambda key: Net(..., key=key).")


def _has_dropout(equinox: Any, model: Any) -> bool:
    kind = equinox.nn.Dropout
    parts = jax.tree.leaves(model, is_leaf=lambda part: isinstance(part, kind))
    return any(isinstance(part, kind) and part.p > 0 and not part.inference for part in parts)
