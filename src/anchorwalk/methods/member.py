"""What the methods that train a network for each draw share: one anchored training, as one draw."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.likelihoods import NormalLikelihood, VaryingNoise
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.objective import Evaluation, anchored_loss, evaluate, in_order
from anchorwalk.optimizers import Training, train
from anchorwalk.problem import Problem
from anchorwalk.types import Array, Key, Params


def initialise(key: Key, problem: Problem, attempt: Array) -> Params:
    """Parameters to start from; another attempt starts elsewhere."""
    return tree.typed(problem.init(jax.random.fold_in(key, attempt)))


def prior_mean(problem: Problem) -> Params:
    """The anchor of methods that have none: the prior's mean, in the shape of the parameters."""
    zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, tree.precise(leaf.dtype)), problem.params_like)
    return problem.prior.anchor(zeros)


def train_member(
    order_key: Key,
    problem: Problem,
    training: Training,
    anchor: Params,
    start: Params,
    noise: Array | None = None,
    state: Any = None,
    **info: Array,
) -> tuple[Params, Any, Draws]:
    """TRAIN(θ_anc, θ_init) of Algorithms 1 and 2: parameters and optimiser state for the next training, and the draw.

    Where a training does not stay finite, the next one begins at its start. `noise` perturbs all targets, in units of
    the likelihood's noise; `state` is the optimiser's, where members hand it on; `info` are further numbers of the
    draw.
    """
    params, losses, after = train(order_key, problem, training, anchor, start, noise, state)
    found, draws = judged(problem, training, anchor, start, params, losses, noise, **info)
    return found, None if state is None else tree.where(draws.good[0], after, state), draws


def judged(
    problem: Problem,
    training: Training,
    anchor: Params,
    start: Params,
    params: Params,
    losses: Array,
    noise: Array | None,
    **info: Array,
) -> tuple[Params, Draws]:
    """The draw of a training, with its losses; and the parameters for the next one."""
    if training.evaluate:
        both = jax.tree.map(lambda *leaves: jnp.stack(leaves), start, params)
        # A loop of two, so that the pass over the data is compiled once.
        found = jax.lax.map(lambda one: evaluate(problem, anchor, one, noise, training.batch_size), both)
        before, after = tree.lane(found, 0), tree.lane(found, 1)
        final_loss = after.loss
    else:  # one batch is enough to see whether the loss is finite
        before = after = Evaluation(jnp.full((), jnp.nan), jnp.full((), jnp.nan))
        first_batch = in_order(problem.data, training.batch_size)[0]
        final_loss = anchored_loss(problem, anchor, params, first_batch, noise)
    good = tree.all_finite(params) & jnp.isfinite(final_loss)
    numbers = {
        "loss_start": before.loss,
        "loss_end": after.loss,
        "gradient_norm_start": before.gradient_norm,
        "gradient_norm_end": after.gradient_norm,
        **info,
    }
    draw = Draws(params, losses, good, numbers)
    return tree.where(good, params, start), jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], draw)


def position_like(problem: Problem, perturb_targets: bool) -> jax.ShapeDtypeStruct:
    """Shape and dtype of a walk's position: one vector, for each parameter and, where they are moved, each target."""
    size = problem.size + (problem.data.y.size if perturb_targets else 0)
    dtype = tree.precise(jnp.result_type(*jax.tree.leaves(problem.params_like)))
    return jax.ShapeDtypeStruct((size,), dtype)  # type: ignore[no-untyped-call]


def anchor_at(problem: Problem, position: Array) -> tuple[Params, Array | None]:
    """The anchor θ_anc at a walk's position, and the perturbation of all targets, or None where there is none."""
    parameters, targets = jnp.split(position, [problem.size])
    anchor = problem.prior.anchor(tree.unravel(parameters, problem.params_like, tree.precise))
    if not targets.size:
        return anchor, None
    return anchor, targets.reshape(problem.data.y.shape).astype(problem.data.weights.dtype)


def check_training(argument: str, training: object) -> Training:
    """Refuse what is no training."""
    if not isinstance(training, Training):
        checks.reject(argument, repr(training), "a Training", "Pass Training(optimizer, epochs=, batch_size=).")
    return training


def check_perturbs(method: str, perturb_targets: bool, problem: Problem) -> None:
    """Refuse perturbed targets where the likelihood cannot perturb them, or the targets are not in memory."""
    if perturb_targets and problem.data.streamed:
        given = "True with rows that are read while a run trains"
        checks.reject(f"{method}(perturb_targets=)", given, "rows in memory", "Set perturb_targets=False.")
    if perturb_targets and not isinstance(problem.likelihood, NormalLikelihood):
        given = f"True with {type(problem.likelihood).__name__}()"
        checks.reject(f"{method}(perturb_targets=)", given, "a normal likelihood", "Set perturb_targets=False.")


def prepare(key: Key, problem: Problem, trainings: dict[str, Training | None]) -> Problem:
    """The problem with validation rows held back, where trainings keep their best epoch; refuse too large batches."""
    used = {name: training for name, training in trainings.items() if training is not None}
    held_back = ""
    if any(training.keep == "best" for training in used.values()) and problem.validation is None:
        problem = problem.hold_back(key)
        held_back = ', a tenth of which is held back for keep="best"'
    for name, training in used.items():
        if training.mean_first is not None and not isinstance(problem.likelihood, VaryingNoise):
            given = f"mean_first={training.mean_first} with {type(problem.likelihood).__name__}()"
            checks.reject(name, given, "a likelihood such as HeteroscedasticNormal()", "Set mean_first=None.")
        if training.batch_size > problem.data.room:
            given = f"batch_size={training.batch_size} for {problem.n} rows of data{held_back}"
            checks.reject(name, given, "a batch no larger than the data", f"Set batch_size={problem.n} or less.")
    return problem


class FromScratch:
    """A method of one member a chain, trained from scratch; towards the prior's mean, unless a method overrides it."""

    training: Training
    shared_order: bool = False
    one_member = True

    def __post_init__(self) -> None:
        check_training(f"{type(self).__name__}(training=)", self.training)

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """Hold validation rows back, where the best epoch is kept."""
        return prepare(key, problem, {f"{type(self).__name__}(training=)": self.training})

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """One training."""
        if members != 1:
            remedy = f"Set members=1 and chains={members}: every member is a chain of its own."
            checks.reject("Plan(members=)", f"{members} with {type(self).__name__}", "one member a chain", remedy)
        yield Call("train", passes=self.training.epochs, trace=self.training.epochs)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> Any:
        """An initialisation."""
        return initialise(keys.own, problem, attempt)

    def step(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """Train towards the prior's mean."""
        order_key = keys.shared if self.shared_order else keys.own
        params, _, draws = train_member(order_key, problem, self.training, prior_mean(problem), state)
        return params, draws
