"""Members from simplexes of the optima of a sequential ensemble's chain, in the way of SPRO (Benton et al. 2021).

The paper on SAE leaves this as future work. On a linear model a uniform draw from the simplex of K independent optima
has 2 / (K + 1) of their covariance: what lies between optima is nearer to their mean than they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from anchorwalk import checks, tree
from anchorwalk.methods.base import Call, Draws, Keys
from anchorwalk.methods.mode import no_draws
from anchorwalk.methods.sae import SAE
from anchorwalk.problem import Problem
from anchorwalk.serial import Settings
from anchorwalk.types import Array, Key, Params
from anchorwalk.walks import Walk

SPAN, DRAW = "span", "draw"  # kinds of calls after the first


class SimplexSAEState(NamedTuple):
    """The chain's own state, and its last optima."""

    chain: Any
    vertices: Params  # with a leading axis of them


def within(key: Key, vertices: Params, present: Array | None = None) -> Params:
    """A uniform draw from the simplex of vertices, which a leading axis counts; of those `present` alone."""
    leaves = jax.tree.leaves(vertices)
    weights = jax.random.exponential(key, (leaves[0].shape[0],), tree.precise(leaves[0].dtype))
    weights = weights if present is None else jnp.where(present, weights, 0)
    weights = weights / weights.sum()
    return jax.tree.map(lambda leaf: jnp.tensordot(weights, leaf, 1).astype(leaf.dtype), vertices)


@tree.node(static=("vertices", "draws"))
@dataclass(frozen=True)
class SimplexSAE(Settings):
    """Draws from the simplex of a sequential ensemble's last optima: several for the cost of one training.

    Args:
        chain: How the optima are found; it has later trainings.
        vertices: Optima of a simplex. A chain's first draws come after so many trainings.
        draws: Draws from each simplex; the next one has the next optimum in place of its oldest. A chain gets whole
            simplexes: draws beyond the plan's members are made and not used.

    Raises:
        InvalidInput: Something that is no SAE, or one without later trainings.

    Example:
        >>> import anchorwalk as aw
        >>> long, short = (aw.Training(aw.Adam(1e-3), epochs, batch_size=32) for epochs in (100, 10))
        >>> method = aw.SimplexSAE(aw.SAE(long, short, aw.GuidedWalk(0.1)), vertices=4, draws=5)
        >>> aw.Plan(method, chains=2, members=190).epochs
        1000
    """

    chain: SAE
    vertices: int = 4
    draws: int = 4

    title = "Simplexes of a sequential anchored ensemble"

    def __post_init__(self) -> None:
        if not isinstance(self.chain, SAE) or self.chain.then is None:
            remedy = "Pass SAE(first=, then=)."
            checks.reject("SimplexSAE(chain=)", repr(self.chain), "an SAE with later trainings", remedy)
        checks.count("SimplexSAE(vertices=)", self.vertices, least=2)
        checks.count("SimplexSAE(draws=)", self.draws)

    @property
    def walk(self) -> Walk:
        """The walk of the anchors."""
        return self.chain.walk

    def prepare(self, key: Key, problem: Problem) -> Problem:
        """As the chain's own method."""
        return self.chain.prepare(key, problem)

    def calls(self, problem: Problem | None, members: int) -> Iterator[Call]:
        """Trainings that span the first simplex, and then one for each simplex."""
        first, later = self.chain.calls(problem, 2)
        yield first._replace(draws=0, trace=None)
        for _ in range(self.vertices - 2):
            yield Call(SPAN, draws=0, passes=later.passes)
        for _ in range(-(-members // self.draws)):
            yield Call(DRAW, self.draws, later.passes, later.trace)

    def start(self, keys: Keys, problem: Problem, attempt: Array) -> SimplexSAEState:
        """The chain's own, and no optimum yet."""
        chain = self.chain.start(keys, problem, attempt)
        none = jax.tree.map(lambda leaf: jnp.zeros((self.vertices, *leaf.shape), leaf.dtype), chain.params)
        return SimplexSAEState(chain, none)

    def step(self, keys: Keys, problem: Problem, state: Any, call: Call, number: Array) -> tuple[Any, Draws]:
        """A training, and draws from the simplex that it completes."""
        first, later = self.chain.calls(problem, 2)
        inner = later if call.kind in (SPAN, DRAW) else first
        train_key, draw_key = jax.random.split(keys.own)
        chain, found = self.chain.step(keys._replace(own=train_key), problem, state.chain, inner, number)
        vertices = jax.tree.map(lambda old, new: jnp.concatenate([old[1:], new[None]]), state.vertices, chain.params)
        state = SimplexSAEState(chain, vertices)
        if not call.draws:
            # A chain without a first optimum is begun anew at its first draw.
            broken = jax.tree.map(lambda leaf: jnp.where(found.good[0], leaf, jnp.nan), vertices)
            return state._replace(vertices=broken), no_draws(problem)
        params = jax.vmap(within, in_axes=(0, None))(jax.random.split(draw_key, self.draws), vertices)
        # Losses are the optimum's, and no draw's between optima.
        found = found._replace(info={"acceptance": found.info["acceptance"]})
        repeated = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf[0], (self.draws, *leaf.shape[1:])), found)
        return state, repeated._replace(params=params)
