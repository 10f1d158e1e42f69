"""What a plan will cost and what its anchors are worth, before anything runs."""

import dataclasses
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks, tree
from anchorwalk.methods.base import Method
from anchorwalk.optimizers import Training
from anchorwalk.plan.plan import Plan, check_run
from anchorwalk.problem import Problem
from anchorwalk.run.keys import keys_of
from anchorwalk.run.programs import wide_floats
from anchorwalk.run.runners.layout import choose, cores, effort_of
from anchorwalk.walks import diagnostics

COPIES = 4  # of parameters and optimiser state in a compiled training: start, carry, update, gradient or anchor


@dataclass(frozen=True)
class Description:
    """What `describe` finds; it prints as a short table.

    A network has `parameters`, the data training `rows`. `members` and `epochs`, passes over these rows, are over all
    `chains`. `effective_anchors` is the effective number of independent anchors (`walks.diagnostics.summarize`),
    `acceptance` the mean share of the walk's proposals that are accepted, `span` the mean share of the prior's mass
    that one chain's anchors reach over; all three are NaN for a method whose anchors do not walk. `bytes` is the size
    of all members and of the chains' last states, on disk or in memory. `memory` estimates the bytes that the run holds
    at a time, beside what JAX needs for itself: the data, and for each chain at work its state, copies of its
    parameters and of what its optimiser remembers, and the activations of a minibatch.
    """

    parameters: int
    rows: int
    chains: int
    members: int
    epochs: float
    effective_anchors: float
    acceptance: float
    span: float
    bytes: int
    memory: int

    def __str__(self) -> str:
        lines = {
            "network": f"{self.parameters:,} parameters, {self.rows:,} rows",
            "members": f"{self.members:,} ({self.chains:,} chains x {self.members // self.chains:,})",
            "epochs": f"{self.epochs:,}",
            "anchors": f"worth about {self.effective_anchors:,.0f} independent ones",
            "walk": f"acceptance {self.acceptance:.0%}, one chain reaches over {self.span:.0%} of the prior",
            "size": f"{_readable(self.bytes)} of members and states",
            "memory": f"about {_readable(self.memory)} while it runs, beside JAX itself",
        }
        if self.effective_anchors != self.effective_anchors:
            del lines["anchors"], lines["walk"]
        return "\n".join(f"{name:<8} {text}" for name, text in lines.items())


def describe(problem: Problem, plan: Plan) -> Description:
    """Members, epochs, effective anchors and bytes of a plan, without training anything.

    Args:
        problem: What to fit.
        plan: A method, chains and members.

    Raises:
        InvalidInput: What `sample` would refuse.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> problem = aw.Problem(lambda key: jnp.zeros(3), lambda w, x: x @ w, aw.Normal(scale=0.1),
        ...                      aw.Prior(scale=1.0), data=(jnp.ones((64, 3)), jnp.ones(64)))
        >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 2))
        >>> plan = aw.Plan.from_budget(1000, aw.SAE(long, short, aw.Independent()), chains=2)
        >>> print(aw.describe(problem, plan).members)
        402
    """
    checks.outside("describe", problem, plan)
    check_run(problem, plan)
    method = plan.method
    problem = method.prepare(jax.random.key(0), problem)
    summary = diagnostics.WalkSummary(*[float("nan")] * 5)
    if (walk := getattr(method, "walk", None)) is not None:
        summary = diagnostics.summarize(walk, plan.members, plan.chains)
    like = problem.params_like
    keys = keys_of(jax.random.key(0), 0, 0)
    with jax.enable_x64(wide_floats(problem)):
        state = jax.eval_shape(lambda: method.start(keys, problem, jnp.uint32(0)))
        data = sum(np.asarray(leaf).nbytes for leaf in jax.tree.leaves(problem))
        at_work = min(plan.chains, choose(problem, plan.chains, 0.0).lanes * cores())
        memory = data + at_work * (tree.nbytes(state) + _working_set(method, problem))
    return Description(
        parameters=tree.size(like),
        rows=problem.n,
        chains=plan.chains,
        members=plan.total,
        epochs=plan.epochs,
        effective_anchors=summary.effective_anchors,
        acceptance=summary.acceptance,
        span=summary.span,
        bytes=plan.total * tree.nbytes(like) + plan.chains * tree.nbytes(state),
        memory=memory,
    )


def _working_set(method: Method, problem: Problem) -> int:
    """Bytes that one chain needs inside of a call: of its largest training, or of a gradient over all rows."""
    like = problem.params_like
    width = jnp.result_type(*jax.tree.leaves((like, problem.data.weights))).itemsize
    numbers = effort_of(jax.make_jaxpr(problem.apply)(like, problem.row_like).jaxpr).outputs  # of a row's forward pass

    def needs(rows: int, optimizer: Any) -> int:
        return COPIES * (tree.nbytes(like) + tree.nbytes(optimizer)) + numbers * rows * width

    fields: list[Any] = list(vars(method).values()) if dataclasses.is_dataclass(method) else []
    trainings = [value for value in fields if isinstance(value, Training)]
    sizes = [needs(one.batch_size, jax.eval_shape(one.build(problem.n).init, like)) for one in trainings]
    return max(sizes, default=needs(problem.n, ()))


def _readable(number: float) -> str:
    for unit in ("bytes", "KB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
