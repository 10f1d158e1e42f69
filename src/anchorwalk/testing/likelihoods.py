"""The contract of likelihoods."""

import json
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.likelihoods import ClassLikelihood, Likelihood, NormalLikelihood, OrderedLikelihood, VaryingNoise
from anchorwalk.testing.common import DKW, close, require
from anchorwalk.types import Array, HostArray, Key

ROWS = 8
"""Rows on which a likelihood is judged."""
DRAWS = 2**16
"""Draws of each row's target."""
GROUPS = 64
"""Groups of draws, whose means have a median."""
SPREAD = 2.5
"""Standard errors of a group's mean that the median may be off. By Cantelli's inequality a group's mean is further off
to one side with a probability of 1 / (1 + 2.5^2) at most, whatever the distribution, and half of 64 groups with
one below 6e-12."""
GRID = np.sinh(np.linspace(-12.2, 12.2, 2**13))
"""Where distribution functions are looked at, up to 1e5 standard deviations from the mean, in steps of 0.3%. They are
below 1e-10 and above 1 - 1e-10 at the ends, again by Cantelli's inequality."""
INTEGRAL = 0.01
"""How far integrals over that grid may be off: a jump of the distribution function costs up to 0.3%."""


def check_likelihood(likelihood: Likelihood, outputs: Any, y: Any, key: Key | None = None) -> None:
    """Run the contract of likelihoods on `likelihood`.

    - It is a pytree, and its methods do under `jit` and `vmap` what they do without. `to_json` gives JSON.
    - `check` refuses targets of another shape. `log_prob` has one number for each row, which depends on that row alone
      and has a finite gradient.
    - `mean` and `variance` have one shape. 65,536 draws of each target have that mean, and are independent between
      rows.
    - Of classes, `variance`, `entropy` and, with one target a row, `log_prob` follow from the probabilities.
    - `cdf` rises from 0 to 1 and is that of the draws; mean, variance (to 1%) and, with one target a row, `log_prob`
      follow from it. `snap` leaves draws as they are.
    - `perturbed_log_prob` is `log_prob` of targets that are moved by so many standard deviations.
    - `even_noise` leaves the outputs as they are, whatever it does to gradients.

    Draws are judged by bounds that hold for every distribution with a finite variance: a median of means, and the
    inequality of Dvoretzky, Kiefer and Wolfowitz. With up to ten targets a row, a likelihood that keeps the contract
    fails less than once in a million. There are two exceptions. A variance that lies mostly in the far tails, as
    that of a Student-t with less than 2.5 degrees of freedom, is not found from `cdf` and fails. Where there is neither
    `cdf` nor `entropy`, the variance of draws is judged by a standard error that comes from the draws themselves,
    which is too small for tails without a fourth moment.

    Args:
        likelihood: A likelihood, registered as a pytree.
        outputs: Outputs of a network, rows first: two rows at least, not all alike. The first 8 are used.
        y: Targets of these rows.
        key: Fixed unless given.

    Raises:
        InvalidInput: Rows that say nothing, or that the likelihood's own `check` refuses.
        AssertionError: With what is wrong.

    Example:
        >>> import anchorwalk as aw, numpy as np
        >>> aw.testing.check_likelihood(aw.Normal(scale=0.3), outputs=np.array([0.0, 1.0]), y=np.array([0.1, 0.5]))
    """
    methods = "log_prob, mean, variance, draw and check"
    instance = isinstance(likelihood, Likelihood) and not isinstance(likelihood, type)
    require(instance, f"a likelihood is an object with the methods {methods}, got {likelihood!r}")
    registered = not jax.tree_util.all_leaves([likelihood])
    require(registered, "its class must be a pytree: register it, as with jax.tree_util.register_dataclass")
    outputs = jnp.asarray(outputs)[:ROWS].astype(float)
    y = jnp.asarray(_check_targets(likelihood, outputs, np.asarray(y)[:ROWS]))
    one_key, key = jax.random.split(jax.random.key(0) if key is None else key)
    _check_log_prob(likelihood, outputs, y)
    mean, variance = _check_shapes(likelihood, outputs, y, one_key)
    _check_compiled(likelihood, outputs, y, one_key)
    draws = np.asarray(_draws(likelihood, jax.random.split(key, DRAWS), outputs))
    if isinstance(likelihood, ClassLikelihood):
        _check_classes(likelihood, outputs, y, draws, mean, variance)
    else:
        _check_draws(draws, mean, variance)
        if isinstance(likelihood, OrderedLikelihood):
            _check_cdf(likelihood, outputs, y, draws, mean, variance)
        else:
            squares = (draws - mean) ** 2
            _check_mean(squares, variance, squares.var(axis=0), "the variance of draws is not `variance`")
    if isinstance(likelihood, NormalLikelihood):
        _check_perturbed(likelihood, outputs, y, variance, one_key)
    if isinstance(likelihood, VaryingNoise):
        same = np.array_equal(likelihood.even_noise(outputs, jnp.ones(len(outputs))), outputs)
        require(same, "even_noise must return the outputs as they are")
    _check_json(likelihood)


