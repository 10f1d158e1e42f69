"""What a plan's anchors are worth, for every task and budget, without any training."""

from dataclasses import dataclass

from anchorwalk.benchmark.paper import VERDICTS
from anchorwalk.benchmark.tasks import TASKS
from anchorwalk.plan.plan import Plan
from anchorwalk.walks import GuidedWalk
from anchorwalk.walks.diagnostics import summarize


@dataclass(frozen=True)
class Worth:
    """Anchors of the paper's plans at one budget.

    Attributes:
        task: Name of the task.
        budget: Epochs.
        step: Of the guided walk, in prior standard deviations.
        ae: Members of the anchored ensemble, whose anchors are independent.
        members: Members of the sequential anchored ensemble.
        effective: What its anchors are worth: the smaller of the effective sizes of x and of x².
    """

    task: str
    budget: int
    step: float
    ae: int
    members: int
    effective: float


def worth(budgets: tuple[int, ...] = (200, 500, 1000, 10_000)) -> list[Worth]:
    """Effective anchors of every task and budget under the authors' steps."""
    found = []
    for task in TASKS.values():
        settings = task.settings
        walk = GuidedWalk(step_size=settings.relative_step)
        for budget in budgets:
            training = settings.training("first", 100, 1000)
            plan = Plan.paper("sae", budget, training, later_epochs=settings.later_epochs)
            effective = summarize(walk, plan.members, plan.chains).effective_anchors
            ae = Plan.paper("ae", budget, training).total
            found.append(Worth(task.name, budget, settings.relative_step, ae, plan.total, effective))
    return found


def markdown(rows: list[Worth]) -> str:
    """The table in Markdown, beside the paper's verdicts."""
    lines = ["| task | walk step (prior sds) | budget | AE anchors | SAE members | SAE anchors worth | the paper |"]
    lines.append("|---|---|---|---|---|---|---|")
    for row in rows:
        numbers = f"{row.step:.3f} | {row.budget:,} | {row.ae} | {row.members:,} | {row.effective:.0f}"
        lines.append(f"| {row.task} | {numbers} | {VERDICTS[row.task]} |")
    return "\n".join(lines) + "\n"
