"""Likelihoods p(y | x, θ) as functions of the network's outputs (paper, section 1).

Log-probabilities come per datum, unsummed over rows and summed over all further output axes.
Probabilities, not logits, are what an ensemble averages.
"""

import math
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, ndtr

from anchorwalk import checks, tree
from anchorwalk.serial import Settings
from anchorwalk.types import Array, HostArray, Key

TINY = float(np.finfo(np.float32).tiny)
HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


@runtime_checkable
class Likelihood(Protocol):
    """What a likelihood does with the outputs of a network, rows first.

    A likelihood is a pytree: its numbers are leaves, so that another scale compiles nothing. These methods are all
    that `sample` and `predict` need; further ones, where it offers them, bring more:

    | method | what it brings |
    |---|---|
    | `entropy` | probabilities, entropy and mutual information of classes |
    | `cdf` and `snap` | quantiles and intervals |
    | `perturbed_log_prob` | `SAE(perturb_targets=True)` |
    | `even_noise` | `Training(mean_first=)` |
    | `to_json` | its settings in a stored run, which `load` compares |

    `anchorwalk.testing.check_likelihood` runs the contract on your own.

    Example:
        >>> import anchorwalk as aw
        >>> isinstance(aw.Normal(scale=1.0), aw.Likelihood)
        True
    """

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-probability of each row's target, shape (N,)."""
        ...

    def mean(self, outputs: Array) -> Array:
        """Mean of the target; for classes, their probabilities."""
        ...

    def variance(self, outputs: Array) -> Array:
        """Variance of the target, in the shape of the mean."""
        ...

    def draw(self, key: Key, outputs: Array) -> Array:
        """An independent draw of each row's target."""
        ...

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Refuse targets that do not fit the outputs' shape or the likelihood's range, naming the argument.

        Returns:
            The targets as they are trained on: whole numbers as int32, others as floats.
        """
        ...


@runtime_checkable
class ClassLikelihood(Likelihood, Protocol):
    """A likelihood over classes."""

    def entropy(self, probabilities: HostArray) -> HostArray:
        """Entropy in nats of each distribution, given what `mean` returns."""
        ...


@runtime_checkable
class OrderedLikelihood(Likelihood, Protocol):
    """A likelihood over numbers, so that quantiles make sense."""

    def cdf(self, outputs: Array, values: Array) -> Array:
        """P(y <= value); `values` has one further axis at the end."""
        ...

    def snap(self, values: HostArray) -> HostArray:
        """The greatest value that the target can take up to each of `values`."""
        ...


@runtime_checkable
class NormalLikelihood(Likelihood, Protocol):
    """A likelihood whose targets can be perturbed by its own noise."""

    def perturbed_log_prob(self, outputs: Array, y: Array, noise: Array) -> Array:
        """`log_prob` with the targets moved by `noise` standard deviations."""
        ...


@runtime_checkable
class VaryingNoise(Likelihood, Protocol):
    """A likelihood whose noise differs from row to row."""

    def even_noise(self, outputs: Array, weights: Array) -> Array:
        """The same outputs, from which the mean learns as if the noise of all rows, weighted, were their average."""
        ...


@tree.node()
@dataclass(frozen=True)
class Categorical(Settings):
    """Classes 0 ... C-1 from logits in the last axis of the outputs.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> aw.Categorical().mean(jnp.zeros((1, 4)))
        Array([[0.25, 0.25, 0.25, 0.25]], dtype=float32)
    """

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-probability of each row's classes."""
        picked = jnp.take_along_axis(jax.nn.log_softmax(outputs), y.astype(jnp.int32)[..., None], axis=-1)
        return _sum_outputs(picked[..., 0])

    def mean(self, outputs: Array) -> Array:
        """Probability of each class."""
        return jax.nn.softmax(outputs)

    def variance(self, outputs: Array) -> Array:
        """P (1 - p) of each class's indicator."""
        p = jax.nn.softmax(outputs)
        return p * (1 - p)

    def draw(self, key: Key, outputs: Array) -> Array:
        """A class for each row."""
        return jax.random.categorical(key, outputs)

    def entropy(self, probabilities: HostArray) -> HostArray:
        """Entropy in nats."""
        return np.asarray(_xlogx(probabilities).sum(axis=-1))

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Labels must be whole numbers in [0, C), one for each row of logits."""
        if len(outputs.shape) < 2:
            remedy = "Categorical() takes logits with the classes in the last axis; for one logit use Bernoulli()."
            checks.reject("apply", f"outputs of shape {outputs.shape}", "(N, classes)", remedy)
        one_hot = "Pass class numbers: y.argmax(-1) for one-hot rows."
        _check_shape(argument, "Categorical()", outputs.shape[:-1], y, one_hot)
        classes = outputs.shape[-1]
        remedy = "Renumber the labels from 0, or give the network more outputs."
        return _whole_numbers(argument, "Categorical()", y, classes - 1, f"{classes} logits", remedy)


@tree.node()
@dataclass(frozen=True)
class Bernoulli(Settings):
    """A target of 0 or 1 from one logit; the outputs have the shape of the targets.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> aw.Bernoulli().mean(jnp.zeros(2))
        Array([0.5, 0.5], dtype=float32)
    """

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-probability of each row's targets."""
        return _sum_outputs(jax.nn.log_sigmoid(jnp.where(y.astype(bool), outputs, -outputs)))

    def mean(self, outputs: Array) -> Array:
        """Probability of a 1."""
        return jax.nn.sigmoid(outputs)

    def variance(self, outputs: Array) -> Array:
        """P (1 - p)."""
        p = jax.nn.sigmoid(outputs)
        return p * (1 - p)

    def draw(self, key: Key, outputs: Array) -> Array:
        """0 or 1 for each output."""
        return jax.random.bernoulli(key, jax.nn.sigmoid(outputs)).astype(jnp.int32)

    def entropy(self, probabilities: HostArray) -> HostArray:
        """Entropy in nats."""
        return _xlogx(probabilities) + _xlogx(1 - probabilities)

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Targets must be 0 or 1 in the shape of the outputs."""
        _check_shape(argument, "Bernoulli()", outputs.shape, y)
        remedy = "Number the two classes 0 and 1."
        return _whole_numbers(argument, "Bernoulli()", y, 1, "one logit for each target", remedy)


@tree.node()
@dataclass(frozen=True)
class Normal(Settings):
    """Normal noise of a known standard deviation around the outputs, which have the shape of the targets.

    Args:
        scale: Standard deviation of the noise, in the targets' unit.

    Raises:
        InvalidInput: A scale that is not above zero.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> aw.Normal(scale=0.5).variance(jnp.zeros(2))
        Array([0.25, 0.25], dtype=float32)
    """

    scale: float

    def __post_init__(self) -> None:
        remedy = "The scale is the noise's standard deviation: pass a number above zero."
        object.__setattr__(self, "scale", checks.positive("Normal(scale=)", self.scale, remedy))

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-density of each row's targets."""
        return _sum_outputs(_normal_log_prob(y, outputs, jnp.asarray(self.scale)))

    def perturbed_log_prob(self, outputs: Array, y: Array, noise: Array) -> Array:
        """Log-density of the targets moved by `noise` standard deviations."""
        return self.log_prob(outputs, y + self.scale * noise)

    def mean(self, outputs: Array) -> Array:
        """The outputs themselves."""
        return outputs

    def variance(self, outputs: Array) -> Array:
        """The noise's variance."""
        return jnp.full_like(outputs, self.scale**2)

    def draw(self, key: Key, outputs: Array) -> Array:
        """Outputs plus noise."""
        return outputs + self.scale * jax.random.normal(key, outputs.shape, outputs.dtype)

    def cdf(self, outputs: Array, values: Array) -> Array:
        """P(y <= value)."""
        return ndtr((values - outputs[..., None]) / self.scale)

    def snap(self, values: HostArray) -> HostArray:
        """Every number is possible."""
        return values

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Targets must have the shape of the outputs."""
        _check_shape(argument, "Normal()", outputs.shape, y)
        return _numbers(y)


@tree.node()
@dataclass(frozen=True)
class HeteroscedasticNormal(Settings):
    """Normal noise whose standard deviation the network predicts.

    The last axis of the outputs holds two numbers, the mean and the inverse-softplus of the standard
    deviation: outputs (N, 2) for targets (N,), outputs (N, K, 2) for targets (N, K).

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> aw.HeteroscedasticNormal().mean(jnp.array([[3.0, -1.0]]))
        Array([3.], dtype=float32)
    """

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-density of each row's targets."""
        return _sum_outputs(_normal_log_prob(y, *_mean_and_scale(outputs)))

    def perturbed_log_prob(self, outputs: Array, y: Array, noise: Array) -> Array:
        """Log-density of the moved targets, whose gradient moves them for the mean alone.

        The value is that of targets moved by `noise` of the network's own standard deviations. Were
        the standard deviation fitted to them too, it would learn its own noise on top of the data's,
        and the next round's noise would be larger still; so it sees the targets as they are.
        """
        mean, scale = _mean_and_scale(outputs)
        fixed = jax.lax.stop_gradient(scale)
        still = jax.lax.stop_gradient(mean)
        moved = _normal_log_prob(y + fixed * noise, mean, fixed)
        return _sum_outputs(moved + _normal_log_prob(y, still, scale) - _normal_log_prob(y, still, fixed))

    def even_noise(self, outputs: Array, weights: Array) -> Array:
        """The same outputs; the gradient of the mean is that with the weighted average of the rows' variances.

        Where a network predicts much noise its mean learns little, and so the noise stays: the mean is better learned
        first (Seitzer et al. 2022 look at this trap).
        """
        mean, scale = _mean_and_scale(outputs)
        variance = jax.lax.stop_gradient(jnp.square(scale))
        shares = (weights / jnp.sum(weights)).reshape(-1, *(1,) * (mean.ndim - 1))
        ratio = variance / jnp.sum(shares * variance, axis=0)
        still = jax.lax.stop_gradient(mean)
        return outputs.at[..., 0].set(still + ratio * (mean - still))

    def mean(self, outputs: Array) -> Array:
        """The predicted mean."""
        return outputs[..., 0]

    def variance(self, outputs: Array) -> Array:
        """The predicted variance of the noise."""
        return jnp.square(_mean_and_scale(outputs)[1])

    def draw(self, key: Key, outputs: Array) -> Array:
        """Mean plus noise."""
        mean, scale = _mean_and_scale(outputs)
        return mean + scale * jax.random.normal(key, mean.shape, mean.dtype)

    def cdf(self, outputs: Array, values: Array) -> Array:
        """P(y <= value)."""
        mean, scale = _mean_and_scale(outputs)
        return ndtr((values - mean[..., None]) / scale[..., None])

    def snap(self, values: HostArray) -> HostArray:
        """Every number is possible."""
        return values

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Outputs must be targets' shape + (2,)."""
        if len(outputs.shape) < 2 or outputs.shape[-1] != 2:
            remedy = "The last axis holds the mean and the inverse-softplus of the standard deviation."
            checks.reject("apply", f"outputs of shape {outputs.shape}", f"{(*y.shape, 2)}", remedy)
        _check_shape(argument, "HeteroscedasticNormal()", outputs.shape[:-1], y)
        return _numbers(y)


