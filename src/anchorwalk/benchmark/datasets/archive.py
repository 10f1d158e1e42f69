"""Arrays from files of other people's making, looked at before they are used."""

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from anchorwalk import checks
from anchorwalk.errors import InvalidInput
from anchorwalk.types import HostArray

REMEDY = "Put the published file there, or remove this one."
DAMAGE = (OSError, ValueError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What reading a file that is cut short, changed, or of another kind may raise."""


class Layout(NamedTuple):
    """What an array of a file has to be.

    Attributes:
        dtype: Its type.
        shape: Its axes after the first, which counts rows.
    """

    dtype: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.dtype} ({', '.join(map(str, ('rows', *self.shape)))})"


def read_arrays(path: Path, layouts: Mapping[str, Layout], others: tuple[str, ...] = ()) -> dict[str, HostArray]:
    """Read named arrays from an npz file; pickled ones are refused.

    Args:
        path: The file.
        layouts: For each array, what it has to be.
        others: Further arrays to read, which the caller checks.

    Returns:
        The arrays by name.

    Raises:
        InvalidInput: A file that is no npz file or damaged, or that lacks an array or has another in its place.

    Example:
        >>> import tempfile, numpy as np
        >>> from pathlib import Path
        >>> from anchorwalk.benchmark.datasets.archive import Layout, read_arrays
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = Path(folder) / "points.npz"
        ...     np.savez(path, x=np.zeros((5, 2), np.uint8))
        ...     read_arrays(path, {"x": Layout("uint8", (2,))})["x"].shape
        (5, 2)
    """
    whole = ", ".join([f"{name} {layout}" for name, layout in layouts.items()] + list(others))
    try:
        with open(path, "rb") as stream:  # opened here, for np.load leaves a damaged file open
            file = np.load(stream, allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                refuse(path, "a single array", f"an npz file with {whole}")
            missing = [name for name in (*layouts, *others) if name not in file.files]
            if missing:
                refuse(path, f"a file without {', '.join(missing)}", f"an npz file with {whole}")
            arrays = {name: file[name] for name in (*layouts, *others)}
    except InvalidInput:
        raise  # it is a ValueError too, but says already what is wrong
    except DAMAGE as error:
        refuse(path, f"a file that cannot be read ({error})", f"an npz file with {whole}")
    for name, layout in layouts.items():
        array = arrays[name]
        if array.dtype != layout.dtype or array.shape[1:] != layout.shape or not array.shape or not len(array):
            refuse(path, f"{name} {array.dtype} {array.shape}", f"{name} {layout}, one row at least")
    return arrays


def read_labels(path: Path, name: str, labels: HostArray, rows: int, classes: int) -> HostArray:
    """Class numbers, one a row, as int32 of shape (rows,); (rows, 1) is flattened.

    Args:
        path: Where they come from, for messages.
        name: Their name there.
        labels: What the file holds.
        rows: How many there must be.
        classes: All labels have to be below.

    Raises:
        InvalidInput: Labels of another shape or type, or out of range.

    Example:
        >>> import numpy as np
        >>> from pathlib import Path
        >>> from anchorwalk.benchmark.datasets.archive import read_labels
        >>> read_labels(Path("a.npz"), "y", np.array([[1], [0]]), rows=2, classes=2)
        array([1, 0], dtype=int32)
    """
    if labels.shape not in ((rows,), (rows, 1)) or not np.issubdtype(labels.dtype, np.integer):
        refuse(path, f"{name} {labels.dtype} {labels.shape}", f"{name} as {rows} whole numbers, one for each row of x")
    if rows and not (labels.min() >= 0 and labels.max() < classes):
        refuse(path, f"{name} from {labels.min()} to {labels.max()}", f"{name} from 0 to {classes - 1}")
    return labels.ravel().astype(np.int32)


def refuse(path: Path, given: str, expected: str) -> NoReturn:
    """Reject a file by its name.

    Raises:
        InvalidInput: Always.
    """
    checks.reject(str(path), given, expected, REMEDY)
