"""The command line: parse, call, print."""

from anchorwalk.cli.app import app

__all__ = ["app"]
