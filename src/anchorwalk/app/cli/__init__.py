"""The command line: parse, call, print."""

from anchorwalk.app.cli.app import app

__all__ = ["app"]