def _check_targets(likelihood: Likelihood, outputs: Array, y: HostArray) -> HostArray:
    """The targets as they are trained on, by the likelihood's own check, which gets shapes alone."""
    shapes = jax.eval_shape(lambda: outputs)
    targets = np.asarray(likelihood.check(shapes, y))
    require(len(targets) == len(outputs), f"check must return a target for each row, got shape {targets.shape}")
    try:
        found = np.shape(likelihood.check(shapes, y[..., None]))
    except Exception:
        return targets
    require(found == targets.shape, "check must refuse targets with an axis too many, which log_prob would broadcast")
    return targets


def _check_log_prob(likelihood: Likelihood, outputs: Array, y: Array) -> None:
    n = len(outputs)
    found = np.asarray(likelihood.log_prob(outputs, y))
    require(found.shape == (n,), f"log_prob must have one number for each of {n} rows, got shape {found.shape}")
    gradient = jax.grad(lambda outputs: jnp.sum(likelihood.log_prob(outputs, y)))(outputs)
    require(np.isfinite(found).all() and np.isfinite(gradient).all(), "log_prob and its gradient must be finite")
    alone = "log_prob of a row must depend on that row alone"
    require(close(likelihood.log_prob(outputs[:1], y[:1]), found[:1]), f"{alone}, and not on the number of rows")
    for row in range(n):
        other = (row + 1) % n
        changed = likelihood.log_prob(outputs.at[row].set(outputs[other]), y.at[row].set(y[other]))
        swapped = found.copy()
        swapped[row] = found[other]
        require(close(changed, swapped), f"{alone}: another row {row} changed others, or not itself")
    if n < 2 or np.ptp(found) == 0:
        expected = "two rows at least, whose log-probabilities differ"
        checks.reject("check_likelihood(outputs=, y=)", f"log-probabilities {found}", expected, "Pass other rows.")


def _check_shapes(likelihood: Likelihood, outputs: Array, y: Array, key: Key) -> tuple[HostArray, HostArray]:
    """Mean and variance, in float64."""
    mean, variance = (np.asarray(f(outputs), np.float64) for f in (likelihood.mean, likelihood.variance))
    require(mean.shape == variance.shape, f"mean has shape {mean.shape} and variance {variance.shape}")
    of_classes = isinstance(likelihood, ClassLikelihood) and mean.shape[:-1] == y.shape
    expected = f"the targets' shape {y.shape}, or for classes one further axis at its end"
    require(mean.shape == y.shape or of_classes, f"mean must have {expected}, got {mean.shape}")
    require(np.isfinite(mean).all() and np.isfinite(variance).all(), "mean and variance must be finite")
    require((variance >= 0).all(), "a variance is not below zero")
    drawn = jnp.shape(likelihood.draw(key, outputs))
    require(drawn == y.shape, f"a draw must have the targets' shape {y.shape}, got {drawn}")
    return mean, variance


def _check_compiled(likelihood: Likelihood, outputs: Array, y: Array, key: Key) -> None:
    calls: dict[str, Callable[[Any, Array], Any]] = {
        "log_prob": lambda one, outputs: one.log_prob(outputs, y),
        "mean": lambda one, outputs: one.mean(outputs),
        "variance": lambda one, outputs: one.variance(outputs),
        "draw": lambda one, outputs: one.draw(key, outputs),
    }
    for name, call in calls.items():
        found = call(likelihood, outputs)
        require(close(jax.jit(call)(likelihood, outputs), found), f"{name} must do under jit what it does without")
        both = jax.vmap(call, (None, 0))(likelihood, jnp.stack([outputs, outputs]))
        require(close(both[1], found), f"{name} must do under vmap what it does without")


def _check_draws(draws: HostArray, mean: HostArray, variance: HostArray) -> None:
    _check_mean(draws, mean, variance, "the mean of draws is not `mean`, or their variance far from `variance`")
    off = draws - mean
    between = "draws of different rows are not independent; does each have noise of its own?"
    _check_mean(off[:, :-1] * off[:, 1:], np.zeros(()), variance[:-1] * variance[1:], between)


def _check_mean(values: HostArray, mean: HostArray, variance: HostArray, what: str) -> None:
    """Whether independent values have this mean, given their variance, by the median of the means of groups."""
    means = np.stack([group.mean(axis=0) for group in np.split(values, GROUPS)])
    error = np.abs(np.median(means, axis=0) - mean)
    limit = SPREAD * np.sqrt(variance * GROUPS / DRAWS) + 1e-5 * np.abs(mean)
    require((error <= limit).all(), f"{what}: off by {error.max():.3g} at the most")


