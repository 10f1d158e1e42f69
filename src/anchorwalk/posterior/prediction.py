"""The Bayesian model average 1/N Σ p(y | x, θ*_i) (paper, section 3), as running computations over members.

Probabilities are averaged, never logits. Sums over members are taken in float64 on the host.
"""

import math
from functools import cached_property
from typing import Any

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import NotFiniteWarning, warn
from anchorwalk.likelihoods import ClassLikelihood, Likelihood, OrderedLikelihood
from anchorwalk.posterior.passes import Passes, moments
from anchorwalk.types import Array, HostArray, Key

ACCURACY = 1e-4
"""Quantiles are this many predictive standard deviations from the exact ones at the most, rounding aside."""
SMALLEST = 1e-12
"""Of the tails of quantiles: float64 tells a distribution function from 1 to a few 1e-16."""
GRID_VALUES = 2**21
"""Values of the mixture's distribution function that a pass over the members may hold: 16 MiB, several times over."""


class Prediction:
    """The predictive distribution of an ensemble on given rows: a mixture with equal weights.

    `posterior.predict(x)` makes one. Rows come first in every array.

    Attributes:
        mean: Mean of the target; for classes, the averaged probabilities.
        aleatoric: Mean over members of the target's variance.
        epistemic: Variance over members of the target's mean.
    """

    def __init__(self, passes: Passes, likelihood: Likelihood) -> None:
        self._passes = passes
        self._likelihood = likelihood
        mean: Any = 0.0
        spread: Any = 0.0
        variance: Any = 0.0
        for n, (_, outputs) in enumerate(passes.outputs(), start=1):
            member_mean, member_variance = (np.asarray(a, np.float64) for a in moments(likelihood, outputs))
            with np.errstate(all="ignore"):  # what is not finite is reported below, once
                difference = member_mean - mean  # Welford's update
                mean = mean + difference / n
                spread = spread + difference * (member_mean - mean)
                variance = variance + member_variance
        self.mean: HostArray = mean
        self.aleatoric: HostArray = variance / passes.count
        self.epistemic: HostArray = spread / passes.count
        bad = ~np.isfinite(self.variance).reshape(passes.rows, -1).all(axis=1)
        if bad.any():
            warn(
                f"predictions of {int(bad.sum())} of {bad.size} rows are not finite, the first at row "
                f"{int(np.argmax(bad))}: the networks' outputs are too large there",
                NotFiniteWarning,
            )

    def __repr__(self) -> str:
        return f"Prediction({self._passes.rows} rows, {self._passes.count} members, {self._likelihood!r})"

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
            member = np.asarray(moments(self._likelihood, outputs)[0], np.float64)
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
        checks.real("log_prob(y=)", targets)
        checks.finite("log_prob(y=)", targets, "Leave those rows out.")
        total: Any = -np.inf
        for i, outputs in self._passes.outputs():
            if i == 0:
                targets = self._likelihood.check(outputs, targets, "log_prob(y=)")
            total = np.logaddexp(total, np.asarray(_log_prob(self._likelihood, outputs, targets), np.float64))
        return np.asarray(total - math.log(self._passes.count))

    def quantile(self, q: Any) -> HostArray:
        """Quantiles of the mixture, to within 1e-4 predictive standard deviations (counts: exact).

        Cantelli's inequality brackets a quantile by mean and variance. Each pass over the members evaluates the
        distribution function inside the brackets and narrows them up to 64-fold; with more rows less, to save memory.

        Args:
            q: A probability in (0, 1), or several, from 1e-12 to 1 - 1e-12.

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
        if not levels.size or not ((levels > 0) & (levels < 1)).all():
            checks.reject("quantile(q=)", q, "probabilities strictly between 0 and 1", "Choose q in that range.")
        if (np.minimum(levels, 1 - levels) < SMALLEST).any():
            expected = f"probabilities from {SMALLEST:g} to 1 - {SMALLEST:g}"
            checks.reject("quantile(q=)", q, expected, "Further out, quantiles are not known to any digit.")
        levels = levels.reshape(-1, *(1,) * self.mean.ndim)
        low = self.mean - self.std * np.sqrt((1 - levels) / levels) - ACCURACY * self.std
        high = self.mean + self.std * np.sqrt(levels / (1 - levels)) + ACCURACY * self.std
        points = int(np.clip(GRID_VALUES // low.size, 3, 63))
        width = np.max(np.sqrt((1 - levels) / levels) + np.sqrt(levels / (1 - levels))) + 2 * ACCURACY
        for _ in range(math.ceil(math.log(width / ACCURACY) / math.log(points + 1))):
            low, high = self._narrow(likelihood, levels, low, high, points)
        result = likelihood.snap(high)
        return result[0] if np.ndim(q) == 0 else result

    def interval(self, coverage: float = 0.9) -> tuple[HostArray, HostArray]:
        """The central interval that holds `coverage` of the mixture, up to 1 - 2e-12: its two quantiles."""
        checks.within("interval(coverage=)", coverage, 0, 1, open_above=True)
        if (1 - coverage) / 2 < SMALLEST:
            remedy = "Choose a smaller coverage, such as 0.999."
            checks.reject("interval(coverage=)", repr(coverage), f"a number up to 1 - {2 * SMALLEST:g}", remedy)
        low, high = self.quantile([(1 - coverage) / 2, (1 + coverage) / 2])
        return low, high

    def draws(self, key: Key, n: int) -> HostArray:
        """Draws from the predictive distribution, shape (n, rows, ...).

        A draw takes one member for all rows, and independent noise. Members are used equally often, up to one draw.

        Args:
            key: Decides members and noise.
            n: Number of draws.
        """
        checks.key("draws(key=)", key)
        n = checks.count("draws(n=)", n)
        member_key, place_key, noise_key = jax.random.split(key, 3)
        count = self._passes.count
        times, rest = divmod(n, count)
        order = np.asarray(jax.random.permutation(member_key, count))
        of_draw = np.sort(np.concatenate([np.repeat(np.arange(count), times), order[:rest]]))
        place = np.asarray(jax.random.permutation(place_key, n))
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
        self, likelihood: OrderedLikelihood, levels: HostArray, low: HostArray, high: HostArray, points: int
    ) -> tuple[HostArray, HostArray]:
        """The cell of a grid over [low, high] in which the distribution function passes `levels`."""
        shares = np.arange(points + 2) / (points + 1)
        grid = low[..., None] + (high - low)[..., None] * shares
        inner = np.moveaxis(grid[..., 1:-1], 0, -2)  # (rows, ..., levels, points)
        total: Any = 0.0
        for _, outputs in self._passes.outputs():
            # In float32 the distribution function has too few steps near 1, and counts fall on the wrong side.
            with jax.enable_x64(True):
                wide = np.asarray(outputs, np.float64)
                total = total + np.asarray(_cdf(likelihood, wide, inner.reshape(*inner.shape[:-2], -1)))
        cdf = np.moveaxis(np.asarray(total / self._passes.count).reshape(inner.shape), -2, 0)
        cell = np.sum(cdf < levels[..., None], axis=-1, keepdims=True)
        return np.take_along_axis(grid, cell, -1)[..., 0], np.take_along_axis(grid, cell + 1, -1)[..., 0]


@jax.jit
def _log_prob(likelihood: Likelihood, outputs: Array, y: Array) -> Array:
    return likelihood.log_prob(outputs, y)


@jax.jit
def _cdf(likelihood: OrderedLikelihood, outputs: Array, values: Array) -> Array:
    return likelihood.cdf(outputs, values)


@jax.jit
def _draw(likelihood: Likelihood, key: Key, outputs: Array) -> Array:
    return likelihood.draw(key, outputs)
