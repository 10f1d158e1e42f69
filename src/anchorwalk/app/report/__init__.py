"""A report of a run: one page to open in a browser, and its figures as files.

Import `write`, `ReportData` and `Paths` from here.
"""

from anchorwalk.app.report.data import ReportData
from anchorwalk.app.report.make import Paths, write

__all__ = ["Paths", "ReportData", "write"]
