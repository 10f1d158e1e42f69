"""A model of a table: how its columns become numbers, and the estimator behind them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk import checks, files
from anchorwalk.app.report import Paths, ReportData, write
from anchorwalk.app.tables.columns import Encoding
from anchorwalk.app.tables.reading import column
from anchorwalk.app.tables.settings import FitSettings
from anchorwalk.errors import StoreDamaged
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.integrations.sklearn.classifier import normalised

NAME = "table.json"
FORMAT = 1
MOST_CLASSES = 20
"""Different whole numbers in a target, up to which they are taken for classes."""


@dataclass(frozen=True)
class TableModel:
    """A fitted model of a table.

    Attributes:
        encoding: How columns become features.
        estimator: The fitted estimator.
        target: The target's name.
        settings: What it was fitted with.
        notes: What a person should know of how the table was treated.
    """

    encoding: Encoding
    estimator: Any
    target: str
    settings: dict[str, Any]
    notes: tuple[str, ...]

    @property
    def classes(self) -> list[str] | None:
        """Names of the classes, or None for a regression."""
        return [str(one) for one in self.estimator.classes_] if isinstance(self.estimator, SAEClassifier) else None

    def predict(self, table: Any, coverage: float = 0.9) -> tuple[Any, list[str]]:
        """Predictions with uncertainty as a table, a row for each, and what a person should know.

        Regression has mean, std, low, high (the ends of the interval), epistemic_std and aleatoric_std;
        classification has predicted, p_<class> for each class, entropy and its parts epistemic and aleatoric.

        Args:
            table: Rows with the columns of training; the target may be missing.
            coverage: Probability that the interval should hold.
        """
        import pandas as pd

        x, notes = self.encoding.apply(table)
        prediction, rows = self.estimator._predicted(x)
        if self.classes is not None:
            probabilities = normalised(prediction, rows)
            epistemic, entropy = prediction.mutual_information[:rows], prediction.entropy[:rows]
            columns = {"predicted": self.estimator.classes_[probabilities.argmax(axis=1)]}
            columns |= {f"p_{name}": probabilities[:, i] for i, name in enumerate(self.classes)}
            columns |= {"entropy": entropy, "epistemic": epistemic, "aleatoric": np.maximum(entropy - epistemic, 0)}
        else:
            scaling = self.estimator.target_scaling_
            low, high = (scaling.back(end[:rows]) for end in prediction.interval(coverage))
            columns = {
                "mean": scaling.back(prediction.mean[:rows]),
                "std": prediction.std[:rows] * scaling.scale,
                "low": low,
                "high": high,
                "epistemic_std": np.sqrt(prediction.epistemic[:rows]) * scaling.scale,
                "aleatoric_std": np.sqrt(prediction.aleatoric[:rows]) * scaling.scale,
            }
        return pd.DataFrame(columns, index=table.index), notes

    def report(self, table: Any | None, out: Path, title: str | None = None) -> Paths:
        """Write the page of a run, see `anchorwalk.app.report`.

        Args:
            table: Rows to predict, best some that training has not seen; scored where they have the target.
            out: The folder to write into.
            title: The page's heading.
        """
        data = None if table is None else self._data(table)
        return write(self.estimator.posterior_, out, data, title=title)

    def _data(self, table: Any) -> ReportData:
        x, _ = self.encoding.apply(table)
        used = [one.name for one in self.encoding.columns]
        truth = self._truth(table) if self.target in table.columns else None
        shared = {"names": used, "values": table[used].to_numpy(dtype=object), "target": self.target}
        inputs = self.estimator.scaling_(x)
        if self.classes is not None:
            return ReportData(inputs, truth, classes=self.classes, **shared)
        scaling = self.estimator.target_scaling_
        y = None if truth is None else scaling(truth)
        return ReportData(inputs, y, scale=float(scaling.scale), shift=float(scaling.mean), **shared)

    def _truth(self, table: Any) -> Any:
        """The target of a table's rows in its own units, or class numbers.

        Raises:
            InvalidInput: Values that are missing, or classes that training rows did not have.
        """
        values = column(table, self.target, "--target")
        if values.isna().any():
            row = int(np.argmax(values.isna().to_numpy()))
            given = f"nothing in row {row}, counted from 0"
            checks.reject(f"data, column {self.target!r}", given, "a value", "Leave those rows out.")
        if self.classes is None:
            return _numeric_target(self.target, values)
        numbers = {name: i for i, name in enumerate(self.classes)}
        texts = [_class(value) for value in values]
        new = sorted({text for text in texts if text not in numbers})
        if new:
            checks.reject(
                f"data, column {self.target!r}",
                f"the class {new[0]!r}",
                f"one of {', '.join(numbers)}",
                "Leave those rows out.",
            )
        return np.array([numbers[text] for text in texts])


def fit(table: Any, settings: FitSettings, folder: Path, verbose: bool = False) -> TableModel:
    """Fit a table and keep everything in a folder; the same call goes on there after a kill.

    Raises:
        InvalidInput: A table or settings that cannot be right, before any work starts.
    """
    values = column(table, settings.target, "--target")
    for name in settings.drop:
        column(table, name, "--drop")
    notes = []
    missing = values.isna()
    if missing.any():
        notes.append(f"{settings.target}: {int(missing.sum())} rows without it are left out")
        table, values = table[~missing], values[~missing]
    if len(values) < 2:
        given = f"{len(values)} rows with a value of {settings.target!r}"
        checks.reject("data", given, "two rows at least", "Is it the right target?")
    task = _task(values) if settings.task == "auto" else settings.task
    y = (
        np.array([_class(value) for value in values])
        if task == "classification"
        else _numeric_target(settings.target, values)
    )
    if len(np.unique(y)) == 1:
        remedy = "There is nothing to predict."
        checks.reject(f"--target {settings.target!r}", f"{y[0]} in every row", "a column that varies", remedy)
    if settings.task == "auto":
        notes.append(f"{settings.target}: taken as {_task_words(task, y)}; --task says otherwise")
    encoding = Encoding.learn(table, {settings.target, *settings.drop})
    x, _ = encoding.apply(table)
    _check_settings(settings, folder)
    model = TableModel(
        encoding, _estimator(settings, task, folder), settings.target, settings.model_dump(), (*notes, *encoding.notes)
    )
    model.estimator.set_params(verbose=verbose).fit(x, y)
    save(model, folder)
    return model


def _check_settings(settings: FitSettings, folder: Path) -> None:
    """Refuse to go on with a finished run of other settings, by their names."""
    if (folder / NAME).is_file():
        stored, now = load(folder).settings, settings.model_dump(mode="json")
        changed = [name for name in now if stored.get(name, now[name]) != now[name]]
        other = [f"{name} was {stored[name]}, is {now[name]}" for name in changed]
        if other:
            given = f"{str(folder)!r}, a run of other settings: {'; '.join(other)}"
            checks.reject("--out", given, "the same settings, or a new folder", "Choose another --out.")


def save(model: TableModel, folder: Path) -> None:
    """Write what is not yet in the run's folder."""
    model.estimator.save(folder)
    about = {
        "format": FORMAT,
        "target": model.target,
        "estimator": type(model.estimator).__name__,
        "columns": model.encoding.to_json(),
        "settings": model.settings,
        "notes": list(model.notes),
    }
    files.write(folder / NAME, json.dumps(about, indent=1).encode())


