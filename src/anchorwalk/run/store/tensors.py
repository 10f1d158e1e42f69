"""Tensors of a safetensors file, read a part at a time and never trusted.

The safetensors package's reader maps whole files into memory and knows no bfloat16 in NumPy. This one reads just the
bytes that are asked for, from a file that is no link, and checks first what the file says of itself.
"""

import hashlib
import math
import os
import weakref
from pathlib import Path
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from anchorwalk import files, tree
from anchorwalk.files import CHUNK, Damaged
from anchorwalk.types import HostArray

PLAIN = ("U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F16", "F32", "F64")
DTYPES = {name: np.dtype(f"{name[0].lower()}{int(name[1:]) // 8}") for name in PLAIN}
DTYPES |= {"BOOL": np.dtype(bool), "BF16": np.dtype(ml_dtypes.bfloat16)}
"""The format's names of dtypes."""
LONGEST_HEADER = 64 * 2**20
MOST_AXES = 32


class Tensor(NamedTuple):
    """Where a tensor stands in its file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int


class TensorFile:
    """A safetensors file that is open for reading; Damaged where size or header are not as they should be."""

    def __init__(self, path: Path, size: int) -> None:
        self._descriptor = files.open_plain(path)
        self._closing = weakref.finalize(self, os.close, self._descriptor)
        try:
            found = os.fstat(self._descriptor).st_size
            if found != size:
                raise Damaged(f"it has {found} bytes, not {size}")
            self.tensors = self._header(size)
        except BaseException:
            self.close()
            raise

    @property
    def identity(self) -> tuple[int, ...]:
        """What changes where somebody writes to the file."""
        return files.identity(self._descriptor)

    def verify(self, sha256: str) -> None:
        """Compare the checksum of what the file holds now; Damaged where it is another."""
        digest, position = hashlib.sha256(), 0
        while chunk := files.read_at(self._descriptor, CHUNK, position):
            digest.update(chunk)
            position += len(chunk)
        if digest.hexdigest() != sha256:
            raise Damaged("its checksum does not fit its content")

    def close(self) -> None:
        """Close the file."""
        self._closing()  # once, however often it is called

    def read(self, name: str, place: tuple[int, ...] = ()) -> HostArray:
        """A tensor, or its part at `place` on the leading axes; Damaged where it has no such part."""
        tensor = self.tensors[name]
        leading, shape = tensor.shape[: len(place)], tensor.shape[len(place) :]
        if len(leading) < len(place) or not all(here < size for here, size in zip(place, leading, strict=True)):
            raise Damaged(f"{name!r} has the shape {tensor.shape}, and nothing at {place}")
        part = int(np.ravel_multi_index(place, leading)) if place else 0
        size = math.prod(shape) * tensor.dtype.itemsize
        return np.frombuffer(self._bytes(tensor.start + part * size, size), tensor.dtype).reshape(shape)

    def _header(self, size: int) -> dict[str, Tensor]:
        length = int.from_bytes(self._bytes(0, 8), "little") if size >= 8 else size
        if not 2 <= length <= min(LONGEST_HEADER, size - 8):
            raise Damaged("it is no safetensors file")
        try:
            entries = files.from_json(files.read_text(self._descriptor, 8, 8 + length))
            entries.pop("__metadata__", None)
            tensors = {str(name): _tensor(entry, 8 + length, size) for name, entry in entries.items()}
            if sum(math.prod(one.shape) * one.dtype.itemsize for one in tensors.values()) > size - 8 - length:
                raise ValueError("tensors that overlap")
            return tensors
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise Damaged(f"its header cannot be read ({error})") from None

    def _bytes(self, start: int, count: int) -> bytes:
        parts = []
        while count > 0:
            part = files.read_at(self._descriptor, count, start)
            if not part:
                raise Damaged("it is cut short")
            parts.append(part)
            start, count = start + len(part), count - len(part)
        return b"".join(parts)


def _tensor(entry: Any, offset: int, size: int) -> Tensor:
    dtype = DTYPES[entry["dtype"]]
    shape = tuple(entry["shape"])
    start, end = entry["data_offsets"]
    if not all(type(number) is int and number >= 0 for number in (*shape, start, end)):
        raise ValueError("a shape or offset that is no number")
    if len(shape) > MOST_AXES or any(number > size for number in shape):
        raise ValueError("an absurd shape")
    if end - start != math.prod(shape) * dtype.itemsize or offset + end > size:
        raise ValueError("a tensor that does not fit into it")
    return Tensor(dtype, shape, offset + start)


def names(value: Any, prefix: str) -> list[str]:
    """A name for each leaf of a tree, such as `params/dense/kernel`; leaves of equal paths get a number behind."""
    result: dict[str, None] = {}
    numbers: dict[str, int] = {}
    for path, _ in tree.named_leaves(value):
        name = candidate = f"{prefix}/{path}" if path else prefix
        while candidate in result:
            numbers[name] = numbers.get(name, 1) + 1
            candidate = f"{name}#{numbers[name]}"
        result[candidate] = None
    return list(result)
