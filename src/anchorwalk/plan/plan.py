"""A plan: how a budget of epochs becomes chains and members (paper, Tables 4 and 5)."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from anchorwalk import checks
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.types import Key

PAPER_CHAINS = {200: 1, 500: 2, 1000: 3, 10_000: 10}
"""Chains of the paper's sequential ensembles, by budget in epochs (Tables 4 and 5)."""
PAPER_FIRST_EPOCHS = 100
"""Epochs of a training from scratch, in every plan of the paper."""


@dataclass(frozen=True)
class Plan:
    """Chains, members of a chain, and how each is trained.

    Args:
        chains: Independent chains.
        members: Members of each chain, the first included. One makes it an anchored ensemble (Alg. 1).
        first: The training from scratch of each chain's first member.
        then: The training of each later member from the previous optimum.
        shared_order: Whether all chains visit the rows in one common order. It is faster (one gather
            serves all chains), and the chains' minibatch noise is then no longer independent.

    Raises:
        InvalidInput: A count below one, or several members without `then`.

    Example:
        >>> import anchorwalk as aw
        >>> long = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
        >>> short = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=32)
        >>> plan = aw.Plan(chains=3, members=117, first=long, then=short)
        >>> plan.total, plan.epochs
        (351, 996)
    """

    chains: int
    members: int
    first: Training
    then: Training | None = None
    shared_order: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "chains", checks.count("Plan(chains=)", self.chains))
        object.__setattr__(self, "members", checks.count("Plan(members=)", self.members))
        _check_training("Plan(first=)", self.first)
        if self.members > 1 or self.then is not None:
            remedy = "Pass then=Training(...), the short training, or members=1."
            _check_training(f"Plan(then=) with {self.members} members a chain", self.then, remedy)
            assert self.then is not None
            if self.then.keep != self.first.keep:
                expected = f"keep={self.first.keep!r}, as in first="
                remedy = "Both trainings of a plan use the same rows."
                checks.reject("Plan(then=)", f"keep={self.then.keep!r}", expected, remedy)

    @property
    def total(self) -> int:
        """Members over all chains."""
        return self.chains * self.members

    @property
    def epochs(self) -> int:
        """Epochs spent over all chains."""
        later = self.then.epochs * (self.members - 1) if self.then is not None else 0
        return self.chains * (self.first.epochs + later)

    def training(self, index: int) -> Training:
        """The training of the member at `index` of a chain."""
        if index == 0:
            return self.first
        assert self.then is not None
        return self.then

    def evaluating(self, evaluate: bool) -> "Plan":
        """The same plan, with or without the loss and its gradient on all rows before and after each training."""
        then = self.then and replace(self.then, evaluate=evaluate)
        return replace(self, first=replace(self.first, evaluate=evaluate), then=then)

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, to be read by people and other programs."""
        return {
            "chains": self.chains,
            "members": self.members,
            "epochs": self.epochs,
            "shared_order": self.shared_order,
            "first": self.first.to_json(),
            "then": self.then and self.then.to_json(),
        }

    @classmethod
    def from_budget(
        cls,
        budget: int,
        chains: int | None = None,
        first: Training | None = None,
        then: Training | None = None,
        shared_order: bool = False,
    ) -> "Plan":
        """The largest plan that a budget holds, rounded down; `plan.epochs` is what it spends.

        Args:
            budget: Epochs over all chains.
            chains: Independent chains. By default one with `then`, and without it as many as fit.
            first: The training from scratch.
            then: The short training, or None for an anchored ensemble.
            shared_order: See `Plan`.

        Raises:
            InvalidInput: A budget that cannot hold one first training for each chain.

        Example:
            >>> import anchorwalk as aw
            >>> long = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
            >>> short = aw.Training(aw.Adam(1e-3), epochs=2, batch_size=32)
            >>> plan = aw.Plan.from_budget(1000, chains=3, first=long, then=short)
            >>> plan.total, plan.epochs
            (351, 996)
            >>> aw.Plan.from_budget(1050, first=long).total
            10
        """
        budget = checks.count("budget", budget)
        first = _check_training("from_budget(first=)", first)
        if chains is None:
            chains = max(1, budget // first.epochs) if then is None else 1
        chains = checks.count("chains", chains)
        if then is not None:
            _check_training("from_budget(then=)", then)
        smallest = chains * first.epochs
        if budget < smallest:
            expected = f"at least {smallest} epochs, {chains} x {first.epochs} for one first training a chain"
            checks.reject("budget", f"{budget} epochs", expected, f"Set budget={smallest} or more, or fewer chains.")
        members = 1 if then is None else 1 + (budget // chains - first.epochs) // then.epochs
        return cls(chains, members, first, then, shared_order)

    @classmethod
    def paper(
        cls,
        method: Literal["ae", "sae"],
        budget: int,
        first: Training,
        then: Training | None = None,
        *,
        later_epochs: Literal[2, 10] = 2,
    ) -> "Plan":
        """A plan of the paper's Table 4, or of Table 5 (UCI-Gap) with `later_epochs=10`, to the member.

        Args:
            method: "ae" or "sae".
            budget: 200, 500, 1000 or 10,000 epochs.
            first: Optimiser and batch size of the training from scratch; its epochs are set to 100.
            then: The same for later trainings; its epochs are set to `later_epochs`. By default as `first`.
            later_epochs: 2 in Table 4, 10 in Table 5.

        Example:
            >>> import anchorwalk as aw
            >>> training = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
            >>> [aw.Plan.paper("sae", budget, training).total for budget in (200, 500, 1000, 10_000)]
            [51, 152, 351, 4510]
        """
        checks.choice("method", method, ("ae", "sae"))
        if budget not in PAPER_CHAINS:
            checks.reject("budget", budget, "200, 500, 1000 or 10000", "Use Plan.from_budget for other budgets.")
        if later_epochs not in (2, 10):
            checks.reject("later_epochs", later_epochs, "2 (Table 4) or 10 (Table 5)", "Use Plan.from_budget.")
        first = replace(_check_training("first", first), epochs=PAPER_FIRST_EPOCHS)
        if method == "ae":
            return cls.from_budget(budget, first=first)
        then = replace(_check_training("then", first if then is None else then), epochs=later_epochs)
        return cls.from_budget(budget, chains=PAPER_CHAINS[budget], first=first, then=then)


def prepare_problem(key: Key, problem: Problem, plan: Plan) -> Problem:
    """The problem as a plan trains it: with validation rows held back where it keeps the best epoch.

    Raises:
        InvalidInput: No problem, no plan, or batches that are larger than the data.
    """
    if not isinstance(problem, Problem):
        checks.reject("problem", type(problem).__name__, "a Problem", "Pass Problem(init=, apply=, ...).")
    if not isinstance(plan, Plan):
        checks.reject("plan", type(plan).__name__, "a Plan", "Pass Plan(...) or Plan.from_budget(...).")
    held_back = ""
    if plan.first.keep == "best" and problem.validation is None:
        problem = problem.hold_back(key)
        held_back = ', a tenth of which is held back for keep="best"'
    for name, training in (("first", plan.first), ("then", plan.then)):
        if training is not None and training.batch_size > problem.n:
            given = f"batch_size={training.batch_size} for {problem.n} rows of data{held_back}"
            remedy = f"Set batch_size={problem.n} or less."
            checks.reject(f"Plan({name}=)", given, "a batch no larger than the data", remedy)
    return problem


def _check_training(
    argument: str, training: Training | None, remedy: str = "Pass Training(optimizer, epochs=, batch_size=)."
) -> Training:
    if not isinstance(training, Training):
        checks.reject(argument, repr(training), "a Training", remedy)
    return training
