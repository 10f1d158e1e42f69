"""Tables from files: read, checked, made into numbers, fitted and predicted. The command line stands on it.

Import `read`, `Reading`, `fit`, `load`, `TableModel`, `write`, `check_kind`, `FitSettings` and `template` from here.
"""

from anchorwalk.app.tables.model import TableModel, fit, load
from anchorwalk.app.tables.reading import Reading, read
from anchorwalk.app.tables.settings import FitSettings, template
from anchorwalk.app.tables.writing import check_kind, write

__all__ = ["FitSettings", "Reading", "TableModel", "check_kind", "fit", "load", "read", "template", "write"]
