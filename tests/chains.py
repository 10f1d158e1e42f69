"""Posteriors of chains whose predictions are made up, one number for each row, without any training."""

import numpy as np

import anchorwalk as aw
from anchorwalk.methods.base import ChainState, Member, MemberInfo
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.store import MemoryStore, Round
from anchorwalk.walks.base import WalkState


def look_up(values, rows):
    """A network whose parameters are its outputs: inputs are numbers of rows."""
    return values["outputs"][rows]


def chains_of(values, likelihood=None, status=None, loss=None, lengths=None):
    """A posterior of members with the outputs `values`, shape (chains, members, rows, ...).

    `status` and `loss` have the shape (chains, members); chains of `lengths` end early.
    """
    chains, members = values.shape[:2]
    status = np.zeros((chains, members), np.int32) if status is None else np.asarray(status, np.int32)
    loss = np.full((chains, members), np.nan) if loss is None else np.asarray(loss)
    store = MemoryStore()
    for index in range(members):
        block = tuple(c for c in range(chains) if lengths is None or index < lengths[c])
        chosen, lanes = list(block), len(block)
        numbers = [loss[chosen, index] + 1, loss[chosen, index], 3 * loss[chosen, index], 2 * loss[chosen, index]]
        info = MemberInfo(
            np.asarray(block),
            np.full(lanes, index),
            status[chosen, index],
            *numbers,
            np.full(lanes, 0.75),
            np.ones(lanes),
        )
        member = Member({"outputs": values[chosen, index].astype(np.float32)}, np.zeros((lanes, 1)), info)
        store.commit(Round(block, index, member, ChainState(WalkState((), ()), None, ())))
    likelihood = aw.Normal(scale=0.5) if likelihood is None else likelihood
    return Posterior(store, look_up, likelihood, tuple(store.infos()), {"walk": "made up"}, True)


def autoregressive(rng, correlation, shape):
    """Standard normal chains, each draw correlated with the one before it along the second axis."""
    noise = rng.normal(size=shape)
    values = noise.copy()
    for i in range(1, shape[1]):
        values[:, i] = correlation * values[:, i - 1] + np.sqrt(1 - correlation**2) * noise[:, i]
    return values
