"""What both estimators share: parameters, fitting, members, storage."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import jax
import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_array, check_random_state, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from anchorwalk import checks
from anchorwalk.data import refuse_source
from anchorwalk.integrations.sklearn import diagnosis, networks, planning, saving
from anchorwalk.integrations.sklearn.encoding import ENCODINGS, Encoder, is_table
from anchorwalk.integrations.sklearn.networks import Maker
from anchorwalk.integrations.sklearn.scaling import Scaling
from anchorwalk.likelihoods import Likelihood
from anchorwalk.networks import Network
from anchorwalk.plan.plan import Plan
from anchorwalk.posterior.diagnose import Diagnosis
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.prior import Prior
from anchorwalk.problem import Problem
from anchorwalk.run.callbacks import Progress
from anchorwalk.run.keys import Stream
from anchorwalk.run.runners import Runner
from anchorwalk.run.sample import sample
from anchorwalk.run.store import DiskStore, MemoryStore
from anchorwalk.types import HostArray

SEEDS = np.iinfo(np.int32).max
RESULTS = ("posterior_", "diagnosis_", "calibration_scores_")
"""What belongs to one set of members: all of it goes when they do."""
FEW, CALL, CALL_FEW = 1024, 1024, 64
"""Up to FEW rows are predicted CALL_FEW at a time, more of them CALL at a time.

