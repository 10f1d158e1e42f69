"""How commands fail: one red line that says what to do, and exit code 2."""

from collections.abc import Iterator
from contextlib import contextmanager

import typer
from rich.console import Console

from anchorwalk.errors import AnchorwalkError

_debug = False


def show_tracebacks(wanted: bool) -> None:
    """Whether errors are to be shown with their traceback, for those who look for a fault."""
    global _debug  # one process is one command
    _debug = wanted


def plain() -> Console:
    """A console that prints users' texts as they are: names such as "price [/m2]" are no markup."""
    return Console(markup=False, highlight=False, emoji=False)


@contextmanager
def shown(console: Console) -> Iterator[None]:
    """Show an error of ours, or of the file system, without a traceback."""
    try:
        yield
    except (AnchorwalkError, OSError) as error:
        if _debug:
            raise
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
