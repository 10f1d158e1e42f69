"""The paper's benchmark: five tasks, four budgets, methods, scores, records, tables (paper, section 4 and appendix)."""

from anchorwalk.benchmarks.experiment import Request, open_case, run
from anchorwalk.benchmarks.methods import METHODS
from anchorwalk.benchmarks.paper import BUDGETS
from anchorwalk.benchmarks.tasks import TASKS, Variant

__all__ = ["BUDGETS", "METHODS", "TASKS", "Request", "Variant", "open_case", "run"]
