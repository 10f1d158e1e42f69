"""The paper's benchmark: five tasks, four budgets, methods, scores, records, tables (paper, section 4 and appendix)."""

from anchorwalk.benchmark.experiment import Request, open_case, run
from anchorwalk.benchmark.methods import METHODS
from anchorwalk.benchmark.paper import BUDGETS
from anchorwalk.benchmark.tasks import TASKS, Variant

__all__ = ["BUDGETS", "METHODS", "TASKS", "Request", "Variant", "open_case", "run"]
