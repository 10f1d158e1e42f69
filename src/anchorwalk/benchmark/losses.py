"""The paper's Figure 1 from a real run: 21 sequential members in the epochs of 2 anchored ones."""

from pathlib import Path

import jax
import numpy as np

from anchorwalk.benchmark.tasks import Case
from anchorwalk.methods.ae import AE
from anchorwalk.methods.sae import SAE
from anchorwalk.plan.plan import Plan
from anchorwalk.run.runners import Local
from anchorwalk.run.sample import sample
from anchorwalk.types import HostArray
from anchorwalk.walks import GuidedWalk

FIRST_EPOCHS = 100
SAE_MEMBERS = 21
AE_MEMBERS = 2
COLOURS = {"ae": "#b3541e", "sae": "#1f5f8b", "planned": "#3a7d44"}
"""Of methods in figures."""


def run(case: Case, seed: int = 0) -> dict[str, list[HostArray]]:
    """The loss of each epoch of each member, by method.

    The later trainings share the epochs that a second anchored member takes, 100 / 20 = 5 each.
    """
    settings, rows = case.settings, case.problem.n
    first = settings.training("first", FIRST_EPOCHS, rows)
    then = settings.training("then", FIRST_EPOCHS * (AE_MEMBERS - 1) // (SAE_MEMBERS - 1), rows)
    walk = GuidedWalk(step_size=settings.relative_step)
    plans = {"AE": Plan(AE(first), AE_MEMBERS), "SAE": Plan(SAE(first, then, walk), members=SAE_MEMBERS)}
    runner = Local(lanes=min(AE_MEMBERS, case.side_by_side))
    losses = {}
    for name, plan in plans.items():
        posterior = sample(jax.random.key(seed), case.problem, plan, runner=runner)
        losses[name] = [np.asarray(member.trace) for member in posterior]
    return losses


def draw(losses: dict[str, list[HostArray]], path: Path, title: str) -> None:
    """Loss against epoch, one method above the other, a tick where each member starts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FuncFormatter, LogLocator

    figure, axes = plt.subplots(2, 1, figsize=(9, 5.2), sharex=True, sharey=True, layout="constrained")
    values = np.concatenate([np.concatenate(members) for members in losses.values()])
    shift = 0.05 * (np.max(values) - np.min(values)) - np.min(values)  # a logarithm needs numbers above zero
    plain = FuncFormatter(lambda value, _: f"{value:g}")
    names = {"AE": "Anchored ensemble", "SAE": "Sequential anchored ensemble"}
    for axis, (name, colour) in zip(axes, (("AE", COLOURS["ae"]), ("SAE", COLOURS["sae"])), strict=True):
        members = losses[name]
        starts = np.cumsum([0, *(len(member) for member in members)])
        for start, member in zip(starts, members, strict=False):
            axis.axvline(start + 1, color="0.85", linewidth=0.8, zorder=0)
            axis.plot(start + 1 + np.arange(len(member)), member + shift, color=colour, linewidth=1.4)
        axis.set_yscale("log")
        axis.yaxis.set_major_formatter(plain)
        axis.yaxis.set_minor_formatter(plain)
        axis.yaxis.set_minor_locator(LogLocator(subs=(2, 5)))
        axis.set_title(f"{names[name]}: {len(members)} members", loc="left", fontsize=10)
        axis.set_ylabel("anchored loss (shifted)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1].set_xlabel("epoch (a grey line where a member's training starts)")
    figure.suptitle(title, x=0.01, ha="left", fontsize=11)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=160)
    plt.close(figure)
