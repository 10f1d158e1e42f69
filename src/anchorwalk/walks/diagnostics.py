"""What a walk is worth, before any training: all from simulating the walk on the standard normal.

The figures are Monte Carlo estimates over independent parameters; a walk knows nothing of data and network.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtr

from anchorwalk import checks
from anchorwalk.types import Array, Key
from anchorwalk.walks.base import Walk, WalkState

PARAMETERS = 20_000
"""Independent parameters in a simulation: an effective size is known to about 1%."""


class WalkSummary(NamedTuple):
    """What `summarize` finds.

    Attributes:
        acceptance: Mean share of accepted proposals.
        effective_anchors: Effective number of independent anchors, over all chains.
        effective_first: The same as judged by x alone.
        effective_second: The same as judged by x squared alone.
        span: Mean share of the prior's mass between the least and the greatest anchor of a chain.
    """

    acceptance: float
    effective_anchors: float
    effective_first: float
    effective_second: float
    span: float


class _Sums(NamedTuple):
    first: Array
    second: Array
    least: Array
    greatest: Array
    acceptance: Array


@jax.jit
def _simulate(key: Key, walk: Walk, members: Array) -> _Sums:
    """Running sums over one chain of `members` anchors for each of PARAMETERS parameters."""
    init_key, step_key = jax.random.split(key)
    state = walk.init(init_key, jnp.zeros(PARAMETERS))
    x = state.position
    sums = _Sums(x, x**2, x, x, jnp.zeros(()))

    def body(i, carry):  # type: ignore[no-untyped-def]
        state, sums = carry
        state, info = walk.step(jax.random.fold_in(step_key, i), state)
        x = state.position
        return state, _Sums(
            sums.first + x,
            sums.second + x**2,
            jnp.minimum(sums.least, x),
            jnp.maximum(sums.greatest, x),
            sums.acceptance + info.acceptance,
        )

    sums_end: _Sums = jax.lax.fori_loop(1, members, body, (state, sums))[1]
    return sums_end


def summarize(walk: Walk, members: int, chains: int = 1, key: Key | None = None) -> WalkSummary:
    """Acceptance, effective anchors and span of a plan of `chains` chains of `members` anchors.

    A chain's average of x has variance v; independent draws would need 1 / v of them for that, and for
    x squared (of variance 2) 2 / v. The effective number of anchors is the smaller of the two:
    a walk that goes round in circles averages x to zero quickly, but does not span the prior.

    Args:
        walk: Any walk.
        members: Anchors in a chain, the first included.
        chains: Independent chains.
        key: For the simulation; fixed unless given, since no member depends on it.

    Example:
        >>> import anchorwalk as aw
        >>> summary = aw.walks.diagnostics.summarize(aw.Independent(), members=100)
        >>> 95 < summary.effective_anchors < 105
        True
    """
    members = checks.count("members", members)
    chains = checks.count("chains", chains)
    sums = _simulate(jax.random.key(0) if key is None else key, walk, members)
    first = np.asarray(sums.first, np.float64) / members
    second = np.asarray(sums.second, np.float64) / members
    effective_first = chains / np.mean(first**2)
    effective_second = chains * 2 / np.mean((second - 1) ** 2)
    return WalkSummary(
        acceptance=float(sums.acceptance) / (members - 1) if members > 1 else 1.0,
        effective_anchors=float(min(effective_first, effective_second)),
        effective_first=float(effective_first),
        effective_second=float(effective_second),
        span=float(jnp.mean(ndtr(sums.greatest) - ndtr(sums.least))),
    )


def acceptance(walk: Walk, key: Key | None = None) -> float:
    """Mean share of proposals that are accepted (estimated over 100 steps).

    Example:
        >>> import anchorwalk as aw
        >>> aw.walks.diagnostics.acceptance(aw.Autoregressive(step_size=0.1))
        1.0
    """
    return summarize(walk, members=101, key=key).acceptance


def effective_anchors(walk: Walk, members: int, chains: int = 1, key: Key | None = None) -> float:
    """The effective number of independent anchors of a plan; see `summarize` for the definition.

    Example:
        >>> import anchorwalk as aw
        >>> still = aw.Autoregressive(step_size=0.001)
        >>> round(aw.walks.diagnostics.effective_anchors(still, members=50, chains=3))
        3
    """
    return summarize(walk, members, chains, key).effective_anchors


def span(walk: Walk, members: int, key: Key | None = None) -> float:
    """Mean share of the prior's mass between the least and the greatest anchor of one chain.

    Example:
        >>> import anchorwalk as aw
        >>> aw.walks.diagnostics.span(aw.GuidedWalk(step_size=0.1), members=1)
        0.0
    """
    return summarize(walk, members, key=key).span


def autocorrelation(walk: Walk, lags: int, key: Key | None = None) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Correlation of a parameter's anchor with the one k steps later, for k = 0 ... lags.

    Example:
        >>> import anchorwalk as aw
        >>> aw.walks.diagnostics.autocorrelation(aw.Autoregressive(step_size=0.6), lags=1).round(1)
        array([1. , 0.8])
    """
    lags = checks.count("lags", lags, least=0)
    start, rest = _lagged(jax.random.key(0) if key is None else key, walk, lags)
    path = np.concatenate([np.asarray(start)[None], np.asarray(rest)]).astype(np.float64)
    return np.asarray(np.mean(path * path[0], axis=1) / np.mean(path[0] ** 2))


def _lagged(key: Key, walk: Walk, lags: int) -> tuple[Array, Array]:
    init_key, step_key = jax.random.split(key)
    state = walk.init(init_key, jnp.zeros(PARAMETERS))
    keys = jax.random.split(step_key, lags)

    def step(state: WalkState, key: Key) -> tuple[WalkState, Array]:
        state, _ = walk.step(key, state)
        return state, state.position

    _, path = jax.lax.scan(step, state, keys)
    return state.position, path
