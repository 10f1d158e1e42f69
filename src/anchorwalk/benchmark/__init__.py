"""The paper's experiment: five tasks, four budgets, methods, scores, records, tables (paper, section 4 and appendix).

Import `open_case`, `run`, `Request`, `Variant` and the tables of names from here; `records` reads and writes results.
Data sets, networks and reference posteriors of the paper have packages of their own below.
"""

from anchorwalk.benchmark.experiment import Request, open_case, run
from anchorwalk.benchmark.methods import METHODS
from anchorwalk.benchmark.paper import BUDGETS
from anchorwalk.benchmark.tasks import TASKS, Variant

__all__ = ["BUDGETS", "METHODS", "TASKS", "Request", "Variant", "open_case", "run"]
