"""Small problems with known answers, shared by the tests."""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.methods.base import Draws
from anchorwalk.methods.sae import SAEState
from anchorwalk.run.machine import of_machine
from anchorwalk.run.store import DiskStore, Like, Round
from anchorwalk.walks.base import WalkState

# Module-level functions, so that problems made from them share their compiled programs.


def linear_init(key):
    return {"w": jax.random.normal(key, (3,))}


def linear_apply(params, x):
    return x @ params["w"]


@dataclass
class LinearGaussian:
    """Bayesian linear regression with its closed forms (P is the posterior's precision, S the prior's covariance)."""

    mean: float = 0.0
    noise: float = 0.5
    rows: int = 24

    def __post_init__(self):
        rng = np.random.default_rng(1)
        orthogonal, _ = np.linalg.qr(rng.normal(size=(self.rows, 3)))
        mixing = np.array([[1.0, 0.3, 0.0], [0.0, 0.8, 0.2], [0.0, 0.0, 0.6]])
        self.x = orthogonal @ mixing * 2.0
        self.y = self.x @ np.array([1.0, -2.0, 0.5]) + self.noise * rng.normal(size=self.rows)
        self.scale = np.array([0.5, 1.0, 2.0])
        self.prior_precision = np.diag(1 / self.scale**2)
        self.precision = self.x.T @ self.x / self.noise**2 + self.prior_precision

    @property
    def problem(self):
        prior = aw.Prior(scale={"w": self.scale}, mean=self.mean)
        return aw.Problem(linear_init, linear_apply, aw.Normal(scale=self.noise), prior, data=(self.x, self.y))

    @property
    def posterior_mean(self):
        pull = self.prior_precision @ np.full(3, self.mean)
        return np.linalg.solve(self.precision, self.x.T @ self.y / self.noise**2 + pull)

    @property
    def posterior_covariance(self):
        return np.linalg.inv(self.precision)

    @property
    def anchored_covariance(self):
        inverse = np.linalg.inv(self.precision)
        return inverse @ self.prior_precision @ inverse

    def optimum(self, anchor, noise=None):
        y = self.y if noise is None else self.y + self.noise * noise
        return np.linalg.solve(self.precision, self.x.T @ y / self.noise**2 + self.prior_precision @ anchor)

    def training(self, accuracy=1e-7):
        """Full-batch momentum with the best constant rate for a quadratic: linear convergence to the optimum.

        At condition number k the error shrinks by (sqrt(k) - 1) / (sqrt(k) + 1) a step, up to a polynomial.
        """
        eigenvalues = np.linalg.eigvalsh(self.precision / self.rows)
        low, high = np.sqrt(eigenvalues[0]), np.sqrt(eigenvalues[-1])
        root = (high - low) / (high + low)
        optimizer = aw.SGD(float(4 / (low + high) ** 2), momentum=float(root**2))
        epochs = int(1.5 * np.log(accuracy) / np.log(root))
        return aw.Training(optimizer, epochs=epochs, batch_size=self.rows)


Z = 6.0
"""Standard errors, two-sided 2e-9: with 20 comparisons a test, and the tails of products of normals, below 1e-6."""


def assert_moments(draws, mean, covariance, slack=0.0):
    """Draws, (chains, members, D), have a mean and a covariance, up to what `slack` allows the covariance's elements.

    Means over a chain's members are independent between chains: their spread gives the standard error.
    """
    centred = draws - mean
    squares = centred[..., :, None] * centred[..., None, :] - covariance
    for values, more in ((centred.mean(axis=1), 0.0), (squares.mean(axis=1), slack)):
        error = values.mean(axis=0)
        standard_error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        assert np.all(np.abs(error) < Z * standard_error + more), np.abs(error) / standard_error


def small_init(key):
    """One hidden layer of 8 tanh units, from one vector of draws: quick to compile."""
    like = {"hidden": {"bias": jnp.zeros(8), "kernel": jnp.zeros((2, 8))}, "out": jnp.zeros(8), "shift": jnp.zeros(1)}
    return jax.tree.map(lambda leaf: 0.5 * leaf, tree.normal_like(key, like))


def small_apply(params, x):
    hidden = jnp.tanh(x @ params["hidden"]["kernel"] + params["hidden"]["bias"])
    return hidden @ params["out"] + params["shift"]