@tree.node()
@dataclass(frozen=True)
class Poisson(Settings):
    """Counts from a log-rate; the outputs have the shape of the targets.

    Example:
        >>> import anchorwalk as aw, jax.numpy as jnp
        >>> aw.Poisson().mean(jnp.zeros(1))
        Array([1.], dtype=float32)
    """

    def log_prob(self, outputs: Array, y: Array) -> Array:
        """Log-probability of each row's counts."""
        return _sum_outputs(y * outputs - jnp.exp(outputs) - gammaln(y + 1.0))

    def mean(self, outputs: Array) -> Array:
        """The rate."""
        return jnp.exp(outputs)

    def variance(self, outputs: Array) -> Array:
        """The rate."""
        return jnp.exp(outputs)

    def draw(self, key: Key, outputs: Array) -> Array:
        """A count for each output."""
        return jax.random.poisson(key, jnp.exp(outputs))

    def cdf(self, outputs: Array, values: Array) -> Array:
        """P(y <= value)."""
        count = jnp.maximum(jnp.floor(values), 0)
        probability = jax.scipy.special.gammaincc(count + 1, jnp.exp(outputs)[..., None])
        return jnp.where(values < 0, 0.0, probability)

    def snap(self, values: HostArray) -> HostArray:
        """Whole numbers from 0 on."""
        return np.maximum(np.floor(values), 0)

    def check(self, outputs: Any, y: HostArray, argument: str = "data") -> HostArray:
        """Targets must be counts in the shape of the outputs."""
        _check_shape(argument, "Poisson()", outputs.shape, y)
        return _whole_numbers(argument, "Poisson()", y, np.iinfo(np.int32).max, "counts", "Check them.")


