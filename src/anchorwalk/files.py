"""Files that are there whole or not at all."""

import os
from pathlib import Path


def write(path: Path, content: bytes) -> None:
    """Write a file that is there whole or not at all, also after a crash."""
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
