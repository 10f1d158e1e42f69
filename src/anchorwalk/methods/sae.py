"""Sequential anchored ensembles (paper, Algorithm 2): anchors that walk, trainings that start from the last optimum."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods import member
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.optimizers import Training
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks import DEFAULT_WALK, Walk, WalkState, validate_walk

TRAIN, FIRST, THEN = "train", "first", "then"  # kinds of calls; the last two where more than numbers differ


class SAEState(NamedTuple):
    """What the next call of a chain needs."""

    walk: WalkState  # of the anchor and of the targets' perturbation, as one vector
    params: Params  # the last good optimum, from which the next training starts
    optimizer: Any = None  # the optimiser's state, where it is kept


@tree.node(static=("perturb_targets", "shared_order", "keep_optimizer", "shift_start"))
@dataclass(frozen=True)
class SAE(Settings):
    """Chains of networks: a long first training, then a short one after each step of the anchor's walk.

    Args:
        first: The training from scratch of each chain's first member.
        then: The training of each later member from the previous optimum.
        walk: How the anchors walk through the prior.
        perturb_targets: For normal likelihoods: whether a draw of the noise, which walks with the anchor, moves each
            member's targets. The paper has none. On a linear model the members are then exact posterior samples.
        shared_order: Whether all chains visit the rows in one common order. This is faster, but the chains' minibatch
            noise is then no longer independent.
        keep_optimizer: Whether a chain's trainings hand the optimiser's state on, so that a short one need not learn
            the gradient's scale anew. Its schedule begins anew. Both trainings then have optimisers of one kind.
        shift_start: Whether a later training starts from the previous optimum moved as far as its anchor moved, and not
            from the optimum itself. In directions without data the optimum moves so; in others training corrects it.

    Raises:
        InvalidInput: Something that is no training or no walk, or trainings that use different rows.

    Example:
        >>> import anchorwalk as aw
        >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 2))
        >>> aw.Plan(aw.SAE(long, short, aw.GuidedWalk(0.1)), chains=3, members=117).epochs
        996
    """

    first: Training
    then: Training | None = None
    walk: Walk = DEFAULT_WALK
    perturb_targets: bool = False
    shared_order: bool = False
    keep_optimizer: bool = False
    shift_start: bool = False

    title = "Sequential anchored ensemble"
    streams = True

    @property
    def one_member(self) -> bool:
        """Without later trainings a chain has its first member alone."""
        return self.then is None

    def __post_init__(self) -> None:
        member.check_training("SAE(first=)", self.first)
        validate_walk(self.walk)
        if self.then is not None:
            member.check_training("SAE(then=)", self.then)
            if self.then.keep != self.first.keep:
                expected = f"keep={self.first.keep!r}, as in first="
                remedy = "Both trainings of a chain use the same rows."
                checks.reject("SAE(then=)", f"keep={self.then.keep!r}", expected, remedy)

    def evaluating(self, evaluate: bool) -> "SAE":
        """The same, with or without the loss and its gradient on all rows before and after each training."""
        then = self.then and replace(self.then, evaluate=evaluate)
        return replace(self, first=replace(self.first, evaluate=evaluate), then=then)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        member.check_perturbs("SAE", self.perturb_targets, problem)
        if self.keep_optimizer and self.then is not None:
            kinds = [jax.eval_shape(one.build(problem.n).init, problem.params_like) for one in (self.first, self.then)]
            if kinds[0] != kinds[1]:
                given = f"then={self.then.optimizer!r} after first={self.first.optimizer!r}"
                remedy = "Use the same in both trainings."
                checks.reject("SAE(keep_optimizer=)", given, "optimisers of one kind", remedy)
        return member.prepare(key, problem, {"SAE(first=)": self.first, "SAE(then=)": self.then})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """A first training, then later ones; where they differ in numbers alone, one compiled program serves both."""
        if members > 1 and self.then is None:
            remedy = "Pass then=Training(...), the short training, or members=1."
            checks.reject("SAE(then=)", f"None for {members} members a chain", "a Training", remedy)
        alike = self.then is None or len({jax.tree.structure(one) for one in (self.first, self.then)}) == 1
        first, later = (TRAIN, TRAIN) if alike else (FIRST, THEN)
        yield Call(first, passes=self.first.epochs, trace=self.first.epochs)
        for _ in range(members - 1):
            yield Call(later, passes=self.then.epochs, trace=self.then.epochs)  # type: ignore[union-attr]

    def _training(self, call: Call, number: Array) -> Training:
        """The training of a call, whose numbers are chosen inside the program where it serves both kinds."""
        if self.then is None or call.kind == FIRST:
            return self.first
        return self.then if call.kind == THEN else tree.where(number == 0, self.first, self.then)

    def _walk_on(self, key: Key, walk: WalkState) -> tuple[WalkState, Array]:
        """Algorithm 2, line 6: the anchor's next position, and the rate of acceptance."""
        moved, info = self.walk.step(key, walk)
        return moved, jnp.asarray(info.acceptance, float)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> SAEState:
        """Algorithm 2, lines 1 to 3."""
        init_key, walk_key = jax.random.split(keys.own)
        walk = self.walk.init(walk_key, member.position_like(problem, self.perturb_targets))  # Alg. 2, lines 1 and 3
        params = member.initialise(init_key, problem, attempt)  # Alg. 2, line 2
        return SAEState(walk, params, self.first.build(problem.n).init(params) if self.keep_optimizer else None)

    def step(self, keys: Keys, problem: Problem, state: SAEState, call: Call, number: Array) -> tuple[SAEState, Draws]:
        """Algorithm 2, line 4 for the first member and lines 6 to 8 for every later one."""
        order_key, walk_key = jax.random.split(keys.own)
        walk, acceptance, start = state.walk, jnp.ones(()), state.params  # Alg. 2, line 7: from the previous optimum
        if self.then is not None and call.kind != FIRST:
            stay = (walk, acceptance)
            walk, acceptance = jax.lax.cond(number > 0, self._walk_on, lambda *_: stay, walk_key, walk)
            if self.shift_start:  # Differs from the paper, where training starts from the previous optimum itself
                shift = [member.anchor_at(problem, one.position)[0] for one in (walk, state.walk)]
                start = jax.tree.map(lambda p, new, old: (p + (new - old)).astype(p.dtype), start, *shift)
        anchor, noise = member.anchor_at(problem, walk.position)
        order_key = keys.shared if self.shared_order else order_key
        params, optimizer, draws = self._train(  # Alg. 2, lines 4 and 8
            order_key, problem, call, number, anchor, start, noise, state.optimizer, acceptance
        )
        return SAEState(walk, params, optimizer), draws

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
        """As `member.train_member`."""
        training = self._training(call, number)
        return member.train_member(key, problem, training, anchor, start, noise, state, acceptance=acceptance)
