"""Posteriors of chains whose predictions are made up, one number for each row, without any training."""

import numpy as np

import anchorwalk as aw
from anchorwalk.methods.base import Draws
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.run.store import MemoryStore, Round


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
    for chain in range(chains):
        count = members if lengths is None else lengths[chain]
        own = (slice(chain, chain + 1), slice(count))
        info = {
            "loss_start": loss[own] + 1,
            "loss_end": loss[own],
            "gradient_norm_start": 3 * loss[own],
            "gradient_norm_end": 2 * loss[own],
            "acceptance": np.full((1, count), 0.75),
        }
        params = {"outputs": values[own].astype(np.float32)}
        draws = Draws(params, np.zeros((1, count, 1)), status[own] == 0, info)
        store.commit(Round((chain,), 0, "made up", 0, 0, draws, status[own], 1.0, ()))
    likelihood = aw.Normal(scale=0.5) if likelihood is None else likelihood
    return Posterior(store, look_up, likelihood, tuple(store.infos()), {"walk": "made up"}, True)


def autoregressive(rng, correlation, shape):
    """Standard normal chains, each draw correlated with the one before it along the second axis."""
    noise = rng.normal(size=shape)
    values = noise.copy()
    for i in range(1, shape[1]):
        values[:, i] = correlation * values[:, i - 1] + np.sqrt(1 - correlation**2) * noise[:, i]
    return values
