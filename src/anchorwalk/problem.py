"""A problem: network, likelihood, prior and data D, in the paper's sense (section 1)."""

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from anchorwalk import checks, tree
from anchorwalk.data import Data, Reader, Source, Streamed, is_source, refuse_source
from anchorwalk.errors import InvalidInput
from anchorwalk.likelihoods import Likelihood
from anchorwalk.prior import Prior
from anchorwalk.types import Apply, Init, Inputs, Key, Params


@tree.node(static=("apply",))
@dataclass(frozen=True, eq=False, init=False)
class Problem:
    """What defines the posterior: init, apply, likelihood, prior and data.

    A problem is a pytree whose leaves are the data, the prior's scales and the likelihood's numbers, so
    that compiled programs take them as arguments. Problems that share `init` and `apply` (the
    same function objects) and their shapes share those programs.

    Args:
        init: From a key to parameters, any pytree of floating-point arrays. Numbers bound by `jax.tree_util.Partial`
            are arguments of compiled programs too.
        apply: From parameters and a batch of inputs to outputs, rows first. It must treat rows independently.
        likelihood: Such as `Categorical()` or `Normal(scale=...)`, or your own (see `Likelihood`).
        prior: An independent normal prior.
        data: Inputs x (any pytree of arrays with a leading axis of N rows) and targets y. Floats are cast
            to the parameters' dtype (targets to float32 at least), integers kept. Or a source, for rows that do not
            fit into memory: an object whose `len` is N and whose `source[indices]`, for an array of row numbers in any
            order and some of them twice, is such a pair (x, y) of those rows. Threads read it while the device trains.
        weights: A weight of each row that multiplies its log-likelihood, shape (N,).
        validation: Rows (x, y) for trainings that keep their best epoch; without them such a run holds
            back a tenth of the data.

    Raises:
        InvalidInput: Anything that does not fit together, before any work starts.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> problem = aw.Problem(
        ...     init=lambda key: jnp.zeros(3),
        ...     apply=lambda w, x: x @ w,
        ...     likelihood=aw.Normal(scale=0.1),
        ...     prior=aw.Prior(scale=1.0),
        ...     data=(jnp.ones((5, 3)), jnp.ones(5)),
        ... )
        >>> problem.n, problem.size
        (5, 3)
    """

    init: Init
    apply: Apply
    likelihood: Likelihood
    prior: Prior
    data: Data
    validation: Data | None

    def __init__(
        self,
        init: Init,
        apply: Apply,
        likelihood: Likelihood,
        prior: Prior,
        data: tuple[Inputs, Any] | Source,
        weights: Any = None,
        validation: tuple[Inputs, Any] | None = None,
    ) -> None:
        checks.outside("Problem", data, weights, validation, new=False)
        like = _check_init(init)
        checks.instance("likelihood", likelihood, Likelihood, "Normal(scale=...) or another likelihood")
        checks.pytree("likelihood", likelihood, "a likelihood")
        checks.instance("prior", prior, Prior, "Prior(scale=...)")
        dtype = jnp.result_type(*jax.tree.leaves(like))
        set_field = object.__setattr__
        set_field(self, "init", init if isinstance(init, Partial) else Partial(init))  # type: ignore[no-untyped-call]
        set_field(self, "apply", apply)
        set_field(self, "likelihood", likelihood)
        set_field(self, "prior", prior.resolve(like))
        check = _streamed if is_source(data) else _check_data
        set_field(self, "data", check("data", data, weights, apply, like, likelihood, dtype))
        held_back = None
        if validation is not None:
            held_back = _check_data("validation", validation, None, apply, like, likelihood, dtype)
        set_field(self, "validation", held_back)

    def __repr__(self) -> str:
        return f"Problem({self.n} rows, {self.size} parameters, {self.likelihood!r})"

    @property
    def n(self) -> int:
        """Number of training rows N."""
        return self.data.n

    @property
    def params_like(self) -> Params:
        """Shapes and dtypes of the parameters."""
        return _params_like(self.init, bool(getattr(jax.config, "jax_enable_x64", False)))

    @property
    def row_like(self) -> Any:
        """One row of inputs, as shapes and dtypes."""
        return jax.eval_shape(lambda x: tree.lane(x, slice(1)), self.data.x)

    @property
    def size(self) -> int:
        """Number of parameters."""
        return tree.size(self.params_like)

    def hold_back(self, key: Key, share: float = 0.1) -> "Problem":
        """The same problem with a random share of its rows moved from the data to the validation rows.

        Args:
            key: Decides which rows.
            share: Share of the rows, rounded down, at least one.

        Example:
            >>> import anchorwalk as aw, jax, jax.numpy as jnp
            >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: x + w, aw.Normal(scale=1.0),
            ...                      aw.Prior(), data=(jnp.zeros(20), jnp.zeros(20)))
            >>> split = problem.hold_back(jax.random.key(0))
            >>> split.data.n, split.validation.n
            (18, 2)
        """
        if self.data.streamed:
            remedy = "Pass validation=(x, y), some rows in memory."
            checks.reject("hold_back", "rows that are read while a run trains", "rows in memory", remedy)
        if self.validation is not None:
            remedy = "Use them, or make the problem without validation=."
            checks.reject("hold_back", "a problem with validation rows", "one without", remedy)
        rows = max(1, int(self.n * checks.within("hold_back(share=)", share, 0, 1, open_above=True)))
        if rows >= self.n:
            checks.reject("data", f"{self.n} rows", "enough rows to hold some back", "Pass validation= or more rows.")
        filled = self.data.rows is not None
        if filled:  # problems of different numbers of rows share programs: nothing is compiled for each number
            order = np.random.default_rng(np.asarray(jax.random.key_data(key)).ravel()).permutation(self.n)
        else:
            order = np.asarray(jax.random.permutation(key, self.n))
        data, held_back = self.data.select(np.sort(order[rows:])), self.data.select(np.sort(order[:rows]))
        return self._with(data.filled(self.data.room) if filled else data, held_back)

    def filled(self, room: int, unused: Params | None = None) -> "Problem":
        """The same problem with its training rows in arrays of `room` rows, those at the end never used.

        Problems of different numbers of rows then share compiled programs. Members are the same, to rounding. An
        optimiser of your own must be able to build for a traced number of steps.

        Args:
            room: Rows of the arrays.
            unused: A tree like the parameters, True for those that only fill up an array: no input reaches them, and
                `init` starts them at their prior's mean, where they stay.

        Example:
            >>> import anchorwalk as aw, jax.numpy as jnp
            >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: x + w, aw.Normal(scale=1.0),
            ...                      aw.Prior(), data=(jnp.zeros(20), jnp.zeros(20))).filled(32)
            >>> problem.n, problem.data.y.shape
            (20, (32,))
        """
        same = self._with(self.data.filled(room), self.validation)
        if unused is not None:
            scale = jax.tree.map(lambda s, none: np.where(none, 0, s).astype(s.dtype), self.prior.scale, unused)
            object.__setattr__(same, "prior", replace(self.prior, scale=scale))
        return same

    def with_prior(self, prior: Prior) -> "Problem":
        """The same problem with another prior; programs that are compiled for this one serve it too.

        Args:
            prior: In any form that `Problem` takes.

        Example:
            >>> import anchorwalk as aw, jax.numpy as jnp
            >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: x + w, aw.Normal(scale=1.0),
            ...                      aw.Prior(), data=(jnp.zeros(20), jnp.zeros(20)))
            >>> float(problem.with_prior(aw.Prior(scale=2.0)).prior.scale)
            2.0
        """
        checks.instance("with_prior", prior, Prior, "a Prior(scale=, mean=)")
        found = prior.resolve(self.params_like)
        # What only fills up an array stays unused.
        scale = jax.tree.map(
            lambda now, new: np.where(now > 0, new, 0).astype(new.dtype), self.prior.scale, found.scale
        )
        same = self._with(self.data, self.validation)
        object.__setattr__(same, "prior", replace(found, scale=scale))
        return same

    def without_validation(self) -> "Problem":
        """The same problem without its validation rows."""
        return self._with(self.data, None)

    def _with(self, data: Data, validation: Data | None) -> "Problem":
        same = object.__new__(Problem)
        fields = {"data": data, "validation": validation}
        for name in ("init", "apply", "likelihood", "prior", "data", "validation"):
            object.__setattr__(same, name, fields.get(name, getattr(self, name)))
        return same


