"""A report of a run: one page to open in a browser, and its figures as files."""

from anchorwalk.app.report.data import Data
from anchorwalk.app.report.make import Paths, write

__all__ = ["Data", "Paths", "write"]
