"""The trainings that methods of the related work begin with: SOAP, as `plan_for` has it, for all of them alike."""

import math

from anchorwalk import checks
from anchorwalk.benchmark.tasks import Case
from anchorwalk.optimizers import SOAP, Training

RATES = {"uci_gap": (0.01, 8, 200), "dermamnist": (3e-3, 56, 20)}
"""By task: the rate, the rows of a batch, and the epochs from which on the rate falls with the root of their number."""
OTHERS = 3e-3, 20
SMALL = 10_000
"""Parameters below which bases are renewed every 32 steps, and not every 10."""
END = 0.01
"""The last rate of a training, as a share of its first."""


def training(case: Case, epochs: int, factor: float = 1.0, end: float | None = END) -> Training:
    """A training from scratch, or with another rate; `end` is the share of the rate that it ends with."""
    rate, batch_size, epochs_of_rate = RATES.get(case.task, (OTHERS[0], case.settings.batch_size, OTHERS[1]))
    rate *= factor * min(1.0, math.sqrt(epochs_of_rate / epochs))
    refresh = 32 if case.problem.size < SMALL else 10
    optimizer = SOAP(rate, end_rate=None if end is None else end * rate, refresh=refresh)
    return Training(optimizer, epochs, batch_size, keep=case.settings.keep, evaluate=False)


def batch_of(case: Case) -> int:
    """Rows of a minibatch."""
    return RATES[case.task][1] if case.task in RATES else case.settings.batch_size


def parts(budget: int, chains: int, share: float, least: int = 1) -> tuple[int, int]:
    """Epochs of a chain's first training, and what is left for the chain.

    Raises:
        InvalidInput: A budget that leaves less than `least` for either.
    """
    each = budget // chains
    first = round(share * each)
    if min(first, each - first) < least:
        expected = f"more: {chains} chains with {first} and {each - first} epochs"
        checks.reject("budget", budget, expected, "Set a larger budget, or settings with fewer chains.")
    return first, each - first