def _sum_outputs(log_prob: Array) -> Array:
    """Sum over all axes but the rows'."""
    return jnp.sum(log_prob, axis=tuple(range(1, log_prob.ndim)))


def _normal_log_prob(y: Array, mean: Array, scale: Array) -> Array:
    return -0.5 * jnp.square((y - mean) / scale) - jnp.log(scale) - HALF_LOG_2PI


def _mean_and_scale(outputs: Array) -> tuple[Array, Array]:
    scale = jax.nn.softplus(outputs[..., 1])
    return outputs[..., 0], jnp.maximum(scale, TINY)  # never zero, where it underflows


def _xlogx(p: HostArray) -> HostArray:
    """-p log p, which is zero at zero."""
    return -p * np.log(np.where(p > 0, p, 1.0))


def _check_shape(
    argument: str, likelihood: str, expected: tuple[int, ...], y: HostArray, one_axis_more: str | None = None
) -> None:
    """Refuse targets of another shape; `one_axis_more` is the remedy for those that have one."""
    if y.shape == expected:
        return
    remedy = "Give the targets the shape that the network's outputs ask for, or change the network."
    if one_axis_more is not None and len(y.shape) == len(expected) + 1:
        remedy = one_axis_more
    if y.shape == (*expected, 1):
        remedy = "Drop the last axis of the targets: y[..., 0]."
    if (*y.shape, 1) == expected:
        remedy = "Add an axis to the targets, y[:, None], or drop the network's last axis, outputs[..., 0]."
    what = f"targets y of shape {expected} for {likelihood} with these outputs (shapes are never broadcast here)"
    checks.reject(argument, f"targets y of shape {y.shape}", what, remedy)


def _numbers(y: HostArray) -> HostArray:
    """Targets as floats; floats keep their dtype."""
    return y if jnp.issubdtype(y.dtype, jnp.floating) else y.astype(np.float64)


def _whole_numbers(argument: str, likelihood: str, y: HostArray, high: int, why: str, remedy: str) -> HostArray:
    """Targets from 0 to `high` as int32."""
    if jnp.issubdtype(y.dtype, jnp.floating) and not np.array_equal(y, np.round(y)):
        first = y[y != np.round(y)].flat[0]
        checks.reject(argument, f"a target y of {first}", f"whole numbers for {likelihood}", "Encode them as integers.")
    if y.size and (y.min() < 0 or y.max() > high):
        bad = y.min() if y.min() < 0 else y.max()
        checks.reject(argument, f"a target y of {bad}", f"values from 0 to {high} for {likelihood} ({why})", remedy)
    return y.astype(np.int32)
