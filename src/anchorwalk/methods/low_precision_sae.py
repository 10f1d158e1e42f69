"""Sequential anchored ensembles whose later trainings are in low precision, in the way of SWALP (Yang et al. 2019).

The paper on SAE leaves this as future work: short trainings in bfloat16, each member the float32 mean of several ends.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws
from anchorwalk.methods.half import train_half
from anchorwalk.methods.sae import FIRST, SAE, THEN
from anchorwalk.methods.swa import towards
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


@tree.node(static=("perturb_targets", "shared_order", "keep_optimizer", "shift_start", "points"))
@dataclass(frozen=True)
class LowPrecisionSAE(SAE):
    """As `SAE`, with later members from trainings in bfloat16: each is the float32 mean of the ends of several.

    A later member costs `points` trainings of `then`, each from the end of the last. It is for devices where bfloat16
    is fast, which CPUs are not. `keep_optimizer` must be off, and so must `shared_order`.

    Args:
        points: Ends in the mean of a later member.

    Raises:
        InvalidInput: What `SAE` refuses, or an option that does not go with low precision.

    Example:
        >>> import anchorwalk as aw
        >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 2))
        >>> aw.Plan(aw.LowPrecisionSAE(long, short, aw.GuidedWalk(0.1), points=5), chains=2, members=41).epochs
        1000
    """

    points: int = 4

    title = "Sequential anchored ensemble in low precision"
    streams = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.count("LowPrecisionSAE(points=)", self.points)
        for name in ("keep_optimizer", "shared_order"):
            if getattr(self, name):
                checks.reject(f"LowPrecisionSAE({name}=)", True, "False", "Use SAE for that.")

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A first training, then several short ones for each member."""
        first, *later = super().calls(problem, members)
        yield first._replace(kind=FIRST)
        for call in later:
            yield Call(THEN, passes=self.points * call.passes, trace=self.points)

    def _train(
        self,
        key: Key,
        problem: Problem,
        call: Call,
        number: Array,
        anchor: Params,
        start: Params,
        noise: Array | None,
        state: Any,
        acceptance: Array,
    ) -> tuple[Params, Any, Draws]:
        """The mean of the ends of trainings in low precision; the first training is in full precision."""
        if call.kind == FIRST:
            return super()._train(key, problem, call, number, anchor, start, noise, state, acceptance)
        then = self.then
        assert then is not None

        def one(both: tuple[Params, Params], i: Array) -> tuple[tuple[Params, Params], Array]:
            params, mean = both
            found = train_half(jax.random.fold_in(key, i), problem, then, anchor, params, noise)
            return (found.params, towards(mean, found.params, i)), found.losses[then.epochs - 1]

        wide = jax.tree.map(lambda leaf: leaf.astype(tree.precise(leaf.dtype)), start)
        (_, mean), losses = jax.lax.scan(one, (wide, wide), jnp.arange(self.points))
        params = jax.tree.map(lambda leaf, like: leaf.astype(like.dtype), mean, start)
        params, draws = member.judged(problem, then, anchor, start, params, losses, noise, acceptance=acceptance)
        return params, None, draws
