"""The Bayesian model average 1/N Σ p(y | x, θ*_i) (paper, section 3), as running computations over members.

Probabilities are averaged, never logits. Sums over members are taken in float64 on the host.
"""

import math
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from anchorwalk import checks
from anchorwalk.likelihoods import ClassLikelihood, Likelihood, OrderedLikelihood
from anchorwalk.prediction.passes import Passes
from anchorwalk.types import Array, Key

HostArray = np.ndarray[Any, Any]
ACCURACY = 1e-4
"""Quantiles are this many predictive standard deviations from the exact ones at the most, rounding aside."""
_GRID = 63
"""Points inside a bracket at which a pass evaluates the mixture's distribution function."""


class Prediction:
    """The predictive distribution of an ensemble on given rows: a mixture with equal weights.

    `posterior.predict(x)` makes one. Rows come first in every array.

    Attributes:
        mean: Mean of the target; for classes, the averaged probabilities.
        aleatoric: Mean over members of the target's variance.
        epistemic: Variance over members of the target's mean.
    """

    mean: HostArray
    aleatoric: HostArray
    epistemic: HostArray

    def __init__(self, passes: Passes, likelihood: Likelihood) -> None:
        self._passes = passes
        self._likelihood = likelihood
        mean: Any = 0.0
        spread: Any = 0.0
        variance: Any = 0.0
        for n, (_, outputs) in enumerate(passes.outputs(), start=1):
            member_mean, member_variance = (np.asarray(a, np.float64) for a in _moments(likelihood, outputs))
            difference = member_mean - mean  # Welford's update
            mean = mean + difference / n
            spread = spread + difference * (member_mean - mean)
            variance = variance + member_variance
        self.mean = mean
        self.aleatoric = variance / passes.count
        self.epistemic = spread / passes.count

    @property
    def variance(self) -> HostArray:
        """Variance of the mixture: aleatoric + epistemic."""
        return self.aleatoric + self.epistemic

    @property
    def std(self) -> HostArray:
        """Standard deviation of the mixture."""
        return np.sqrt(self.variance)

    @property
    def probabilities(self) -> HostArray:
        """Averaged probability of each class (Categorical) or of a 1 (Bernoulli).

        Raises:
            InvalidInput: For a likelihood without classes.
        """
        self._class_likelihood("probabilities")
        return self.mean

    @cached_property
    def entropy(self) -> HostArray:
        """Entropy of the averaged probabilities, in nats: all of the uncertainty about the class.

        Raises:
            InvalidInput: For a likelihood without classes.
        """
        return self._class_likelihood("entropy").entropy(self.mean)

    @cached_property
    def mutual_information(self) -> HostArray:
        """Information that the class would carry about the parameters, in nats: the epistemic part of the entropy.

        Raises:
            InvalidInput: For a likelihood without classes.
        """
        likelihood = self._class_likelihood("mutual_information")
        total = np.zeros(())
        for _, outputs in self._passes.outputs():
            member = np.asarray(_moments(self._likelihood, outputs)[0], np.float64)
            total = total + likelihood.entropy(member)
        return np.asarray(np.maximum(self.entropy - total / self._passes.count, 0))

    def log_prob(self, y: Any) -> HostArray:
        """Log of the averaged probability (density) of each row's targets, shape (rows,).

        Args:
            y: Targets, shaped as in training.

        Raises:
            InvalidInput: Targets that do not fit the likelihood.
        """
        targets = np.asarray(y)
        total: Any = -np.inf
        for i, outputs in self._passes.outputs():
            if i == 0:
                self._likelihood.check(outputs, targets)
            total = np.logaddexp(total, np.asarray(_log_prob(self._likelihood, outputs, targets), np.float64))
        return np.asarray(total - math.log(self._passes.count))

    def quantile(self, q: Any) -> HostArray:
        """Quantiles of the mixture, to within 1e-4 predictive standard deviations (counts: exact).

        Cantelli's inequality brackets a quantile by mean and variance; each pass over the members
        evaluates the mixture's distribution function at 63 points and narrows the bracket 64-fold.

        Args:
            q: A probability in (0, 1), or several.

        Returns:
            Shape of the mean for one q; with a leading axis for several.

        Raises:
            InvalidInput: A q outside (0, 1), or a likelihood over classes.
        """
        likelihood = self._likelihood
        if not isinstance(likelihood, OrderedLikelihood):
            remedy = "Classes have no order: use .probabilities."
            checks.reject("quantile", type(likelihood).__name__, "a likelihood over numbers", remedy)
        levels = np.atleast_1d(np.asarray(q, np.float64))
        if not ((levels > 0) & (levels < 1)).all():
            checks.reject("quantile(q=)", q, "probabilities strictly between 0 and 1", "Choose q in that range.")
        axes = (1,) * self.mean.ndim
        levels = levels.reshape(-1, *axes)
        low = self.mean - self.std * np.sqrt((1 - levels) / levels) - ACCURACY * self.std
        high = self.mean + self.std * np.sqrt(levels / (1 - levels)) + ACCURACY * self.std
        for _ in range(_passes_needed(levels)):
            low, high = self._narrow(likelihood, levels, low, high)
        result = likelihood.snap(high)
        return result[0] if np.ndim(q) == 0 else result

    def interval(self, coverage: float = 0.9) -> tuple[HostArray, HostArray]:
        """The central interval that holds `coverage` of the mixture: its two quantiles."""
        checks.within("interval(coverage=)", coverage, 0, 1, open_above=True)
        low, high = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
        return low, high

    def draws(self, key: Key, n: int) -> HostArray:
        """Draws from the predictive distribution, shape (n, rows, ...).

        A draw takes one member for all rows, and noise that is independent between draws, members and rows.
        Members are used equally often, up to one; which are used once more is random.

        Args:
            key: Decides members and noise.
            n: Number of draws.
        """
        n = checks.count("draws(n=)", n)
        member_key, noise_key = jax.random.split(key)
        count = self._passes.count
        times, rest = divmod(n, count)
        order = np.asarray(jax.random.permutation(member_key, count))
        of_draw = np.sort(np.concatenate([np.repeat(np.arange(count), times), order[:rest]]))
        place = np.asarray(jax.random.permutation(jax.random.fold_in(member_key, 1), n))
        result: list[HostArray] = [np.empty(0)] * n
        for member, outputs in self._passes.outputs(sorted(set(of_draw.tolist()))):
            for draw in np.flatnonzero(of_draw == member):
                result[place[draw]] = np.asarray(_draw(self._likelihood, jax.random.fold_in(noise_key, draw), outputs))
        return np.stack(result)

    def _class_likelihood(self, what: str) -> ClassLikelihood:
        if not isinstance(self._likelihood, ClassLikelihood):
            remedy = "Use .mean, .epistemic, .aleatoric or .quantile."
            checks.reject(what, type(self._likelihood).__name__, "a likelihood over classes", remedy)
        return self._likelihood

    def _narrow(
        self, likelihood: OrderedLikelihood, levels: HostArray, low: HostArray, high: HostArray
    ) -> tuple[HostArray, HostArray]:
        """The cell of a grid over [low, high] in which the distribution function passes `levels`."""
        shares = np.arange(_GRID + 2) / (_GRID + 1)
        grid = low[..., None] + (high - low)[..., None] * shares
        inner = jnp.asarray(np.moveaxis(grid[..., 1:-1], 0, -2), jnp.float32)  # (rows, ..., levels, points)
        flat = inner.reshape(*inner.shape[:-2], -1)
        total = sum(np.asarray(_cdf(likelihood, outputs, flat), np.float64) for _, outputs in self._passes.outputs())
        cdf = np.moveaxis(np.asarray(total / self._passes.count).reshape(inner.shape), -2, 0)
        cell = np.sum(cdf < levels[..., None], axis=-1, keepdims=True)
        return np.take_along_axis(grid, cell, -1)[..., 0], np.take_along_axis(grid, cell + 1, -1)[..., 0]


def _passes_needed(levels: HostArray) -> int:
    """Passes until the widest bracket, in standard deviations, is below the stated accuracy."""
    width = np.max(np.sqrt((1 - levels) / levels) + np.sqrt(levels / (1 - levels))) + 2 * ACCURACY
    return math.ceil(math.log(width / ACCURACY) / math.log(_GRID + 1))


@jax.jit
def _moments(likelihood: Likelihood, outputs: Array) -> tuple[Array, Array]:
    return likelihood.mean(outputs), likelihood.variance(outputs)


@jax.jit
def _log_prob(likelihood: Likelihood, outputs: Array, y: Array) -> Array:
    return likelihood.log_prob(outputs, y)


@jax.jit
def _cdf(likelihood: OrderedLikelihood, outputs: Array, values: Array) -> Array:
    return likelihood.cdf(outputs, values)


@jax.jit
def _draw(likelihood: Likelihood, key: Key, outputs: Array) -> Array:
    return likelihood.draw(key, outputs)
