"""Regression."""

from typing import Any, Self

import numpy as np
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import _safe_indexing, check_X_y
from sklearn.utils.validation import _check_sample_weight

from anchorwalk import checks
from anchorwalk.errors import ScaleWarning, warn
from anchorwalk.integrations.sklearn import conformal, networks
from anchorwalk.integrations.sklearn.base import RESULTS, Ensemble
from anchorwalk.integrations.sklearn.encoding import is_table
from anchorwalk.integrations.sklearn.networks import Maker
from anchorwalk.integrations.sklearn.scaling import FARTHEST, Scaling
from anchorwalk.likelihoods import HeteroscedasticNormal, Likelihood, Normal
from anchorwalk.networks import Network
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.prior import Prior
from anchorwalk.run.runners import Runner
from anchorwalk.types import HostArray

NOISES = ("constant", "varying")


def _levels(argument: str, quantiles: Any) -> HostArray:
    """Probabilities of quantiles, before any training.

    Raises:
        InvalidInput: None, or some that are not between 0 and 1.
    """
    try:
        levels = np.atleast_1d(np.asarray(quantiles, np.float64))
    except (TypeError, ValueError):
        levels = np.zeros(0)
    if levels.ndim > 1 or not levels.size or not ((levels > 0) & (levels < 1)).all():
        expected, remedy = "probabilities strictly between 0 and 1", "Pass some, such as (0.05, 0.95)."
        checks.reject(argument, repr(quantiles), expected, remedy)
    return levels


