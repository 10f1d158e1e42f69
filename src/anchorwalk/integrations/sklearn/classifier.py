"""Classification."""

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets

from anchorwalk import checks
from anchorwalk.integrations.sklearn import networks
from anchorwalk.integrations.sklearn.base import Ensemble
from anchorwalk.integrations.sklearn.networks import Maker
from anchorwalk.likelihoods import Categorical
from anchorwalk.networks import Network
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.prior import Prior
from anchorwalk.run.runners import Runner
from anchorwalk.types import HostArray


def normalised(prediction: Prediction, rows: int) -> HostArray:
    """Averaged probabilities of the first rows, which sum to one to the last digit."""
    averaged = prediction.probabilities[:rows]
    return np.asarray(averaged / averaged.sum(axis=1, keepdims=True))


def _check_labels(y: Any) -> None:
    """Refuse labels that are missing or of several kinds: NumPy cannot order them, or makes all of them text."""
    if str(getattr(y, "dtype", "object")) not in ("object", "category", "string", "str") or not np.iterable(y):
        return
    kinds: dict[str, str] = {}
    for row, label in enumerate(y):
        if _is_missing(label):
            given = f"no label in row {row}, counted from 0"
            checks.reject("y", given, "a class for each row", "Leave such rows out.")
        if (kind := _kind(label)) is not None:
            kinds.setdefault(kind, repr(label))
    if len(kinds) > 1:
        found = " and ".join(f"{kind} such as {label}" for kind, label in sorted(kinds.items()))
        checks.reject("y", f"labels of several kinds: {found}", "texts alone, or numbers alone", "Use text for all.")


def _is_missing(label: Any) -> bool:
    missing = label is None or type(label).__name__ in ("NAType", "NaTType")
    return missing or (isinstance(label, float | np.floating) and bool(label != label))


def _kind(label: Any) -> str | None:
    """The kind of a label; None for what scikit-learn refuses, such as rows of several labels."""
    kinds = {"texts": str, "truth values": bool | np.bool_, "numbers": int | float | np.number, "bytes": bytes}
    return next((kind for kind, types in kinds.items() if isinstance(label, types)), None)


