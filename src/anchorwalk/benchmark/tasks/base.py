"""What a task is: data, network, prior, likelihood, the authors' settings, and a reference posterior."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np

from anchorwalk import checks
from anchorwalk.benchmark.references.references import Reference
from anchorwalk.likelihoods import Likelihood
from anchorwalk.networks import Network
from anchorwalk.optimizers import Adam, Training
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem
from anchorwalk.types import HostArray

PROTOCOLS = {
    "argmin": "the argmin on all rows, as Algorithms 1 and 2 say",
    "authors": "a tenth of the rows held back, and the epoch kept that is best on them, as in the authors' runs",
}
"""How a member's optimum is found, by name."""


@dataclass(frozen=True)
class Variant:
    """What of a task may be chosen; None is the task's own.

    Args:
        split: Which gap (uci_gap).
        level: Level of corruption (cifar10c).
        prior_variance: Of every parameter.
        rows: The first so many training rows.
        test_rows: The first so many test rows.
        pixels: How images are scaled (dermamnist).
    """

    split: int | None = None
    level: int | None = None
    prior_variance: float | None = None
    rows: int | None = None
    test_rows: int | None = None
    pixels: str | None = None

    @property
    def chosen(self) -> dict[str, float | str]:
        """What was chosen, by name."""
        return {name: value for name, value in vars(self).items() if value is not None}

    @property
    def words(self) -> tuple[str, ...]:
        """What was chosen, for people."""
        return tuple(f"{name.replace('_', ' ')} {_short(value)}" for name, value in self.chosen.items())


def _short(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:.12g}"


@dataclass(frozen=True)
class AuthorSettings:
    """The authors' settings of a task.

    Attributes:
        batch_size: Rows in a minibatch.
        first: Adam's rate, last rate, b1 and b2 in a training from scratch.
        then: The same in later trainings.
        step: Absolute step of the guided walk.
        prior_variance: Of every parameter.
        later_epochs: Epochs of later trainings, 2 (Table 4) or 10 (Table 5).
        keep: "last", or "best" on held-back rows.
    """

    batch_size: int
    first: tuple[float, float, float, float]
    then: tuple[float, float, float, float]
    step: float
    prior_variance: float
    later_epochs: Literal[2, 10] = 2
    keep: Literal["last", "best"] = "last"

    @property
    def relative_step(self) -> float:
        """Step of the guided walk in prior standard deviations."""
        return self.step / float(np.sqrt(self.prior_variance))

    def training(self, which: Literal["first", "then"], epochs: int, rows: int) -> Training:
        """A training with these settings.

        The authors' loss is not divided by the number of rows and ours is, so Adam's epsilon is divided instead.
        """
        rate, last, b1, b2 = self.first if which == "first" else self.then
        optimizer = Adam(rate, end_rate=last, b1=b1, b2=b2, eps=1e-8 / rows)
        return Training(optimizer, epochs, self.batch_size, keep=self.keep, evaluate=False)


@dataclass(frozen=True, eq=False)
class Case:
    """A task with everything chosen: what an experiment runs on.

    Attributes:
        task: The task's name.
        label: The task and what was chosen, for file names.
        variant: What was chosen.
        problem: Network, likelihood, prior and training rows.
        x_test: Test inputs.
        y_test: Test targets.
        settings: The authors' settings.
        reference: The posterior to compare with, or None.
        side_by_side: Chains of several runs that train side by side; 1 for networks that fill the machine.
        notes: What a reader of the scores should know.
        posterior_of: The variant whose chains sample this case's posterior too, where there is one: the training
            rows are the same ones in another order.
    """

    task: str
    label: str
    variant: Variant
    problem: Problem
    x_test: Any
    y_test: HostArray
    settings: AuthorSettings
    reference: Reference | None
    side_by_side: int = 1
    notes: tuple[str, ...] = ()
    posterior_of: Variant | None = None


@dataclass(frozen=True)
class Task:
    """One of the paper's five tasks.

    Attributes:
        name: As in commands.
        title: As in the paper's tables.
        scores: The scores that the paper reports, in its order.
        settings: The authors' settings.
        options: Names of what may be chosen, beside the prior's variance and the numbers of rows.
        make: Builds a case; loads data.
        variants: The variants of which the full benchmark consists.
    """

    name: str
    title: str
    scores: tuple[str, ...]
    settings: AuthorSettings
    make: Callable[[Variant, AuthorSettings], Case]
    options: tuple[str, ...] = ()
    variants: tuple[Variant, ...] = field(default=(Variant(),))

    def case(self, variant: Variant | None = None, protocol: str = "argmin") -> Case:
        """Load data, and build problem and reference.

        Raises:
            InvalidInput: An option that the task does not have, or an unknown protocol.
        """
        variant = Variant() if variant is None else variant
        checks.choice("protocol", protocol, tuple(PROTOCOLS))
        for name in set(variant.chosen) - {"prior_variance", "rows", "test_rows", *self.options}:
            known = ", ".join(("prior_variance", "rows", "test_rows", *self.options))
            checks.reject(name, f"{variant.chosen[name]} for the task {self.name}", known, f"Leave {name} out.")
        settings = replace(self.settings, keep="best" if protocol == "authors" else "last")
        if variant.prior_variance == settings.prior_variance:  # not another variant, nor another name
            variant = replace(variant, prior_variance=None)
        if variant.prior_variance is not None:
            checks.positive("prior_variance", variant.prior_variance)
            settings = replace(settings, prior_variance=variant.prior_variance)
        return self.make(variant, settings)


def assemble(
    task: str,
    variant: Variant,
    settings: AuthorSettings,
    network: Network,
    likelihood: Likelihood,
    train: tuple[Any, Any],
    test: tuple[Any, Any],
    reference: Reference | None = None,
    side_by_side: int = 1,
    notes: tuple[str, ...] = (),
) -> Case:
    """A case from its parts; cuts rows where the variant asks for fewer.

    Raises:
        InvalidInput: More rows asked for than there are, or fewer than a minibatch.
    """
    (x, y), (x_test, y_test) = train, test
    for name, rows in (("rows", variant.rows), ("test_rows", variant.test_rows)):
        there = len(y) if name == "rows" else len(y_test)
        if rows is not None and not 1 <= rows <= there:
            checks.reject(name, rows, f"from 1 to {there}", f"Choose {name} in that range.")
    x, y = x[: variant.rows], y[: variant.rows]
    x_test, y_test = x_test[: variant.test_rows], y_test[: variant.test_rows]
    prior = Prior(scale=float(np.sqrt(settings.prior_variance)))
    problem = Problem(network.init, network.apply, likelihood, prior, data=(x, y))
    label = "-".join([task, *(f"{name}{_short(value)}" for name, value in variant.chosen.items())])
    if reference is not None:
        reference = reference.first(len(y_test))
        if "prior_variance" in variant.chosen:
            notes = (*notes, "the reference may have been computed with another prior variance than this")
    return Case(task, label, variant, problem, x_test, y_test, settings, reference, side_by_side, notes)
