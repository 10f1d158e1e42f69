"""One chain of Algorithm 2, as two functions: its first member, and the next member after any other.

Algorithm 1 is a chain of one member. All randomness of a member comes from its own keys:
chain key = fold_in(root, chain), member key = fold_in(chain key, index), split into named keys once.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import tree
from anchorwalk.errors import Status
from anchorwalk.methods.base import ChainState, Member, MemberInfo
from anchorwalk.objective import Evaluation, anchored_loss, evaluate, in_order
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.run.keys import member_keys
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks.base import Walk


class Recipe(NamedTuple):
    """What all members of a run share: problem, walk and training are trees, so another value compiles nothing."""

    problem: Problem
    walk: Walk
    training: Training


class Options(NamedTuple):
    """What decides the form of the compiled programs, beside the shapes of everything.

    Attributes:
        shared_order: See `Plan`.
        perturb_targets: See `sample`.
    """

    shared_order: bool
    perturb_targets: bool


def start_chain(root: Key, recipe: Recipe, options: Options, chain: Array, attempt: Array) -> tuple[ChainState, Member]:
    """The first member of a chain: anchor, initialisation, long training.

    Args:
        root: The run's key.
        recipe: Problem, walk and training.
        options: What decides the form of the program.
        chain: The chain's number.
        attempt: 0, and one more each time the training diverged; decides the initialisation alone, so that
            a chain never gets to choose its anchor.
    """
    problem, walk, _ = recipe
    index = jnp.zeros((), jnp.int32)
    keys = member_keys(root, chain, index, options.shared_order)
    walk_state = walk.init(keys.walk, problem.params_like)  # Alg. 2, lines 1 and 3
    noise = walk.init(keys.noise, _noise_like(problem)) if options.perturb_targets else None
    params = tree.typed(problem.init(jax.random.fold_in(keys.init, attempt)))  # Alg. 2, line 2
    state = ChainState(walk_state, noise, params)
    return _train_member(keys.order, recipe, state, chain, index, jnp.ones(()))  # Alg. 2, line 4


def step_chain(
    root: Key,
    recipe: Recipe,
    options: Options,
    chain: Array,
    index: Array,
    state: ChainState,
) -> tuple[ChainState, Member]:
    """The next member of a chain: a step of the walk, then a short training from the last good optimum.

    Args:
        root: The run's key.
        recipe: Problem, walk and training.
        options: What decides the form of the program.
        chain: The chain's number.
        index: The new member's place in the chain.
        state: What the previous member left.
    """
    keys = member_keys(root, chain, index, options.shared_order)
    walk_state, info = recipe.walk.step(keys.walk, state.walk)  # Alg. 2, line 6
    noise = state.noise
    if options.perturb_targets:
        assert noise is not None
        noise, _ = recipe.walk.step(keys.noise, noise)
    state = ChainState(walk_state, noise, state.params)  # Alg. 2, line 7: start from the previous optimum
    return _train_member(keys.order, recipe, state, chain, index, info.acceptance)  # Alg. 2, line 8


def _train_member(
    order_key: Key, recipe: Recipe, state: ChainState, chain: Array, index: Array, acceptance: Array
) -> tuple[ChainState, Member]:
    problem, _, training = recipe
    anchor = problem.prior.anchor(state.walk.position)
    noise = None if state.noise is None else state.noise.position
    params, losses = train(order_key, problem, training, anchor, state.params, noise)
    start, end = _evaluate_both(problem, training, anchor, state.params, params, noise)
    final_loss = end.loss
    if not training.evaluate:  # one batch is enough to see whether the loss is finite
        first_batch = tree.lane(in_order(problem.n, training.batch_size), 0)
        final_loss = anchored_loss(problem, anchor, params, first_batch, noise)
    good = tree.all_finite(params) & jnp.isfinite(final_loss)
    info = MemberInfo(
        chain=chain,
        index=index,
        status=jnp.where(good, int(Status.OK), int(Status.DIVERGED)),
        loss_start=start.loss,
        loss_end=end.loss,
        gradient_norm_start=start.gradient_norm,
        gradient_norm_end=end.gradient_norm,
        acceptance=acceptance,
        seconds=jnp.zeros(()),
    )
    next_state = ChainState(state.walk, state.noise, tree.where(good, params, state.params))
    return next_state, Member(params, losses, info)


def _evaluate_both(
    problem: Problem, training: Training, anchor: Params, before: Params, after: Params, noise: Array | None
) -> tuple[Evaluation, Evaluation]:
    if not training.evaluate:
        nan = jnp.full((), jnp.nan)
        return Evaluation(nan, nan), Evaluation(nan, nan)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), before, after)
    # A loop of two, so that the pass over the data is compiled once.
    found = jax.lax.map(lambda params: evaluate(problem, anchor, params, noise, training.batch_size), both)
    return tree.lane(found, 0), tree.lane(found, 1)


def state_like(problem: Problem, walk: Walk, options: Options) -> ChainState:
    """Shapes and dtypes of a chain's state."""
    key, like = jax.random.key(0), problem.params_like
    noise = jax.eval_shape(walk.init, key, _noise_like(problem)) if options.perturb_targets else None
    return ChainState(jax.eval_shape(walk.init, key, like), noise, like)


def _noise_like(problem: Problem) -> Params:
    return jax.eval_shape(lambda: jnp.zeros(problem.data.y.shape, problem.data.weights.dtype))