@lru_cache(maxsize=128)
def _params_like(init: Init, x64: bool) -> Params:
    """Shapes and dtypes of what `init` returns, traced once with and once without float64."""
    return jax.eval_shape(lambda key: tree.typed(init(key)), jax.random.key(0))


def _check_init(init: Init) -> Params:
    if not callable(init):
        checks.reject("init", type(init).__name__, "a function of a key", "Pass init=lambda key: params.")
    try:
        like = jax.eval_shape(init, jax.random.key(0))
    except Exception as error:
        given = f"{type(error).__name__} from init(key): {error}"
        checks.reject(
            "init", given, "a function of a key that returns the parameters", "Check init(jax.random.key(0))."
        )
    if not jax.tree.leaves(like):
        checks.reject("init", "a function that returns no arrays", "a pytree of parameters", "Return the parameters.")
    for path, leaf in tree.named_leaves(like):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            remedy = "Keep constants out of the parameters: close over them in apply."
            checks.reject("init", f"{leaf.dtype} at {path!r}", "floating-point parameters only", remedy)
    return like


def check_inputs(argument: str, x: Inputs, dtype: Any) -> tuple[Inputs, int]:
    """Cast inputs to what a network takes, and count their rows.

    Raises:
        InvalidInput: No arrays, no rows, different numbers of rows, or values that are not finite real numbers.
    """
    leaves, structure = jax.tree.flatten(x)
    if not leaves:
        checks.reject(argument, "inputs x without arrays", "at least one array", "Pass an array or a pytree of arrays.")
    rows, cast = set(), []
    for path, leaf in tree.named_leaves(x):
        what = f"{argument}: inputs x" + (f" at {path!r}" if path else "")
        refuse_source(what, leaf)
        array = np.asarray(leaf)
        if array.ndim == 0:
            remedy = "Pass arrays, np.asarray(x), not lists of numbers."
            checks.reject(what, f"the single number {array}", "an array with a leading axis of rows", remedy)
        rows.add(array.shape[0])
        cast.append(_cast(what, array, dtype))
    if len(rows) > 1:
        checks.reject(argument, f"inputs with {sorted(rows)} rows", "the same number of rows", "Check the arrays.")
    if rows == {0}:
        checks.reject(argument, "0 rows", "at least one row", "Check how the data was loaded or filtered.")
    return jax.tree.unflatten(structure, cast), rows.pop()