def small_problem(rows=20, scale=0.5, noise=0.3, **options):
    """A tiny network on a smooth function; 20 rows, so that batches of 7 leave a smaller last one."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, 2))
    y = np.sin(x[:, 0]) + x[:, 1]
    return aw.Problem(small_init, small_apply, aw.Normal(scale=noise), aw.Prior(scale=scale), data=(x, y), **options)


def small_plan(chains=3, members=3, rate=0.01, batch_size=7, walk=None, **options):
    first = aw.Training(aw.Adam(rate, end_rate=rate / 10), epochs=4, batch_size=batch_size)
    then = aw.Training(aw.Adam(rate, end_rate=rate / 10), epochs=2, batch_size=batch_size)
    walk = aw.GuidedWalk(step_size=0.1) if walk is None else walk
    return aw.Plan(aw.SAE(first, then if members > 1 else None, walk, **options), chains, members)


def posterior_of(params: list[Any], apply, likelihood) -> aw.Posterior:
    """A posterior of given members, one chain each, without training."""
    return aw.Posterior.from_members(apply=apply, likelihood=likelihood, members=[[one] for one in params])


def leaves_equal(one, other):
    pairs = list(zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True))
    return bool(pairs) and all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs)


def stacked_params(posterior):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *[member.params for member in posterior])


def zeros_init(key):
    return jnp.zeros(())


ABOUT = {
    "plan": {
        "chains": 2,
        "members": 3,
        "calls": [["first", 1, 4, 1], ["then", 1, 2, 2]],
        "selected": [0, 1],
    },
    "method": {"name": "SAE", "title": "Sequential anchored ensemble"},
    "key": {"implementation": "threefry2x32", "data": [0, 7]},
    "prior": {},
    "likelihood": {"name": "Normal", "settings": {"scale": 0.5}},
    "inputs": {"tree": None, "leaves": []},
    "rows": 20,
}
"""What a run says of itself, for runs that nobody trained."""
VALUES = ("loss_start", "loss_end", "gradient_norm_start", "gradient_norm_end", "acceptance")


def made_up_round(like, chains, index, seed=0):
    """A finished call of arrays that nobody trained, in the shapes and dtypes of `like`: one draw of each chain."""
    rng = np.random.default_rng([seed, index, *chains])
    lead = (len(chains), 1)

    def draw(leaf):
        return rng.normal(size=(*lead, *leaf.shape)).astype(leaf.dtype)

    params = jax.tree.map(draw, like)
    info = {name: rng.normal(size=lead).astype(np.float32) for name in VALUES}
    trace = rng.normal(size=(*lead, 2 if index else 4)).astype(np.float32)
    draws = Draws(params, trace, np.ones(lead, bool), info)
    kind, states = "then" if index else "first", made_up_state(tree.lane(params, (slice(None), 0)))
    return Round(chains, index, kind, 0, index, draws, np.zeros(lead, np.int32), 0.25, states)


def made_up_state(params):
    return SAEState(WalkState(params, ()), params)


def begin(store, like, about=None, header=None):
    """Begin a run that nobody trained."""
    shapes = Like(like, made_up_state(like))
    store.begin({"network": "made up"} | (header or {}), shapes, ABOUT if about is None else about, of_machine(1))


def about_of(chains, members):
    """What a run of these chains and members says of itself."""
    calls = [["first", 1, 4, 1], ["then", 1, 2, members - 1]]
    plan = {"chains": max(chains) + 1, "members": members, "selected": list(chains), "calls": calls}
    return {**ABOUT, "plan": plan}


def made_up_run(folder, like=None, blocks=((0, 1),), members=3, header=None, seed=0, **options):
    """A stored run that nobody trained; returns its members by (chain, index)."""
    like = {"w": jax.ShapeDtypeStruct((3,), np.float32)} if like is None else like
    store = DiskStore(folder, **options)
    begin(store, like, about_of(sorted(chain for block in blocks for chain in block), members), header)
    kept = {}
    for index in range(members):
        for block in blocks:
            one = made_up_round(like, tuple(block), index, seed)
            store.commit(one)
            kept |= {(chain, index): one.member(lane, 0) for lane, chain in enumerate(block)}
    store.end()
    return kept
