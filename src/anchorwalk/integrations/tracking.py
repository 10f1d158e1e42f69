"""Runs in TensorBoard and MLflow: ready callbacks for `sample`.

Both tell the same numbers. For each chain, at the step of the member's place in it: `training_loss` (mean minibatch
loss of the last epoch), `seconds`, `diverged` (0 or 1), and what the method says of its members, such as `loss_end`
(full-data loss after training), `gradient_norm_end` and `acceptance`. For the run, at the step of the members done:
`members_done`, `epochs_done`, `seconds`, and `seconds_compiling`, which is a part of it. What is not finite or was not
evaluated is left out.
"""

import json
import math
import sys
import time
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from typing import Any, NamedTuple

from anchorwalk import checks
from anchorwalk.methods.base import Member
from anchorwalk.plan.plan import Plan
from anchorwalk.run.callbacks import RoundInfo

BATCH = 1000
"""Numbers that MLflow takes in one call."""


class Scalar(NamedTuple):
    """One number of a run: its name, its value and its step."""

    name: str
    value: float
    step: int


def scalars(round_info: RoundInfo) -> Iterator[Scalar]:
    """The numbers of a call; the module lists them."""
    for member in round_info.members:
        for name, value in _of_member(member).items():
            if math.isfinite(value):
                yield Scalar(f"{name}/chain_{member.info.chain}", value, member.info.index)
    yield Scalar("run/members_done", float(round_info.members_done), round_info.members_done)
    yield Scalar("run/epochs_done", float(round_info.passes_done), round_info.members_done)
    yield Scalar("run/seconds", round_info.seconds, round_info.members_done)
    yield Scalar("run/seconds_compiling", round_info.compiling, round_info.members_done)


def _of_member(member: Member) -> dict[str, float]:
    found = {name: value for name, value in member.info.values.items() if not name.endswith("_start")}
    if len(member.trace):
        found["training_loss"] = float(member.trace[-1])
    return {**found, "seconds": member.info.seconds, "diverged": float(not member.info.good)}


def parameters(plan: Plan, settings: Mapping[str, Any]) -> dict[str, str]:
    """A plan and what else was given, as flat text: `plan.method` is "SAE", `plan.method.first.epochs` "100"."""
    return dict(_flat({"plan": plan.to_json(), **settings}))


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping) and set(value) == {"name", "settings"}:
        yield name, str(value["name"])
        value = value["settings"]
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, str(value)


