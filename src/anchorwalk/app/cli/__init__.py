"""The command line: parse, call, print. One file for each group of commands.

Import `app`, the whole command, from here.
"""

from anchorwalk.app.cli.app import app

__all__ = ["app"]