def check_apply(argument: str, apply: Apply, like: Params, x: Inputs, n: int) -> Any:
    """Shape and dtype of a network's outputs on `n` rows.

    Raises:
        InvalidInput: Where the network fails on them, or does not give a row of outputs for each.
    """
    shapes = ", ".join(f"{leaf.dtype}{leaf.shape}" for leaf in jax.tree.leaves(x))
    try:
        outputs = jax.eval_shape(apply, like, x)
    except Exception as error:
        given = f"{type(error).__name__} from apply(params, x) on inputs x of {shapes}: {error}"
        remedy = "apply takes (params, x), and x all rows at once, (N, features) for a table: x[:, None] adds an axis."
        checks.reject(argument, given, "a network and inputs that fit", remedy)
    if not isinstance(outputs, jax.ShapeDtypeStruct) or outputs.shape[:1] != (n,):
        given = f"outputs of shape {jax.tree.map(lambda leaf: leaf.shape, outputs)} on inputs x of {shapes}"
        remedy = "Rows come first: x needs a leading axis of rows, and apply returns one row of outputs for each."
        checks.reject(argument, given, f"one array with {n} rows", remedy)
    return outputs


def _check_data(
    argument: str,
    data: Any,
    weights: Any,
    apply: Apply,
    like: Params,
    likelihood: Likelihood,
    dtype: Any,
    known: dict[Any, Any] | None = None,
) -> Data:
    """Data as programs take them. `known` keeps the network's outputs by kinds of inputs, for those that come often."""
    if not (isinstance(data, tuple | list) and len(data) == 2):
        size = f" of {len(data)}" if isinstance(data, tuple | list) else ""
        remedy = f"Pass {argument}=(x, y); weights go into weights=."
        checks.reject(argument, f"{type(data).__name__}{size}", "a pair (x, y)", remedy)
    x, n = check_inputs(argument, data[0], dtype)
    y = np.asarray(data[1])
    if y.ndim == 0 or y.shape[0] != n:
        checks.reject(argument, f"targets y of shape {y.shape} for {n} rows of x", f"{n} targets", "Match the rows.")
    what = f"{argument}: targets y"
    checks.real(what, y)
    checks.finite(what, y, "Remove or impute those rows first.")
    known = {} if known is None else known
    kind = jax.tree.structure(x), *((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(x))
    if kind not in known:
        known[kind] = check_apply("apply", apply, like, x, n)
    targets = likelihood.check(known[kind], y, argument)
    # Targets and weights enter sums over rows: half precision would be too little for them.
    return Data(x, _cast(what, targets, tree.precise(dtype)), _check_weights(weights, n, tree.precise(dtype)))


def _streamed(
    argument: str, source: Source, weights: Any, apply: Apply, like: Params, likelihood: Likelihood, dtype: Any
) -> Data:
    """Data that are read from a source; a few of its rows are looked at here, each batch when it is read."""
    if weights is not None:
        remedy = "Leave weights= out, or pass arrays as data=."
        checks.reject("weights", "weights of rows that are read while a run trains", "None", remedy)
    if not len(source):
        checks.reject(argument, "a source of 0 rows", "at least one row", "Check how it was opened.")

    known: dict[Any, Any] = {}  # a network is not traced again for each batch

    def cast(pair: Any, n: int) -> tuple[Inputs, Any, Any]:
        rows = _check_data(argument, pair, None, apply, like, likelihood, dtype, known)
        if rows.room != n:
            checks.reject(
                argument, f"{rows.room} rows of a source for {n} indices", f"{n} rows", "Return each of them."
            )
        return rows.x, rows.y, rows.weights

    try:
        reader = Reader(source, cast)
    except InvalidInput:
        raise
    except Exception as error:
        given = f"{type(error).__name__} from source[indices]: {error}"
        checks.reject(
            argument, given, "a pair (x, y) for row numbers in any order", "Check source[np.array([1, 0, 0])]."
        )
    x, y, ones = reader.rows(np.zeros(1, np.int64))
    return Streamed(x, y, ones, reader=reader)


def _check_weights(weights: Any, n: int, dtype: Any) -> Any:
    if weights is None:
        return np.ones(n, dtype)
    array = np.asarray(weights)
    if array.shape != (n,):
        checks.reject("weights", f"shape {array.shape}", f"shape ({n},)", "Pass one weight for each row, or None.")
    checks.real("weights", array)
    cast = _cast("weights", array.astype(np.float64), dtype)
    if not ((cast >= 0).all() and cast.sum() > 0):
        given = f"values from {array.min()} to {array.max()}"
        remedy = "Pass one such weight for each row, or None."
        checks.reject("weights", given, "finite weights of at least 0, not all 0", remedy)
    return cast


def _cast(what: str, array: np.ndarray[Any, Any], dtype: Any) -> Any:
    """Floats in the parameters' dtype, integers as they are; refused where that changes more than rounding does."""
    checks.real(what, array)
    if jnp.issubdtype(array.dtype, jnp.floating):
        checks.finite(what, array, "Remove or impute those rows first.")
        with np.errstate(over="ignore"):
            cast = array.astype(dtype)
        checks.finite(f"{what}, as {jnp.dtype(dtype).name}", cast, "Scale the values down: they are too large for it.")
        return cast
    width = jax.dtypes.canonicalize_dtype(array.dtype)
    if array.size and array.dtype != bool:
        limits = np.iinfo(width)
        if array.min() < limits.min or array.max() > limits.max:
            given = f"integers from {array.min()} to {array.max()}"
            checks.reject(what, given, f"integers that fit into {width}", "Number them anew, or pass floats.")
    return array.astype(width)