def load(folder: Path) -> TableModel:
    """The model that `fit` left in a folder.

    Raises:
        InvalidInput: A folder without one.
        StoreDamaged: A table.json that cannot be read.
    """
    if not (folder / NAME).is_file() and (folder / "run.json").is_file():
        remedy = "Open it with anchorwalk.load or the estimator's load; anchorwalk.app.report.write makes its page."
        checks.reject("run", f"{str(folder)!r}, a run without a table", "a run of `anchorwalk fit`", remedy)
    if not (folder / NAME).is_file():
        given = f"{str(folder)!r} without {NAME}"
        checks.reject(
            "run", given, "a folder that `anchorwalk fit --out` has finished", "Run that command first, or again."
        )
    try:
        about = json.loads((folder / NAME).read_bytes())
        encoding = Encoding.from_json(about["columns"])
        kind = {cls.__name__: cls for cls in (SAEClassifier, SAERegressor)}[about["estimator"]]
        target, settings, notes = str(about["target"]), dict(about["settings"]), tuple(map(str, about["notes"]))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    return TableModel(encoding, kind.load(folder), target, settings, notes)


def _estimator(settings: FitSettings, task: str, folder: Path) -> Any:
    names = ("method", "hidden", "budget", "seconds", "chains", "batch_size", "learning_rate", "step_size")
    options = {name: getattr(settings, name) for name in names}
    options |= {"random_state": settings.seed, "store": str(folder)}
    return SAEClassifier(**options) if task == "classification" else SAERegressor(noise=settings.noise, **options)


def _task(values: Any) -> str:
    import pandas as pd

    if not pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values):
        return "classification"
    numbers = values.to_numpy(dtype=float)
    whole = np.isfinite(numbers).all() and (numbers == np.round(numbers)).all()
    different = len(np.unique(numbers))
    return "classification" if whole and different <= min(MOST_CLASSES, len(numbers) / 5) else "regression"


def _task_words(task: str, y: Any) -> str:
    if task == "regression":
        return f"a number (from {y.min():g} to {y.max():g})"
    classes = np.unique(y)
    return f"{len(classes)} classes ({', '.join(map(str, classes[:5]))}{', ...' if len(classes) > 5 else ''})"


def _class(value: Any) -> str:
    """A class as text: 1 and 1.0 are one."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _numeric_target(name: str, values: Any) -> Any:
    import pandas as pd

    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    bad = ~np.isfinite(numbers)
    if bad.any():
        row = int(np.argmax(bad))
        given = f"{values.iloc[row]!r} in row {row}, counted from 0"
        remedy = "Mend the row, or pass --task classification."
        checks.reject(f"data, column {name!r}", given, "a finite number", remedy)
    return numbers
