"""Training rows: arrays on the host, or a source that is read while a run trains."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.types import Array, HostArray, Inputs

AHEAD = 32  # batches that are kept, those that are read before they are asked for: one for each lane that trains
READERS = 2  # threads that read them
LOOKED_AT = 64  # rows that a source's fingerprint is made from
PIECE = 2**16  # bytes of a callback's argument: JAX copies larger ones in threads that may wait for the callback


@tree.node()
@dataclass(frozen=True, eq=False)
class Data:
    """Rows of inputs, targets and weights, as arrays on the host.

    The arrays may be longer than the data: rows after the first `rows` fill up and are never used. That number is a
    leaf, so that a compiled program serves all data whose arrays have the same shapes.
    """

    x: Inputs
    y: Array
    weights: Array
    rows: int | None = None

    streamed = False

    @property
    def room(self) -> int:
        """Rows of the arrays."""
        return int(self.y.shape[0])

    @property
    def n(self) -> int:
        """Number of rows N; traced inside compiled programs where the arrays are longer."""
        return self.room if self.rows is None else self.rows

    @property
    def used(self) -> int:
        """Rows with a weight, on the host: estimators add some without, and those that fill up do not count."""
        return int(np.count_nonzero(np.asarray(self.weights)[: self.n]))

    def take(self, indices: Array, following: Array | None = None) -> "Data":
        """The rows at `indices`, inside compiled programs; those at `following` will be asked for next."""
        x, y, weights = jax.tree.map(lambda leaf: jnp.take(leaf, indices, axis=0), (self.x, self.y, self.weights))
        return Data(x, y, weights)

    def select(self, indices: HostArray) -> "Data":
        """The rows at `indices`, on the host: nothing is compiled."""
        return Data(*jax.tree.map(lambda leaf: np.asarray(leaf)[indices], (self.x, self.y, self.weights)))

    def filled(self, room: int) -> "Data":
        """The same data in arrays of `room` rows or more."""
        more = room - self.room

        def longer(array: Array) -> Any:
            return np.concatenate([array, np.repeat(array[:1], more, axis=0)]) if more > 0 else array

        x, y, weights = jax.tree.map(longer, (self.x, self.y, self.weights))
        return Data(x, y, weights, self.n)


@runtime_checkable
class Source(Protocol):
    """Rows that are read while a run trains."""

    def __len__(self) -> int: ...

    def __getitem__(self, indices: HostArray) -> tuple[Inputs, Any]: ...


def is_source(value: Any) -> bool:
    """Whether this is no array and no collection of them, but can be read by row numbers."""
    plain = isinstance(value, type | Sequence | Mapping) or hasattr(value, "__array__") or hasattr(value, "dtype")
    return isinstance(value, Source) and not plain


def refuse_source(argument: str, value: Any) -> None:
    """Refuse rows of a source where arrays are wanted: NumPy would read it row by row."""
    if is_source(value):
        remedy = "Pass some of its rows, source[indices], or all of them where they fit into memory."
        checks.reject(argument, f"{type(value).__name__}, rows that are read", "rows in memory", remedy)


class Reader:
    """Reads rows of a source for programs that run, the next batch while the device trains on the last one.

    What it gives depends on the indices alone.

    Args:
        source: Its `len` is the number of rows, and `source[indices]`, for an array of row numbers in any order and
            some of them twice, is a pair (x, y).
        cast: From such a pair to inputs, targets and weights as a program takes them; refuses rows that it cannot take.
    """

    def __init__(self, source: Source, cast: Callable[[Any, int], Any]) -> None:
        self.count = len(source)
        self._source, self._cast = source, cast
        self._lock, self._pool = threading.Lock(), ThreadPoolExecutor(READERS, thread_name_prefix="anchorwalk-rows")
        self._ahead: OrderedDict[bytes, Future[Any]] = OrderedDict()
        places = np.unique(np.linspace(0, self.count - 1, LOOKED_AT).astype(np.int64))
        found = jax.tree.leaves(self.rows(np.append(places[::-1], 0)))  # backwards and one twice, as a run may ask
        leaves = [np.ascontiguousarray(leaf[-2::-1]) for leaf in found]
        self._name = sha256(b"".join(leaf.tobytes() for leaf in leaves)).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"Reader({self.count} rows, some of which are {self._name})"

    def __reduce__(self) -> Any:
        raise TypeError("rows that are read while a run trains cannot be sent to other machines")

    def rows(self, indices: HostArray) -> Any:
        """Inputs, targets and weights of rows."""
        return self._cast(self._source[indices], len(indices))

    def next_batch(self, indices: list[Any], following: list[Any]) -> Any:
        """The same for a program, which gives row numbers in pieces; the rows that follow are read from now on."""
        wanted, later = (np.concatenate(each).astype(np.int64) for each in (indices, following))
        with self._lock:
            found = self._ahead.get(wanted.tobytes())  # it stays a while: lanes that evaluate ask for the same rows
            if later.tobytes() not in self._ahead:
                self._ahead[later.tobytes()] = self._pool.submit(self.rows, later)
            while len(self._ahead) > AHEAD:
                self._ahead.popitem(last=False)[1].cancel()
        # What failed is read again: the next try, such as that of a run that goes on, may get the rows.
        return self.rows(wanted) if found is None or found.cancelled() or found.exception() else found.result()


@tree.node(static=("reader",))
@dataclass(frozen=True, eq=False)
class Streamed(Data):
    """Rows that are read while a run trains; the arrays have the first row alone, for shapes and dtypes."""

    reader: Any = None

    streamed = True

    @property
    def room(self) -> int:
        """Rows of the source."""
        return int(self.reader.count)

    @property
    def used(self) -> int:
        """All rows."""
        return self.room

    def take(self, indices: Array, following: Array | None = None) -> Data:
        """The rows at `indices`, inside compiled programs, which wait for them where they are not there yet."""
        like = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((*indices.shape, *leaf.shape[1:]), leaf.dtype),  # type: ignore[no-untyped-call]
            (self.x, self.y, self.weights),
        )
        wanted, later = (_pieces(each) for each in (indices, indices if following is None else following))
        return Data(*jax.pure_callback(self.reader.next_batch, like, wanted, later, vmap_method="sequential"))

    def select(self, indices: HostArray) -> Data:
        """Some of the rows, in memory."""
        return Data(*self.reader.rows(np.asarray(indices)))

    def filled(self, room: int) -> Data:
        """Refused: such data have a room of their own."""
        checks.reject("filled", "rows that are read while a run trains", "rows in memory", "Pass arrays as data=.")


def _pieces(indices: Array) -> list[Array]:
    """Row numbers as a callback can take them."""
    most = PIECE // indices.dtype.itemsize
    return [indices[start : start + most] for start in range(0, indices.shape[0], most)]