Calls of one size, filled up with other rows, let one program serve and let a row's prediction depend on no other row.
"""


class Ensemble(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
    """Parameters and machinery of both estimators; see `SAERegressor` and `SAEClassifier`."""

    plan_: Plan
    posterior_: Posterior
    diagnosis_: Diagnosis
    scaling_: Scaling
    encoder_: Encoder | None
    _store: MemoryStore | DiskStore
    _chosen: int
    _frozen: bool
    _seed: int

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
        warm_start: bool = False,
        store: str | None = None,
        random_state: Any = None,
        verbose: bool | int = False,
        runner: str | Runner = "auto",
    ) -> None:
        self.method = method
        self.hidden = hidden
        self.network = network
        self.budget = budget
        self.seconds = seconds
        self.chains = chains
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.step_size = step_size
        self.prior = prior
        self.encoding = encoding
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.warm_start = warm_start
        self.store = store
        self.random_state = random_state
        self.verbose = verbose
        self.runner = runner

    @property
    def _fills_up(self) -> bool:
        """Whether the network has room for more features; not one whose shapes the user sees."""
        return self.network is None and not isinstance(self.prior, Prior)

    def _room(self) -> int:
        """Features of the network."""
        return networks.room(self._width) if self._fills_up else self._width

    @property
    def _width(self) -> int:
        """Features, as the columns of X became them."""
        return int(self.n_features_in_) if self.encoder_ is None else len(self.encoder_.names)

    def _inputs(self, x: HostArray) -> HostArray:
        """Features as the network takes them."""
        scaled = self.scaling_(x)
        if not (finite := np.isfinite(scaled)).all():
            row, column = np.argwhere(~finite)[0]
            given, remedy = f"{x[row, column]:g}", "Leave the row out; is it in other units?"
            checks.reject(
                f"X, row {row}, column {column}", given, "what float32 can hold, scaled as in training", remedy
            )
        return np.pad(scaled, ((0, 0), (0, self._room() - x.shape[1])))

    # What the two estimators differ in.

    def _targets(self, y: Any, weights: HostArray) -> HostArray:
        """Targets as the likelihood takes them."""
        raise NotImplementedError

    def _likelihood(self) -> Likelihood:
        raise NotImplementedError

    def _network(self) -> Network:
        raise NotImplementedError

    def _priors(self) -> list[Prior]:
        """The priors that trials choose from; the first without trials."""
        raise NotImplementedError

    def _row_weights(self, y: Any) -> Any:
        """Weights of rows by their targets."""
        return 1.0

    def _varies(self) -> bool:
        """Whether the noise of the targets differs from row to row."""
        return False

    def _perturbs(self) -> bool:
        """Whether members' targets are moved by draws of the noise."""
        return False

    # Fitting.

    @property
    def _going_on(self) -> bool:
        """Whether a fit adds to the members of the one before."""
        return bool(self.warm_start) and hasattr(self, "plan_")

    def _next_seed(self) -> int:
        """The seed of a fit; it is drawn once, before all else."""
        return self._seed if self._going_on else int(check_random_state(self.random_state).randint(SEEDS))

    def _fit(self, x: Any, y: Any, sample_weight: Any, seed: int, **checked: Any) -> Self:
        going_on = self._going_on
        if going_on and self._frozen:
            remedy = "Continue from save() and load(), or set warm_start=False."
            checks.reject("fit with warm_start", "an estimator unpickled without its chains", "its chains", remedy)
        if not going_on:
            self._forget("plan_", *RESULTS)
        x, y, encoder = self._learned(x, y, seed, **checked)
        weights = _check_sample_weight(sample_weight, x, dtype=np.float64, ensure_non_negative=True)
        weights = weights * self._row_weights(y)
        if not weights.any():
            checks.reject("sample_weight", "only zeros", "a weight above zero", "Leave sample_weight out.")
        if np.count_nonzero(weights) == 1:
            given, remedy = "1 sample with a weight above zero", "One row says nothing of how targets vary."
            checks.reject("X", given, "2 samples or more", remedy)
        if going_on and encoder != self.encoder_:
            checks.reject("fit with warm_start", "other data", "the data of the first fit", "Set warm_start=False.")
        if not going_on:
            self.encoder_ = encoder
            self.scaling_ = Scaling.of("X", x, weights)
            self._seed = seed
            self._store = MemoryStore() if self.store is None else DiskStore(self.store)
            self._frozen = False
        data = self._inputs(x), self._targets(y, weights)
        network = self._network()
        init = networks.narrowed(network.init, self._width) if self._fills_up else network.init
        problem = Problem(init, network.apply, self._likelihood(), self._priors()[0], data, weights.astype(np.float32))
        unused = networks.unused(problem.params_like, self._width) if self._fills_up else None
        if self.early_stopping:
            share = checks.positive("validation_fraction", self.validation_fraction)
            checks.within("validation_fraction", share, 0, 1, open_above=True)
            problem = problem.hold_back(jax.random.fold_in(jax.random.key(self._seed), Stream.PREPARE), share)
        rows = networks.room(problem.n)
        problem = problem.filled(rows, unused)
        if going_on:
            plan = planning.grown(self.plan_, self.budget)
            problem = problem if self._chosen == 0 else problem.with_prior(self._priors()[self._chosen])
        else:
            key = jax.random.fold_in(jax.random.key(self._seed), Stream.TRIAL)
            found = planning.planned(key, problem, self._priors(), self, self._varies())
            plan, problem, self._chosen = found.plan, found.problem, found.chosen
            if self.verbose:
                print(found)
        self._sample(problem, plan)
        self._diagnose(*data)
        return self

    def _forget(self, *names: str) -> None:
        """Forget what an earlier fit found: one that fails half-way must not predict with parts of both."""
        for name in names:
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "posterior_")

    def _diagnose(self, x: HostArray, y: HostArray) -> None:
        """Diagnose the fit on some of its rows, as many as `predict` takes at once: its program is compiled once."""
        if not len(self.posterior_):
            return  # it was interrupted, and says so
        rows = x[diagnosis.spread(len(x), CALL_FEW)]
        self.diagnosis_ = self.posterior_.diagnose(rows, batch_size=CALL_FEW)
        if self.verbose:
            print(self.diagnosis_)
        diagnosis.warn_of(self, rows, None if is_classifier(self) else y)

    def _learned(self, x: Any, y: Any, seed: int, **checked: Any) -> tuple[HostArray, Any, Encoder | None]:
        """Rows as numbers and their targets, checked; and what makes numbers of a table's columns."""
        checks.choice("encoding", self.encoding, ENCODINGS)
        refuse_source("X", x)
        if not is_table(x):
            return *validate_data(self, x, y, dtype=np.float64, reset=not self._going_on, **checked), None
        validate_data(self, x, skip_check_array=True, reset=not self._going_on)
        _, y = check_X_y(np.zeros((len(x), min(1, x.shape[1]))), y, **checked)
        classes = len(np.unique(y)) if is_classifier(self) else 0
        encoder = Encoder.choose(x, self.encoding, classes, seed)
        if np.ndim(y) > 1 and any(one.kind == "target" for one in encoder.columns):
            given = "several targets, and a column of many texts"
            checks.reject("encoding", given, "one target to take means of", "Pass encoding='one_hot'.")
        return encoder.fit_transform(x, y), y, encoder

    def _features(self, x: Any) -> HostArray:
        """Rows to predict as numbers, checked against those of training."""
        check_is_fitted(self)
        refuse_source("X", x)
        if self.encoder_ is None:
            return np.asarray(validate_data(self, x, dtype=np.float64, reset=False))
        validate_data(self, x, skip_check_array=True, reset=False)
        return self.encoder_.transform(x if is_table(x) else check_array(x, dtype=None, ensure_all_finite="allow-nan"))

    def _sample(self, problem: Problem, plan: Plan) -> None:
        key = jax.random.key(self._seed)

        def run(plan: Plan) -> Posterior:
            listeners = [Progress(type(self).__name__)] if self.verbose else []
            found = sample(key, problem, plan, runner=self.runner, store=self._store, callbacks=listeners)
            self.plan_ = plan
            return found

        found = run(plan) if self.seconds is None else planning.until(self.seconds, plan, run)
        self._forget(*RESULTS)
        self.posterior_ = found
        self.n_iter_ = self.plan_.epochs

    @property
    def loss_curve_(self) -> HostArray:
        """Mean over chains of the loss in each epoch, of a chain's members one after the other, in nats a row."""
        check_is_fitted(self)
        curves: dict[int, list[HostArray]] = defaultdict(list)
        for member in self.posterior_:
            curves[member.info.chain].append(np.asarray(member.trace, np.float64))
        joined = [np.concatenate(traces) for traces in curves.values()]
        longest = max(map(len, joined))
        padded = [np.pad(curve, (0, longest - len(curve)), constant_values=np.nan) for curve in joined]
        return np.asarray(np.nanmean(padded, axis=0))

    # Prediction.

    def _predicted(self, x: Any) -> tuple[Prediction, int]:
        """The prediction of the rows and a few more, and the number of rows."""
        x = self._inputs(self._features(x))
        size = CALL_FEW if len(x) <= FEW else CALL
        more = np.repeat(x[-1:], -len(x) % size, axis=0)
        return self.posterior_.predict(np.concatenate([x, more]), batch_size=size), len(x)

    def _draws(self, x: Any, n_samples: int, random_state: Any) -> HostArray:
        """Draws, shape (n_samples, rows, ...)."""
        prediction, rows = self._predicted(x)
        seed = int(check_random_state(random_state).randint(SEEDS))
        return prediction.draws(jax.random.key(seed), checks.count("n_samples", n_samples))[:, :rows]

    # Storage.

    def save(self, folder: str | Path) -> None:
        """Write the fitted estimator and its members: files of numbers and JSON, nothing that is code.

        Args:
            folder: A new folder, or the one of `store=`.
        """
        check_is_fitted(self)
        saving.save(self, Path(folder))

    @classmethod
    def load(cls, folder: str | Path, network: Network | Maker | None = None) -> Self:
        """A saved estimator; members stay on disk and are read as they are needed.

        Args:
            folder: Where `save` wrote it.
            network: For an estimator with `network=`: the same network. Code is not stored.
        """
        found: Self = saving.load(cls, Path(folder), network)
        return found

    def __getstate__(self) -> dict[str, Any]:
        state = dict(super().__getstate__())
        if "posterior_" in state:  # it holds functions; members go along, wherever they are
            posterior = state.pop("posterior_")
            if not isinstance(self._store, MemoryStore):
                state["_store"], state["_frozen"] = saving.in_memory(posterior), True
            rest = posterior.infos, dict(posterior.settings), posterior.complete, posterior.failed
            state["_posterior"] = posterior.likelihood, *rest
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_posterior" in state:
            self.posterior_ = Posterior(self._store, self._network().apply, *self.__dict__.pop("_posterior"))

    def _as_priors(self, gain: float, noise: bool, scales: Sequence[networks.Scales]) -> list[Prior]:
        if isinstance(self.prior, Prior):
            return [self.prior]
        features = self._width if self._fills_up else None
        if self.prior is not None:
            return [replace(networks.default_prior(gain, noise, features), scale=float(self.prior))]
        if self.network is not None:
            return [networks.default_prior(gain, noise, features)]
        return [networks.default_prior(gain, noise, features, one) for one in scales]
