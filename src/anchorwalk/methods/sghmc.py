"""Stochastic gradient Hamiltonian Monte Carlo (Chen, Fox and Guestrin 2014), at a constant step size and friction."""

from dataclasses import dataclass

from anchorwalk import checks, tree
from anchorwalk.methods.sgld import Langevin
from anchorwalk.optimizers import Training
from anchorwalk.serial import Settings


@tree.node(static=("thin", "batch_size", "warmup"))
@dataclass(frozen=True)
class SGHMC(Langevin, Settings):
    """Langevin dynamics with momentum, from gradients of minibatches: it moves further between draws than `SGLD`.

    Its draws are biased by the gradients' noise and by the step size.

    Args:
        first: As in `SGLD`.
        step_size: As in `SGLD`; a move adds up to about step_size / friction times the gradient.
        friction: What of a move is lost before the next one, from 0 to 1; 1 is `SGLD`.
        thin: As in `SGLD`.
        batch_size: As in `SGLD`.
        warmup: As in `SGLD`.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.Adam(1e-3), epochs=100, batch_size=32)
        >>> aw.Plan(aw.SGHMC(first, step_size=1e-6, thin=5), chains=2, members=80).epochs
        1000
    """

    first: Training | None
    step_size: float
    friction: float = 0.1
    thin: int = 5
    batch_size: int = 32
    warmup: int = 0

    title = "Stochastic gradient Hamiltonian Monte Carlo"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "friction", positive_share("SGHMC(friction=)", self.friction))


def positive_share(argument: str, value: float) -> float:
    """A number above 0 and at most 1."""
    return checks.within(argument, checks.positive(argument, value), 0, 1)
