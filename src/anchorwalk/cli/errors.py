"""How commands fail: one red line that says what to do, and exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from anchorwalk.errors import AnchorwalkError


@contextmanager
def shown(console: Console) -> Iterator[None]:
    """Show an error of ours, or of the file system, without a traceback."""
    try:
        yield
    except (AnchorwalkError, OSError) as error:
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
