"""Tables from files: read, checked, made into numbers, fitted and predicted. The command line stands on it.

Import `read`, `fit`, `load`, `TableModel`, `Encoding`, `FitSettings` and `template` from here.
"""

from anchorwalk.app.tables.columns import Encoding
from anchorwalk.app.tables.model import TableModel, fit, load
from anchorwalk.app.tables.reading import read
from anchorwalk.app.tables.settings import FitSettings, template

__all__ = ["Encoding", "FitSettings", "TableModel", "fit", "load", "read", "template"]