class SAEClassifier(ClassifierMixin, Ensemble):  # type: ignore[misc]
    """Class probabilities from an ensemble of networks that approximates the Bayesian posterior.

    Args:
        method: "sae", a sequential anchored ensemble; "ae", an anchored ensemble; or "deep_ensemble".
        hidden: Units of each hidden layer, of the network `anchorwalk.networks.tabular`.
        network: Instead of that one: a network (init, apply) that gives a logit for each class, or
            a function (inputs, classes) that makes one.
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
            2 / sqrt(fan-in), biases one, and trials choose how much less the first kernel has, whether features
            differ in weight, and whether the function may have kinks.
        encoding: What becomes of columns of texts and categories, where X is a pandas table: "one_hot", a column of
            zeros and ones for each text; "target", the mean of the target; "auto", the first up to 50 texts. Dates
            become numbers too, and what is missing is filled in by the median and marked.
        early_stopping: Whether each training keeps its best epoch by rows that are held back, in place of its last one.
            No epoch is saved: trainings are as long as the plan says.
        validation_fraction: Share of the rows that `early_stopping` holds back.
        class_weight: Weights of the classes: "balanced", by how rare they are, or a dictionary of numbers.
        warm_start: Whether `fit` with a larger `budget`, on the same data, adds to the members that are there.
        store: A folder in which each member is safe as soon as it is trained; the same fit resumes there after a kill.
        random_state: A seed, or a random state; all randomness comes from it.
        verbose: Whether to show a progress bar, and to print `diagnosis_`.
        runner: Where chains are trained: "auto" for this machine, or a runner such as `anchorwalk.Ray(address="auto")`.

    Attributes:
        posterior_: The `anchorwalk.Posterior`: members, losses, predictions, diagnostics.
        plan_: The `anchorwalk.Plan` that was run.
        diagnosis_: What `posterior_.diagnose` says of 64 rows, spread over those of training, some repeated where there
            are fewer. A fit warns (`anchorwalk.errors.NotConvergedWarning`) where it shows that chains disagree or
            losses rise along them. `save` does not store it.
        classes_: The classes, in the order of the probabilities.
        loss_curve_: The loss in each epoch, in nats a row, averaged over chains; members of a chain follow each other.
        n_iter_: Epochs spent.
        encoder_: What makes numbers of a table's columns; None where X was an array.
        n_features_in_: Number of features, or of columns.
        feature_names_in_: Their names, where X had them.

    Example:
        >>> import numpy as np
        >>> from anchorwalk.integrations.sklearn import SAEClassifier
        >>> x = np.linspace(-1, 1, 40)[:, None]
        >>> model = SAEClassifier(budget=80, random_state=0).fit(x, np.where(x[:, 0] > 0, "yes", "no"))
        >>> model.predict([[-1.0], [1.0]]).tolist()
        ['no', 'yes']
    """

    classes_: HostArray

    def __init__(
        self,
        method: str = "sae",
        *,
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
        class_weight: dict[Any, float] | str | None = None,
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
        self.class_weight = class_weight

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803  # scikit-learn's name
        """Train the ensemble.

        Args:
            X: Features, shape (rows, features).
            y: Classes, shape (rows,).
            sample_weight: A weight of each row that multiplies its log-likelihood.
        """
        _check_labels(y)
        return self._fit(X, y, sample_weight, self._next_seed())

    def predict_proba(self, X: Any) -> HostArray:  # noqa: N803
        """Averaged probability of each class, shape (rows, classes)."""
        return normalised(*self._predicted(X))

    def predict_log_proba(self, X: Any) -> HostArray:  # noqa: N803
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> HostArray:  # noqa: N803
        """The most probable class of each row."""
        best = self.predict_proba(X).argmax(axis=1)
        found: HostArray = self.classes_[best]
        return found

    def plot(self, X: Any = None, y: Any = None, *, ax: Any = None) -> Any:  # noqa: N803
        """Draw how sure predictions are and, with the truth, how often they are right; without X the losses.

        Args:
            X: Rows to predict.
            y: Their true classes, or None.
            ax: Matplotlib's axes to draw on; new ones unless given.

        Returns:
            The axes.
        """
        from anchorwalk.integrations.sklearn import plots

        if X is None:
            return plots.losses(self.loss_curve_, ax)
        probabilities = self.predict_proba(X)
        right = None if y is None else self._right(probabilities.argmax(axis=1), np.asarray(y))
        return plots.confidence(probabilities.max(axis=1), right, ax)

    def _right(self, best: HostArray, y: HostArray) -> HostArray:
        """Which predictions are right."""
        if y.shape != best.shape:
            checks.reject("plot(y=)", f"shape {y.shape}", f"shape {best.shape}", "Pass the class of each row.")
        if not set(y.tolist()) & set(self.classes_.tolist()):
            expected = f"classes such as {self.classes_.tolist()[0]!r}"
            checks.reject("plot(y=)", f"classes such as {y.tolist()[0]!r}", expected, "Pass the class of each row.")
        return np.asarray(self.classes_[best] == y)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> HostArray:  # noqa: N803
        """Classes drawn from the predictive distribution, shape (rows, n_samples)."""
        drawn = self._draws(X, n_samples, random_state)
        found: HostArray = self.classes_[drawn.T]
        return found

    def _targets(self, y: Any, weights: HostArray) -> HostArray:
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        present = classes[np.unique(numbers[weights > 0])]
        if len(present) < 2:
            weighted = ", with a weight above zero" if len(classes) > 1 else ""
            given = f"one class alone, {present.tolist()[0]!r}{weighted}"
            checks.reject("y", given, "two classes or more", "There is nothing to tell apart.")
        if self._going_on and classes.tolist() != self.classes_.tolist():
            checks.reject("fit with warm_start", "other classes", "those of the first fit", "Set warm_start=False.")
        self.classes_ = classes
        return numbers.astype(np.int32)

    def _row_weights(self, y: Any) -> Any:
        given = self.class_weight
        if isinstance(given, dict):
            for name, weight in given.items():
                checks.within(f"class_weight[{name!r}]", weight, 0, np.inf)
        elif not (given is None or given == "balanced"):
            expected = "'balanced', a dictionary of weights, or None"
            checks.reject("class_weight", repr(given), expected, "Pass one of these.")
        return compute_sample_weight(given, y)

    def _likelihood(self) -> Categorical:
        return Categorical()

    def _network(self) -> Network:
        return networks.build(self.network, self.hidden, self._room(), len(self.classes_))

    def _priors(self) -> list[Prior]:
        return self._as_priors(networks.CLASS_GAIN, noise=False, scales=networks.SCALES[::-1])
