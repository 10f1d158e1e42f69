"""The paper's five tasks, by name: data, network, prior, likelihood, the authors' settings and a reference.

Import `TASKS`, `Case`, `Variant`, `Task`, `AuthorSettings` and `PROTOCOLS` from here.
"""

from anchorwalk.benchmark.tasks.base import PROTOCOLS, AuthorSettings, Case, Task, Variant
from anchorwalk.benchmark.tasks.cifar10 import CIFAR10, CIFAR10C
from anchorwalk.benchmark.tasks.dermamnist import DERMAMNIST
from anchorwalk.benchmark.tasks.imdb import IMDB
from anchorwalk.benchmark.tasks.uci_gap import UCI_GAP

TASKS = {task.name: task for task in (CIFAR10, CIFAR10C, IMDB, DERMAMNIST, UCI_GAP)}

__all__ = ["PROTOCOLS", "TASKS", "AuthorSettings", "Case", "Task", "Variant"]
