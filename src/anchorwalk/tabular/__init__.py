"""Tables from files: read, checked, made into numbers, fitted and predicted. The command line stands on it."""

from anchorwalk.tabular.columns import Encoding
from anchorwalk.tabular.model import TableModel, fit, load
from anchorwalk.tabular.reading import read
from anchorwalk.tabular.settings import Settings, template

__all__ = ["Encoding", "Settings", "TableModel", "fit", "load", "read", "template"]
