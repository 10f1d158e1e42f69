"""How a member is trained; the long first training and the short later ones differ in nothing else."""

from dataclasses import dataclass, field
from typing import Any, Literal

import optax

from anchorwalk import checks, tree
from anchorwalk.optimizers.recipes import OptaxOptimizer, Optimizer
from anchorwalk.serial import Settings

OPTIMIZER = "Training(optimizer=)"


LEAST_ROOM = 1024
"""Epochs up to which trainings share a program."""


@tree.node(static=("batch_size", "keep", "evaluate", "room"))
@dataclass(frozen=True)
class Training(Settings):
    """One training: an optimiser and how long it runs.

    Args:
        optimizer: `SOAP(...)`, `Adam(...)`, `SGD(...)`, `Lion(...)`, any optax optimiser, or your own; see `Optimizer`.
            Its state is fresh for every member, unless a method keeps it.
        epochs: Passes over the data.
        batch_size: Rows in a minibatch, at most N.
        keep: "last" keeps the parameters after the last epoch, the argmin of Algorithms 1 and 2; "best" those
            after the epoch with the least anchored loss on validation rows, as the authors did.
        evaluate: Whether to compute the full-data loss and gradient norm before and after training (each costs
            about an epoch); without it `MemberInfo` holds NaN in their place.
        mean_first: The first share of the epochs in which the mean learns as if the noise of all rows of a batch were
            the same, such as 0.5, for likelihoods with noise that varies: the mean is learned first, and then where it
            is uncertain. The objective stays the same. None for never; 0 too, in a program that other shares use.

    Raises:
        InvalidInput: A number out of its range, or something that is no optimiser.

    Example:
        >>> import anchorwalk as aw
        >>> aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32).epochs
        100
    """

    optimizer: Any
    epochs: int
    batch_size: int
    keep: Literal["last", "best"] = "last"
    evaluate: bool = True
    mean_first: float | None = None
    room: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.optimizer, optax.GradientTransformation):
            object.__setattr__(self, "optimizer", OptaxOptimizer(self.optimizer))
        example = "Adam(rate), SGD(rate), Lion(rate), an optax optimiser such as optax.adam(rate), or your own"
        checks.instance(OPTIMIZER, self.optimizer, Optimizer, f"{example} with build(steps)")
        checks.pytree(OPTIMIZER, self.optimizer, "an optimiser")
        object.__setattr__(self, "epochs", checks.count("Training(epochs=)", self.epochs))
        object.__setattr__(self, "batch_size", checks.count("Training(batch_size=)", self.batch_size))
        checks.choice("Training(keep=)", self.keep, ("last", "best"))
        if self.mean_first is not None:
            object.__setattr__(self, "mean_first", checks.within("Training(mean_first=)", self.mean_first, 0, 1))
        # Epochs are a number in the compiled program, which has room for a trace of so many of them.
        room = max(LEAST_ROOM, 1 << (self.epochs - 1).bit_length()) if self._any_steps else self.epochs
        object.__setattr__(self, "room", room)

    def using(self, optimizer: Any) -> "Training":
        """The same with another optimiser, inside compiled programs: epochs are traced there, and cannot be checked."""
        same = object.__new__(Training)
        for name, value in (vars(self) | {"optimizer": optimizer}).items():
            object.__setattr__(same, name, value)
        return same

    @property
    def _any_steps(self) -> bool:
        return bool(getattr(self.optimizer, "any_steps", False))

    def steps(self, n: int) -> int:
        """Optimiser steps on `n` rows."""
        return self.epochs * -(-n // self.batch_size)

    def build(self, n: int) -> optax.GradientTransformationExtraArgs:
        """The optimiser for `n` rows.

        Raises:
            InvalidInput: The recipe builds something else.
        """
        epochs = self.epochs if self._any_steps else self.room
        built: Any = self.optimizer.build(epochs * -(-n // self.batch_size))
        if not isinstance(built, optax.GradientTransformation):
            expected = "an optax.GradientTransformation"
            checks.reject(f"{OPTIMIZER}.build(steps)", repr(built), expected, "Return one, such as optax.adam(rate).")
        return optax.with_extra_args_support(built)