def _check_classes(
    likelihood: ClassLikelihood, outputs: Array, y: Array, draws: HostArray, mean: HostArray, variance: HostArray
) -> None:
    p = mean if mean.ndim > y.ndim else np.stack([1 - mean, mean], axis=-1)
    require((p >= 0).all() and np.allclose(p.sum(axis=-1), 1, atol=1e-5), "probabilities must sum to 1")
    require(np.allclose(variance, mean * (1 - mean), atol=1e-5), "the variance of a class must be p (1 - p)")
    for number in range(p.shape[-1]):
        one = p[..., number]
        _check_draws(draws == number, one, one * (1 - one))
    entropy = -np.sum(p * np.log(np.where(p > 0, p, 1)), axis=-1)
    require(close(likelihood.entropy(mean), entropy), "entropy must be -sum p log p, in nats")
    if y.size == len(y):
        picked = np.take_along_axis(p, np.asarray(y, int)[..., None], axis=-1).reshape(-1)
        found = np.exp(likelihood.log_prob(outputs, y))
        require(np.allclose(found, picked, atol=1e-5), "log_prob must be the logarithm of the class's probability")


def _check_cdf(
    likelihood: OrderedLikelihood, outputs: Array, y: Array, draws: HostArray, mean: HostArray, variance: HostArray
) -> None:
    require((variance > 0).all(), "variances must be above zero")
    require(np.array_equal(likelihood.snap(draws), draws), "snap must leave what can be drawn as it is")
    values = mean[..., None] + np.sqrt(variance)[..., None] * GRID
    cdf = _cdf(likelihood, outputs, values)
    rises = (np.diff(cdf) >= -1e-9).all() and (cdf[..., 0] <= 1e-9).all() and (cdf[..., -1] >= 1 - 1e-9).all()
    require(rises, "cdf must rise from 0 to 1")
    for place in np.ndindex(mean.shape):
        shares = np.searchsorted(np.sort(draws[(slice(None), *place)]), values[place], side="right") / DRAWS
        distance, limit = np.max(np.abs(shares - cdf[place])), DKW / np.sqrt(DRAWS)
        require(distance < limit, f"cdf is off the shares of draws by {distance:.3g}, above {limit:.3g}")
    tail = np.where(GRID > 0, 1 - cdf, cdf)
    shift = np.trapezoid(np.sign(GRID) * tail, GRID)
    square = np.trapezoid(2 * np.abs(GRID) * tail, GRID)
    require((np.abs(shift) < INTEGRAL).all(), "`mean` is not the mean of the distribution that cdf gives")
    require((np.abs(square - 1) < INTEGRAL).all(), "`variance` is not the variance of the distribution that cdf gives")
    if y.size == len(y):
        _check_density(likelihood, outputs, y, np.sqrt(variance))


def _check_density(likelihood: OrderedLikelihood, outputs: Array, y: Array, std: HostArray) -> None:
    """Whether log_prob is the slope of the distribution function, or its jump, where that is not too small to see."""
    step = 1e-4 * std
    near = np.asarray(y, np.float64)[..., None] + step[..., None] * np.array([-1.0, -0.1, 0.0, 1.0])
    before, just_before, at, after = np.moveaxis(_cdf(likelihood, outputs, near), -1, 0)
    jump = at - before < 2 * (at - just_before)
    density = np.where(jump, at - before, (after - before) / (2 * step)).reshape(-1)
    seen = (at - before).reshape(-1) > 1e-12
    found = np.asarray(likelihood.log_prob(outputs, y))[seen]
    right = np.allclose(found, np.log(density[seen]), rtol=1e-3, atol=1e-3)
    require(right, "log_prob must be the logarithm of the density, or of the probability, that cdf gives")


def _cdf(likelihood: OrderedLikelihood, outputs: Array, values: HostArray) -> HostArray:
    """The distribution function in float64, as quantiles are found."""
    with jax.enable_x64(True):
        found = np.asarray(likelihood.cdf(jnp.asarray(np.asarray(outputs, np.float64)), jnp.asarray(values)))
    require(found.shape == values.shape, f"cdf must have the shape of its values, {values.shape}, got {found.shape}")
    require(found.dtype == np.float64, f"cdf must be float64 for values in float64, got {found.dtype}")
    return found


def _check_perturbed(likelihood: NormalLikelihood, outputs: Array, y: Array, variance: HostArray, key: Key) -> None:
    noise = jax.random.normal(key, y.shape)
    cases = {"without noise": (jnp.zeros(y.shape), y), "with noise": (noise, y + np.sqrt(variance) * noise)}
    for case, (moves, moved) in cases.items():
        found, expected = likelihood.perturbed_log_prob(outputs, y, moves), likelihood.log_prob(outputs, moved)
        right = np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=1e-4, atol=1e-4)
        require(right, f"perturbed_log_prob {case} must be log_prob of targets moved by so many standard deviations")


def _check_json(likelihood: Any) -> None:
    if not hasattr(likelihood, "to_json"):
        return
    encoded = likelihood.to_json()
    try:
        again = json.loads(json.dumps(encoded, allow_nan=False))
    except (TypeError, ValueError):
        again = None
    require(
        isinstance(encoded, dict) and again == encoded, f"to_json must give a dictionary that is JSON, got {encoded!r}"
    )
    if hasattr(likelihood, "from_json"):
        require(type(likelihood).from_json(again).to_json() == encoded, "from_json must be the inverse of to_json")


@jax.jit
def _draws(likelihood: Likelihood, keys: Key, outputs: Array) -> Array:
    return jax.vmap(lambda key: likelihood.draw(key, outputs))(keys)
