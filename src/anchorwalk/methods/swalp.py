"""SWALP (Yang et al. 2019): trainings in low precision, whose places are averaged in float32."""

from dataclasses import dataclass

from anchorwalk import tree
from anchorwalk.methods import member
from anchorwalk.methods.half import train_half
from anchorwalk.methods.swa import Averaging
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Key, Params


@tree.node(static=("points",))
@dataclass(frozen=True)
class SWALP(Averaging, Settings):
    """As `SWA`, with the short trainings in bfloat16: parameters, inputs, activations and gradients.

    The mean has the digits that its places lack. It is for devices where bfloat16 is fast, which CPUs are not.

    Args:
        first: As in `SWA`, in full precision.
        then: As in `SWA`.
        points: As in `SWA`.

    Raises:
        InvalidInput: A number out of its range, or something that is no training.

    Example:
        >>> import anchorwalk as aw
        >>> first = aw.Training(aw.SGD(0.1, end_rate=0.01), epochs=80, batch_size=32)
        >>> then = aw.Training(aw.SGD(0.01), epochs=1, batch_size=32)
        >>> aw.Plan(aw.SWALP(first, then, points=20), chains=10).epochs
        1000
    """

    first: Training | None
    then: Training
    points: int = 20

    title = "Stochastic weight averaging in low precision"

    def next_place(self, key: Key, problem: Problem, params: Params) -> Params:
        """The end of a short training in low precision."""
        found = train_half(key, problem, self.then, member.prior_mean(problem), params)
        return tree.unravel(tree.ravel(found.params), problem.params_like)
