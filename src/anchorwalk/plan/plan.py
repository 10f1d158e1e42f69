"""A plan: a method, its chains and their members; and how a budget of epochs becomes one (paper, Tables 4 and 5)."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from anchorwalk import checks
from anchorwalk.methods.ae import AE
from anchorwalk.methods.base import Method
from anchorwalk.methods.member import check_training
from anchorwalk.methods.sae import SAE
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import to_json

PAPER_CHAINS = {200: 1, 500: 2, 1000: 3, 10_000: 10}  # of sequential ensembles, by budget in epochs (Tables 4, 5)
PAPER_FIRST_EPOCHS = 100  # epochs of a training from scratch, in every plan of the paper


@dataclass(frozen=True)
class Plan:
    """A method, its chains, and the members of each chain.

    Args:
        method: `SAE(...)`, `AE(...)`, `DeepEnsemble(...)`, `SWAG(...)`, `HMC(...)`, another, or one of your own.
        chains: Independent chains.
        members: Members of each chain, the first included.

    Raises:
        InvalidInput: A count below one, or members that the method cannot make.

    Example:
        >>> import anchorwalk as aw
        >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 2))
        >>> plan = aw.Plan(aw.SAE(long, short), chains=3, members=117)
        >>> plan.total, plan.epochs
        (351, 996)
    """

    method: Method
    chains: int = 1
    members: int = 1

    def __post_init__(self) -> None:
        checks.instance("Plan(method=)", self.method, Method, "SAE(first=, then=), AE(training) or another method")
        object.__setattr__(self, "chains", checks.count("Plan(chains=)", self.chains))
        object.__setattr__(self, "members", checks.count("Plan(members=)", self.members))
        next(iter(self.method.calls(None, self.members)))  # refuses what it cannot make

    @property
    def total(self) -> int:
        """Members over all chains."""
        return self.chains * self.members

    @property
    def epochs(self) -> float:
        """Passes over the training rows, over all chains; a whole number where each call's is."""
        return _whole(self.chains * _cost(self.method, None, self.members))

    def to_json(self) -> dict[str, Any]:
        """The plan as JSON, to be read by people and other programs."""
        method = to_json("Plan(method=)", self.method)
        return {"chains": self.chains, "members": self.members, "epochs": self.epochs, "method": method}

    @classmethod
    def from_budget(
        cls,
        budget: int,
        method: Method,
        chains: int | None = None,
        members: int | None = None,
        problem: Problem | None = None,
    ) -> "Plan":
        """The largest plan that a budget holds, rounded down; `plan.epochs` is what it spends.

        Args:
            budget: Passes over the training rows, over all chains.
            method: What to run.
            chains: Independent chains. By default one, or for a method of one member a chain as many as fit.
            members: Members of a chain; by default as many as fit. Needed where later members cost nothing.
            problem: For methods whose costs depend on the data.

        Raises:
            InvalidInput: A budget that cannot hold one member of each chain.

        Example:
            >>> import anchorwalk as aw
            >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 2))
            >>> plan = aw.Plan.from_budget(1000, aw.SAE(long, short), chains=3)
            >>> plan.total, plan.epochs
            (351, 996)
            >>> aw.Plan.from_budget(1050, aw.AE(long)).total
            10
        """
        budget = checks.count("budget", budget)
        checks.instance("method", method, Method, "SAE(first=, then=), AE(training) or another method")
        alone = bool(getattr(method, "one_member", False))
        least = _cost(method, problem, 1 if members is None else checks.count("members", members))
        if chains is None:
            chains = max(1, int(budget // least)) if alone and least > 0 else 1
        chains = checks.count("chains", chains)
        if budget < chains * least:
            smallest = _whole(chains * least)
            expected = f"at least {smallest} epochs, {chains} x {_whole(least)} for the first members"
            checks.reject("budget", f"{budget} epochs", expected, f"Set budget={smallest} or more, or fewer chains.")
        if members is None:
            members = 1 if alone else _most_members(method, problem, budget / chains)
        return cls(method, chains, members)

    @classmethod
    def paper(
        cls,
        method: Literal["ae", "sae"],
        budget: int,
        first: Training,
        then: Training | None = None,
        *,
        later_epochs: Literal[2, 10] = 2,
        **options: Any,
    ) -> "Plan":
        """A plan of the paper's Table 4, or of Table 5 (UCI-Gap) with `later_epochs=10`, to the member.

        Args:
            method: "ae" or "sae".
            budget: 200, 500, 1000 or 10,000 epochs.
            first: Optimiser and batch size of the training from scratch; its epochs are set to 100.
            then: The same for later trainings; its epochs are set to `later_epochs`. By default as `first`.
            later_epochs: 2 in Table 4, 10 in Table 5.
            options: Further arguments of `AE` or `SAE`, such as `walk`.

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
        first = replace(check_training("first", first), epochs=PAPER_FIRST_EPOCHS)
        if method == "ae":
            return cls.from_budget(budget, AE(first, **options))
        then = replace(check_training("then", first if then is None else then), epochs=later_epochs)
        return cls.from_budget(budget, SAE(first, then, **options), chains=PAPER_CHAINS[budget])


def check_run(problem: object, plan: object) -> None:
    """Refuse what is no problem and what is no plan."""
    if not isinstance(problem, Problem):
        checks.reject("problem", type(problem).__name__, "a Problem", "Pass Problem(init=, apply=, ...).")
    if not isinstance(plan, Plan):
        checks.reject("plan", type(plan).__name__, "a Plan", "Pass Plan(method, ...) or Plan.from_budget(...).")


def _cost(method: Method, problem: Problem | None, members: int) -> float:
    return sum(call.passes for call in method.calls(problem, members))


def _most_members(method: Method, problem: Problem | None, budget: float) -> int:
    """Members of a chain that a budget holds; InvalidInput where they cost nothing, and any number fits."""
    if _cost(method, problem, 3) <= _cost(method, problem, 1):
        remedy = "Pass members=, how many you want."
        checks.reject("members", "None for a method whose later members cost nothing", "a number", remedy)
    low, high = 1, 2
    while _cost(method, problem, high) <= budget:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if _cost(method, problem, middle) <= budget else (low, middle)
    return low


def _whole(number: float) -> float:
    return int(number) if float(number).is_integer() else number
