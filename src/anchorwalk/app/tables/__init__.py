"""Tables from files: read, checked, made into numbers, fitted and predicted. The command line stands on it."""

from anchorwalk.app.tables.columns import Encoding
from anchorwalk.app.tables.model import TableModel, fit, load
from anchorwalk.app.tables.reading import read
from anchorwalk.app.tables.settings import Settings, template

__all__ = ["Encoding", "Settings", "TableModel", "fit", "load", "read", "template"]
