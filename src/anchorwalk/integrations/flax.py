"""Networks of Flax, Linen and NNX."""

from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks
from anchorwalk.integrations import common
from anchorwalk.integrations.common import Adapted, Keywords, Row
from anchorwalk.networks.network import Network
from anchorwalk.types import Array, Inputs, Key, Params

DOOR = "from_flax"
MODULE = "from_flax(module=)"
RANDOM = "Pass what makes its calls deterministic, such as from_flax(..., deterministic=True) or train=False."


def from_flax(module: Any, x_sample: Inputs, **call: Any) -> Network:
    """A Flax model as a pair of functions; equal arguments give the same functions, and so the same programs.

    Parameters are nested dictionaries under Flax's own names, such as `Dense_0/kernel`. Batch normalisation and all
    other state is refused. Dropout is switched off, with a warning.

    Args:
        module: A Linen module; or, for NNX, a function that makes the model of its `nnx.Rngs`, such as
            `lambda rngs: Net(rngs)`, or the class itself. An NNX model that is made already has its one
            initialisation, where each chain needs its own. A function that is kept (rather than written anew each
            time) shares its compiled programs.
        x_sample: Some rows of inputs; only the shape and dtype of a row are used.
        call: Further arguments of each call of the model, such as `train=False`.

    Raises:
        InvalidInput: A model that keeps state, needs random numbers, or fails on a row of zeros.
        ImportError: Flax is not installed.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp
        >>> from flax import linen, nnx
        >>> network = aw.from_flax(linen.Dense(2), jnp.zeros((1, 3)))
        >>> sorted(network.init(jax.random.key(0)))
        ['bias', 'kernel']
        >>> network = aw.from_flax(lambda rngs: nnx.Linear(3, 2, rngs=rngs), jnp.zeros((1, 3)))
        >>> network.apply(network.init(jax.random.key(0)), jnp.ones((5, 3))).shape
        (5, 2)
    """
    linen, nnx = (common.library(DOOR, name, "flax") for name in ("flax.linen", "flax.nnx"))
    row = common.one_row(DOOR, x_sample)
    if isinstance(module, linen.Module):
        adapted = _linen(module, row, common.keywords(call))
    elif isinstance(module, nnx.Module):
        given = f"an NNX model that is made already, of type {type(module).__name__}"
        remedy = "Pass what makes it, from_flax(lambda rngs: Net(..., rngs=rngs), x_sample)."
        checks.reject(MODULE, given, "a function of nnx.Rngs: each chain starts from its own initialisation", remedy)
    elif isinstance(module, type) and issubclass(module, linen.Module):
        checks.reject(
            MODULE, f"the class {module.__name__}", "an instance of it", f"Pass {module.__name__}(...), with brackets."
        )
    elif callable(module):
        adapted = _nnx(module, row, common.keywords(call))
    else:
        expected = "a Linen module, or a function from nnx.Rngs to an NNX model"
        checks.reject(MODULE, repr(module), expected, "See help(anchorwalk.from_flax).")
    if adapted.dropout:
        common.warn_of_dropout(DOOR)
    return adapted.network


@common.cached
def _linen(module: Any, row: Row, call: Keywords) -> Adapted:
    linen = common.library(DOOR, "flax.linen", "flax")
    core = common.library(DOOR, "flax.core", "flax")
    seen: list[Any] = []

    def without_dropout(next_function: Any, arguments: Any, named: Any, context: Any) -> Any:
        if isinstance(context.module, linen.Dropout) and context.method_name == "__call__":
            seen.append(context.module)
            return arguments[0] if arguments else named["inputs"]
        return next_function(*arguments, **named)

    def no_batch_norm(next_function: Any, arguments: Any, named: Any, context: Any) -> Any:
        if isinstance(context.module, linen.BatchNorm):  # it may fail before its statistics are seen
            common.refuse_statistics(MODULE, f"batch normalisation in {type(module).__name__}")
        return next_function(*arguments, **named)

    def quietly(quiet: bool) -> Any:
        return linen.intercept_methods(without_dropout) if quiet else nullcontext()

    def variables(key: Key, quiet: bool) -> Any:
        with quietly(quiet):
            return module.init({"params": key}, row.zeros(), **dict(call))

    def params_of(found: Any) -> Params:
        return core.meta.unbox(core.unfreeze(found.get("params", {})))

    def outputs(params: Params, x: Inputs, quiet: bool) -> Array:
        with quietly(quiet):
            return module.apply({"params": params}, x, **dict(call))  # type: ignore[no-any-return]

    def works(quiet: bool) -> None:
        with linen.intercept_methods(no_batch_norm):
            found = jax.eval_shape(lambda key: variables(key, quiet), jax.random.key(0))
        _refuse_collections(module, [name for name in found if name != "params"])
        jax.eval_shape(lambda params, x: outputs(params, x, quiet), params_of(found), row.zeros())

    error, quiet = common.attempt(lambda: works(False)), False
    if error is not None:
        error, quiet = common.attempt(lambda: works(True)), bool(seen)
    if error is not None:
        common.refuse_error(MODULE, error, common.remedy_for(error, row, RANDOM))

    def init(key: Key) -> Params:
        return params_of(variables(key, quiet))

    def apply(params: Params, x: Inputs) -> Array:
        return outputs(params, x, quiet)

    return Adapted(Network(init, apply), quiet)