class SAERegressor(MultiOutputMixin, RegressorMixin, Ensemble):  # type: ignore[misc]
    """Predictions with uncertainty from an ensemble of networks that approximates the Bayesian posterior.

    Args:
        method: "sae", a sequential anchored ensemble; "ae", an anchored ensemble; or "deep_ensemble".
        noise: What is known of the targets' noise: "varying", the default, a standard deviation that depends on the
            features; "constant", one that is learned; or a number, its standard deviation.
        perturb_targets: Whether anchored members' targets are moved by draws of the noise. Without it, as in the
            paper, members agree too much where the data are many, and take for signal what is noise.
        calibrate: "conformal" holds a fifth of the rows back from training, 19 at least and 2000 at most. Intervals and
            quantiles then go as far from the mean, in predictive standard deviations, as these n rows ask for:
            `predict_interval(X, coverage=c)` takes the ceil((n + 1) c)-th smallest of their distances. If new rows and
            those held back are exchangeable, as random rows of one population are, the interval holds a new target with
            a probability from c to c + 1 / (n + 1) (the upper end without ties), whatever the members are worth: on
            average over fits and rows, not for each row. "auto" does so from 500 rows on, where a fifth is
            enough for intervals of 99%. "none", the default, takes quantiles of the mixture.
        quantiles: What `predict` returns in place of the mean, such as (0.05, 0.95), shape (rows, quantiles): for tools
            that ask for nothing else, such as `cross_val_predict` and `GridSearchCV.predict`. `score` takes the mean.
        hidden: Units of each hidden layer, of the network `anchorwalk.networks.tabular`.
        network: Instead of that one: a network (init, apply), or a function (inputs, outputs) that makes
            one. It has one output for each target, with `noise="varying"` two.
        budget: Epochs over all chains, the cost of the ensemble: an epoch is one network's pass over the data. A part
            of it, up to a fifth, pays for trials (`anchorwalk.plan_for`), which choose the prior and the length of
            trainings on rows that they hold back. "auto" takes 100 to 4000 epochs, for 100,000 steps
            of training and more with the rows.
        seconds: Train for about this many seconds, in place of the budget's number of members. `budget` then still
            decides how long each training is, and the first trainings are always finished.
        chains: Independent chains ("sae", 8 by default), or members (the other methods; by default as many as the
            budget holds, 5 or more).
        batch_size: Rows in a minibatch, clipped to the data; "auto" makes about a hundred in an epoch, of 16 to 128
            rows.
        learning_rate: Of Adam at the start of each training: 0.01 by default; with `network` trials find it.
        step_size: Of the anchors' walk from member to member, in prior standard deviations; by default 1, or less where
            later trainings are too short to follow.
        prior: An `anchorwalk.Prior`, or a number for one scale for all parameters. By default kernels have a scale of
            1 / sqrt(fan-in), biases one, and trials choose how much less the first kernel has, whether features
            differ in weight, and whether the function may have kinks.
        encoding: What becomes of columns of texts and categories, where X is a pandas table: "one_hot", a column of
            zeros and ones for each text; "target", the mean of the target; "auto", the first up to 50 texts. Dates
            become numbers too, and what is missing is filled in by the median and marked.
        early_stopping: Whether each training keeps its best epoch by rows that are held back, in place of its last one.
            No epoch is saved: trainings are as long as the plan says.
        validation_fraction: Share of the rows that `early_stopping` holds back.
        warm_start: Whether `fit` with a larger `budget`, on the same data, adds to the members that are there.
        store: A folder in which each member is safe as soon as it is trained; the same fit resumes there after a kill.
        random_state: A seed, or a random state; all randomness comes from it.
        verbose: Whether to show a progress bar, and to print `diagnosis_`.
        runner: Where chains are trained: "auto" for this machine, or a runner such as `anchorwalk.Ray(address="auto")`.

    Attributes:
        posterior_: The `anchorwalk.Posterior`: members, losses, predictions, diagnostics. Its targets are standardised.
        plan_: The `anchorwalk.Plan` that was run.
        diagnosis_: What `posterior_.diagnose` says of 64 rows, spread over those of training, some repeated where there
            are fewer. A fit warns (`anchorwalk.errors.NotConvergedWarning`) where it shows that chains disagree or
            losses rise along them. `save` does not store it.
        loss_curve_: The loss in each epoch, in nats a row, averaged over chains; members of a chain follow each other.
        calibration_scores_: With `calibrate`, distances of the targets held back from the predictive mean, in standard
            deviations, sorted, shape (rows held back,) or (rows held back, targets); else None.
        n_iter_: Epochs spent.
        encoder_: What makes numbers of a table's columns; None where X was an array.
        n_features_in_: Number of features, or of columns.
        feature_names_in_: Their names, where X had them.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.integrations.sklearn import SAERegressor
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> model = SAERegressor(budget=80, random_state=0).fit(x, 3 * x[:, 0])
        >>> mean, std = model.predict([[0.5], [50.0]], return_std=True)
        >>> bool(std[0] < std[1])
        True
    """

    def __init__(
        self,
        method: str = "sae",
        *,
        noise: str | float = "varying",
        perturb_targets: bool = True,
        calibrate: str = "none",
        quantiles: tuple[float, ...] | None = None,
        hidden: tuple[int, ...] = (50, 50),
        network: Network | Maker | None = None,
        budget: int | str = "auto",
        seconds: float | None = None,
        chains: int | None = None,
        batch_size: int | str = "auto",
        learning_rate: float | None = None,
        step_size: float | None = None,
        prior: Prior | float | None = None,
        encoding: str = "auto",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        warm_start: bool = False,
        store: str | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
        runner: str | Runner = "auto",
    ) -> None:
        super().__init__(
            method,
            hidden=hidden,
            network=network,
            budget=budget,
            seconds=seconds,
            chains=chains,
            batch_size=batch_size,
            learning_rate=learning_rate,
            step_size=step_size,
            prior=prior,
            encoding=encoding,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            warm_start=warm_start,
            store=store,
            random_state=random_state,
            verbose=verbose,
            runner=runner,
        )
        self.noise = noise
        self.perturb_targets = perturb_targets
        self.calibrate = calibrate
        self.quantiles = quantiles

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Train the ensemble.

        Args:
            X: Features, shape (rows, features).
            y: Targets, shape (rows,) or (rows, targets).
            sample_weight: A weight of each row that multiplies its log-likelihood. `calibrate` holds back no row of
                weight zero, and counts all others alike.
        """
        if isinstance(self.noise, str):
            checks.choice("noise", self.noise, NOISES)
        else:
            checks.positive("noise", self.noise)
        if self.quantiles is not None:
            _levels("quantiles", self.quantiles)
        seed, checked = self._next_seed(), {"multi_output": True, "y_numeric": True}
        held = self._held_back(X, y, sample_weight, seed, checked)
        (x, new), (y, truth), (weights, _) = (self._parts(values, held) for values in (X, y, sample_weight))
        try:
            self._fit(x, y, weights, seed, **checked)
            self.calibration_scores_ = None if held is None else self._scores(new, np.asarray(truth, np.float64))
        finally:
            if not hasattr(self, "calibration_scores_"):  # it was interrupted
                self._forget(*RESULTS)
        return self

    def _scores(self, x: Any, truth: HostArray) -> HostArray:
        """Distances of targets from their predictions, for calibration."""
        return conformal.scores_of(truth, *self._moments(*self._predicted(x)))

    def _held_back(self, x: Any, y: Any, weights: Any, seed: int, checked: dict[str, Any]) -> HostArray | None:
        """Which rows calibration holds back, all of them checked before any is trained on; None without it."""
        held = None
        if checks.choice("calibrate", self.calibrate, conformal.MODES) != "none":
            numbers = np.zeros((len(x), 1)) if is_table(x) else x
            numbers, _ = check_X_y(numbers, y, dtype=np.float64, **checked)
            weights = _check_sample_weight(weights, numbers, dtype=np.float64, ensure_non_negative=True)
            held = conformal.held_back(self.calibrate, weights, seed)
        former = getattr(self, "calibration_scores_", held)  # missing where the fit before did not end
        if self._going_on and (held is None) != (former is None):
            given, remedy = f"calibrate={self.calibrate!r}, with other rows to train on", "Set warm_start=False."
            checks.reject("fit with warm_start", given, "the rows of the first fit", remedy)
        return held

    @staticmethod
    def _parts(values: Any, held: HostArray | None) -> tuple[Any, Any]:
        """The rows to train on and those held back, in their order."""
        if values is None or held is None:
            return values, None
        rows = np.flatnonzero(~held), np.flatnonzero(held)
        return _safe_indexing(values, rows[0]), _safe_indexing(values, rows[1])

    def predict(
        self,
        X: Any,  # noqa: N803
        return_std: bool = False,
        return_interval: float | None = None,
    ) -> Any:
        """The predictive mean, and what else is asked for: `mean, std, low, high` in this order.

        Args:
            X: Features, shape (rows, features).
            return_std: Whether to return the predictive standard deviation too, noise included.
            return_interval: A coverage such as 0.9, to return the two ends of the central interval that holds it.
        """
        prediction, rows = self._predicted(X)
        found = [self._mean(prediction, rows)]
        if self.quantiles is not None:
            found = [self._quantiles(prediction, rows, self.quantiles)]
        if return_std:
            found.append(self._moments(prediction, rows)[1])
        if return_interval is not None:
            found += self._interval(prediction, rows, return_interval)
        return tuple(found) if len(found) > 1 else found[0]

    def predict_interval(self, X: Any, coverage: float = 0.9) -> tuple[HostArray, HostArray]:  # noqa: N803
        """The central interval that holds `coverage` of the predictive distribution: its two ends.

        With `calibrate` it is around the mean, and holds a new target with that probability; see there.

        Args:
            X: Features, shape (rows, features).
            coverage: From 0 to 1; with `calibrate` up to n / (n + 1), for n rows held back.
        """
        low, high = self._interval(*self._predicted(X), coverage)
        return low, high

    def predict_quantiles(self, X: Any, quantiles: Any = (0.05, 0.5, 0.95)) -> HostArray:  # noqa: N803
        """Quantiles of the predictive distribution, shape (rows, quantiles) or (rows, targets, quantiles).

        With `calibrate` they are ends of intervals around the mean: that for 0.95 is the upper end, and that for 0.05
        the lower end, of the interval of 90%; that for 0.5 is the mean. What is guaranteed is the interval's coverage,
        not that of one side.
        """
        return self._quantiles(*self._predicted(X), quantiles)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:  # noqa: N803
        """R² of the predictive mean."""
        return float(r2_score(y, self._mean(*self._predicted(X)), sample_weight=sample_weight))

    def plot(self, X: Any = None, y: Any = None, *, coverage: float = 0.9, ax: Any = None) -> Any:  # noqa: N803
        """Draw predictions and their intervals, or without X the loss in each epoch. It needs matplotlib.

        Args:
            X: Rows to predict. One feature is drawn as a line; more, row by row, in the order of truth or mean.
            y: Their truth, or None.
            coverage: Probability that an interval should hold.
            ax: Matplotlib's axes to draw on; new ones unless given.

        Returns:
            The axes.
        """
        from anchorwalk.integrations.sklearn import plots

        if X is None:
            return plots.losses(self.loss_curve_, ax)
        prediction, rows = self._predicted(X)
        mean, (low, high) = self._mean(prediction, rows), self._interval(prediction, rows, coverage)
        if mean.ndim > 1:
            checks.reject("plot", f"predictions of {mean.shape[1]} targets", "one target", "Draw them one by one.")
        return plots.intervals(X, y, mean, low, high, coverage, ax)

    def _mean(self, prediction: Prediction, rows: int) -> HostArray:
        return self.target_scaling_.back(prediction.mean[:rows])

    def _moments(self, prediction: Prediction, rows: int) -> tuple[HostArray, HostArray]:
        """Predictive mean and standard deviation, in the targets' units."""
        return self._mean(prediction, rows), prediction.std[:rows] * self.target_scaling_.scale

    def _quantiles(self, prediction: Prediction, rows: int, quantiles: Any) -> HostArray:
        levels = _levels("predict_quantiles", quantiles)
        if self.calibration_scores_ is None:
            found = self.target_scaling_.back(prediction.quantile(levels)[:, :rows])
        else:
            mean, std = self._moments(prediction, rows)
            away = [np.sign(q - 0.5) * conformal.distance(self.calibration_scores_, abs(2 * q - 1)) for q in levels]
            found = np.stack([mean + one * std for one in away])
        return np.moveaxis(found, 0, -1)

    def _interval(self, prediction: Prediction, rows: int, coverage: float) -> list[HostArray]:
        if self.calibration_scores_ is None:
            return [self.target_scaling_.back(end[:rows]) for end in prediction.interval(coverage)]
        mean, std = self._moments(prediction, rows)
        away = conformal.distance(self.calibration_scores_, coverage) * std
        return [mean - away, mean + away]

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> HostArray:  # noqa: N803
        """Targets drawn from the predictive distribution, shape (rows, n_samples) or (rows, targets, n_samples)."""
        drawn = self.target_scaling_.back(self._draws(X, n_samples, random_state))
        return np.moveaxis(drawn, 0, -1)

    def _targets(self, y: Any, weights: HostArray) -> HostArray:
        y = np.asarray(y, np.float64)
        checks.finite("y", y, "Leave those rows out.")
        if not self._going_on:
            self.target_scaling_ = Scaling.of("y", y, weights)
            self._target_shape = y.shape[1:]
            used = y[weights > 0]
            if (used == used[0]).all(axis=0).any():
                what = "a target is the same in every row: its noise is not known, predicted deviations mean nothing"
                warn(what, ScaleWarning)
        return self.target_scaling_(y)

    def _likelihood(self) -> Likelihood:
        if isinstance(self.noise, str):
            return HeteroscedasticNormal()
        scale = self.noise / self.target_scaling_.scale
        if not ((scale > 1 / FARTHEST) & (scale < FARTHEST)).all():
            given = f"{self.noise:g} for targets with a standard deviation of {np.max(self.target_scaling_.scale):g}"
            checks.reject("noise", given, "a noise of a like scale", "Give it in the targets' own units.")
        if scale.size > 1 and not np.allclose(scale, scale.flat[0]):
            given, remedy = f"{self.noise} with targets of several scales", "Scale the targets, or leave noise out."
            checks.reject("noise", given, "one noise that fits all standardised targets", remedy)
        return Normal(scale=float(scale.flat[0]))

    def _network(self) -> Network:
        targets = self._target_shape
        outputs = int(np.prod(targets)) * (2 if self.noise == "varying" else 1)
        network = networks.build(self.network, self.hidden, self._room(), outputs)
        if not isinstance(self.noise, str):
            return networks.known_noise(network, targets)
        return networks.normal(network, targets, self.noise == "constant")

    def _perturbs(self) -> bool:
        return bool(self.perturb_targets) and self.method != "deep_ensemble"

    def _varies(self) -> bool:
        return self.noise == "varying"

    def _priors(self) -> list[Prior]:
        return self._as_priors(networks.GAIN, noise=self.noise == "constant", scales=networks.SCALES)
