"""How commands fail: one red line that says what to do, and exit code 2. Warnings are a line too."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console

from anchorwalk.errors import AnchorwalkError, NotConvergedWarning

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
    """Show an error of ours, or of the file system, without a traceback, and our warnings without a place in code."""
    usual = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *args: Any, **kwargs: Any) -> None:
        if category.__module__ != AnchorwalkError.__module__:
            usual(message, category, *args, **kwargs)
            return
        settings = ". `anchorwalk init` writes a file with these settings."
        line = f"{message}{settings if category is NotConvergedWarning else ''}"
        console.print(line, style="yellow", markup=False, soft_wrap=True)

    try:
        with warnings.catch_warnings():
            warnings.showwarning = show  # as the module's documentation says; catch_warnings takes it back
            yield
    except (AnchorwalkError, OSError) as error:
        if _debug:
            raise
        console.print(str(error), style="red", markup=False)
        raise typer.Exit(2) from None