def _refuse_collections(module: Any, names: list[str]) -> None:
    if "batch_stats" in names:
        common.refuse_statistics(MODULE, f"the collection 'batch_stats' in {type(module).__name__}")
    if names:
        given = f"the collections {', '.join(map(repr, names))} in {type(module).__name__}"
        remedy = "Take that state out of the model; what is only to be looked at can be sown into 'intermediates'."
        common.refuse_state(MODULE, given, remedy)


@common.cached
def _nnx(maker: Any, row: Row, call: Keywords) -> Adapted:
    nnx = common.library(DOOR, "flax.nnx", "flax")
    by_name = common.takes(maker, "rngs")

    def model_of(key: Key) -> Any:
        rngs = nnx.Rngs(key)
        model = maker(rngs=rngs) if by_name else maker(rngs)
        if not isinstance(model, nnx.Module) or not callable(model):
            given = f"a function that returns {type(model).__name__}"
            checks.reject(MODULE, given, "one that returns an NNX model", "Pass lambda rngs: Net(..., rngs=rngs).")
        return model

    models: list[Any] = []
    error = common.attempt(lambda: models.append(nnx.eval_shape(lambda: model_of(jax.random.key(0)))))
    if error is not None:
        remedy = "Pass a function of nnx.Rngs that makes the model; arrays it needs go into nnx.Param."
        common.refuse_error(MODULE, error, remedy)
    model = models[0]
    dropout = _eval_mode(nnx, model)
    structure, params, streams, statistics, rest = nnx.split(model, nnx.Param, nnx.RngState, nnx.BatchStat, ...)
    if jax.tree.leaves(statistics):
        common.refuse_statistics(MODULE, f"batch statistics at {_names(nnx, statistics)}")
    if jax.tree.leaves(rest):
        remedy = "Make it nnx.Param, or a constant that is computed in __call__ or held outside of the model."
        common.refuse_state(MODULE, f"arrays that are no nnx.Param at {_names(nnx, rest)}", remedy)
    paths = [tuple(map(str, path)) for path, _ in nnx.to_flat_state(params)]
    definition, of_streams = jax.tree.structure(params), jax.tree.structure(streams)
    # Streams of random numbers stay in the model, unused: its parts ask for them when they are made.
    unused = [_unused(leaf) for leaf in jax.tree.leaves(streams)]

    def merged(params: Params) -> Any:
        state = jax.tree.unflatten(definition, common.leaves_at(params, paths))
        return nnx.merge(structure, state, jax.tree.unflatten(of_streams, unused))

    def init(key: Key) -> Params:
        return common.nested(paths, jax.tree.leaves(nnx.state(model_of(key), nnx.Param)))

    def apply(params: Params, x: Inputs) -> Array:
        return merged(params)(x, **dict(call))  # type: ignore[no-any-return]

    def works(params: Params, x: Inputs) -> None:
        model = merged(params)
        before = jax.tree.leaves(nnx.state(model, (nnx.Param, nnx.RngState)))
        model(x, **dict(call))
        after = jax.tree.leaves(nnx.state(model, (nnx.Param, nnx.RngState)))
        if len(before) != len(after) or any(one is not other for one, other in zip(before, after, strict=True)):
            common.refuse_state(MODULE, "a model that draws random numbers or changes itself when it is called", RANDOM)

    like = common.nested(paths, jax.tree.leaves(params))
    error = common.attempt(lambda: jax.eval_shape(works, like, row.zeros()))
    if error is not None:
        common.refuse_error(MODULE, error, common.remedy_for(error, row, RANDOM))
    return Adapted(Network(init, apply), dropout)


def _eval_mode(nnx: Any, model: Any) -> bool:
    """Switch dropout off in a model; whether there was any."""
    live = False
    for _, part in nnx.iter_modules(model):
        rate = getattr(part, "rate", 0) if isinstance(part, nnx.Dropout) else getattr(part, "dropout_rate", 0)
        live = live or bool(rate and not getattr(part, "deterministic", False))
    model.eval()
    return live


def _names(nnx: Any, state: Any) -> str:
    return ", ".join(repr("/".join(map(str, path))) for path, _ in nnx.to_flat_state(state))


def _unused(leaf: Any) -> Any:
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.broadcast_to(jax.random.key(0), leaf.shape)
    return jnp.zeros(leaf.shape, leaf.dtype)