class TensorBoard:
    """A callback that writes a run to TensorBoard's files, with tensorboardX.

    A resumed run with the same folder continues its curves.

    Args:
        folder: Where the files go; `tensorboard --logdir` takes it or a folder above it.
        settings: Anything else to be shown beside the plan, such as `{"walk": walk}`.

    Raises:
        ImportError: Without tensorboardX.

    Example:
        >>> import anchorwalk as aw
        >>> callbacks = [aw.Progress(), aw.TensorBoard("runs/mine/tensorboard")]  # doctest: +SKIP
    """

    def __init__(self, folder: str | PathLike[str], settings: Mapping[str, Any] | None = None) -> None:
        try:
            import tensorboardX
        except ImportError as error:
            raise ImportError("TensorBoard needs tensorboardX: pip install 'anchorwalk[tensorboard]'") from error
        if not isinstance(folder, str | PathLike):
            checks.reject("TensorBoard(folder=)", repr(folder), "a folder", 'Pass a name such as "runs/mine".')
        self._library = tensorboardX
        self._folder, self._settings = fspath(folder), _check_settings("TensorBoard", settings)
        self._writer: Any = None

    def start(self, plan: Plan, passes_done: float) -> None:
        """Open a file, and write the plan."""
        # Names of files hold seconds: a second one within the same second would take the first one's place.
        self._writer = self._library.SummaryWriter(self._folder, filename_suffix=f".{time.time_ns()}")
        text = json.dumps(parameters(plan, self._settings), indent=2, ensure_ascii=False)
        self._writer.add_text("settings", "\n".join(f"    {line}" for line in text.splitlines()))

    def __call__(self, round_info: RoundInfo) -> None:
        """Write a round."""
        for name, value, step in scalars(round_info):
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def end(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None


class MLflow:
    """A callback that logs a run to MLflow.

    Where an MLflow run is active, all goes into that one, and it is left open. Else a run is started, and ended as
    FINISHED when the plan is done, KILLED after Ctrl-C and FAILED after an error.

    `mlflow-skinny`, which the extra installs, speaks to a tracking server. For a database on this machine,
    `mlflow.set_tracking_uri("sqlite:///mlflow.db")`, install `mlflow` or add `sqlalchemy` and `alembic`.

    Args:
        experiment: Name of the experiment of a new run; None takes MLflow's own default.
        run_name: Name of a new run.
        settings: Anything else to be logged beside the plan, such as `{"walk": walk}`.
        prefix: What stands before every name, so that several calls of `sample` can share one active run.

    Raises:
        ImportError: Without MLflow.

    Example:
        >>> import anchorwalk as aw
        >>> callbacks = [aw.Progress(), aw.MLflow(experiment="energy", settings={"walk": "guided"})]  # doctest: +SKIP
    """

    def __init__(
        self,
        experiment: str | None = None,
        run_name: str | None = None,
        settings: Mapping[str, Any] | None = None,
        prefix: str = "",
    ) -> None:
        try:
            import mlflow
        except ImportError as error:
            raise ImportError("MLflow needs mlflow-skinny or mlflow: pip install 'anchorwalk[mlflow]'") from error
        self._library: Any = mlflow
        self._experiment, self._run_name, self._prefix = experiment, run_name, prefix
        self._settings = _check_settings("MLflow", settings)
        self._client: Any = None
        self._run_id: str | None = None
        self._own = False
        self._done = False

    def start(self, plan: Plan, passes_done: float) -> None:
        """Find or start the run, and log the plan.

        Raises:
            InvalidInput: A name for a new run while one is active, or settings that differ from those it has.
        """
        active = self._library.active_run()
        named = self._experiment is not None or self._run_name is not None
        if active is not None and named:
            given = f"a name for a new run while run {active.info.run_id} is active"
            checks.reject("MLflow(experiment=, run_name=)", given, "one of the two", "End that run, or leave them out.")
        self._own = active is None
        if active is None:
            active = self._library.start_run(experiment_id=self._experiment_id(), run_name=self._run_name)
        self._run_id = active.info.run_id
        self._client = self._library.MlflowClient()
        self._done = passes_done >= plan.epochs
        try:
            self._log_parameters({self._prefix + k: v for k, v in parameters(plan, self._settings).items()})
        except BaseException:
            self.end()
            raise

    def __call__(self, round_info: RoundInfo) -> None:
        """Log a round."""
        now = int(time.time() * 1000)
        metric = self._library.entities.Metric
        metrics = [metric(self._prefix + name, value, now, step) for name, value, step in scalars(round_info)]
        for first in range(0, len(metrics), BATCH):
            self._client.log_batch(self._run_id, metrics=metrics[first : first + BATCH])
        plan = round_info.plan
        self._done = round_info.members_done >= plan.total - round_info.failed * plan.members

    def end(self) -> None:
        """End the run if it was started here."""
        if self._run_id is None:
            return
        run_id, self._run_id = self._run_id, None
        if not self._own:
            return
        active = self._library.active_run()
        if active is not None and active.info.run_id == run_id:
            self._library.end_run(self._status())
        else:
            self._client.set_terminated(run_id, self._status())

    def _status(self) -> str:
        """How the run ended; an error is still on its way when callbacks are told of the end."""
        error = sys.exc_info()[0]
        if self._done:
            return "FINISHED"
        return "KILLED" if error is None or issubclass(error, KeyboardInterrupt) else "FAILED"

    def _experiment_id(self) -> str | None:
        if self._experiment is None:
            return None
        client = self._library.MlflowClient()
        found = client.get_experiment_by_name(self._experiment)
        return str(client.create_experiment(self._experiment) if found is None else found.experiment_id)

    def _log_parameters(self, wanted: Mapping[str, str]) -> None:
        """Log what is not there yet; MLflow lets no parameter change."""
        there = self._client.get_run(self._run_id).data.params
        for name, value in wanted.items():
            if there.get(name, value) != value:
                given = f"{name} = {value} for a run that has {there[name]}"
                remedy = "Start another run, or pass prefix= to tell them apart."
                checks.reject("MLflow", given, "the settings of the active run", remedy)
        for name, value in wanted.items():
            if name not in there:
                self._client.log_param(self._run_id, name, value)


def _check_settings(what: str, settings: Any) -> Mapping[str, Any]:
    if settings is None:
        return {}
    if not isinstance(settings, Mapping):
        checks.reject(f"{what}(settings=)", repr(settings), "a dictionary", 'Pass one such as {"walk": walk}.')
    return dict(settings)
