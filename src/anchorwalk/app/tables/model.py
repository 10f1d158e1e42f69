"""A model of a table: what its columns are, and the estimator behind them."""

import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk import checks, files
from anchorwalk.app.report import Paths, ReportData, write
from anchorwalk.app.tables import prepare
from anchorwalk.app.tables.columns import KINDS, Form, Options
from anchorwalk.app.tables.numbers import SIGNS
from anchorwalk.app.tables.reading import Reading, column, read, some
from anchorwalk.app.tables.settings import FitSettings
from anchorwalk.errors import StoreDamaged
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor
from anchorwalk.integrations.sklearn.classifier import normalised
from anchorwalk.integrations.sklearn.encoding import text
from anchorwalk.run.store import beside

NAME = "table.json"
FORMAT = 3


@dataclass(frozen=True)
class TableModel:
    """A fitted model of a table.

    Attributes:
        forms: The columns that are used, and how they are written.
        estimator: The fitted estimator; it encodes the columns.
        target: The target, and how it is written.
        options: How texts are read.
        settings: What it was fitted with.
        notes: What became of each column.
    """

    forms: tuple[Form, ...]
    estimator: Any
    target: Form
    options: Options
    settings: FitSettings
    notes: tuple[str, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features that columns became."""
        return list(self.estimator.encoder_.names)

    def read(self, path: Path, **ways: Any) -> Any:
        """A file as the training file was read, as a table for `predict` and `report`.

        Args:
            path: A CSV or Parquet file.
            ways: Fields of `Reading` in which this file is known to differ, such as `decimal=","`.
        """
        own = self.settings.reading
        texts = (*own.texts, *(form.name for form in self.forms if form.kind == "text"))
        # Those with a decimal sign of their own do not tell that of the file.
        measured = tuple(one.name for one in (self.target, *self.forms) if one.kind == "number" and not one.decimal)
        usual = Reading(None, None, own.thousands, own.missing, None, texts, self.options.decimal, measured)
        return read(path, replace(usual, **ways))

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

        columns = self._columns(table)
        prediction, rows = self.estimator._predicted(columns)
        notes = self.estimator.encoder_.remarks(columns)
        if self.classes is not None:
            probabilities = normalised(prediction, rows)
            epistemic, entropy = prediction.mutual_information[:rows], prediction.entropy[:rows]
            found = {"predicted": self.estimator.classes_[probabilities.argmax(axis=1)]}
            found |= {f"p_{name}": probabilities[:, i] for i, name in enumerate(self.classes)}
            found |= {"entropy": entropy, "epistemic": epistemic, "aleatoric": np.maximum(entropy - epistemic, 0)}
        else:
            scaling = self.estimator.target_scaling_
            low, high = (scaling.back(end[:rows]) for end in prediction.interval(coverage))
            found = {
                "mean": scaling.back(prediction.mean[:rows]),
                "std": prediction.std[:rows] * scaling.scale,
                "low": low,
                "high": high,
                "epistemic_std": np.sqrt(prediction.epistemic[:rows]) * scaling.scale,
                "aleatoric_std": np.sqrt(prediction.aleatoric[:rows]) * scaling.scale,
            }
        return pd.DataFrame(found, index=table.index), notes

    def report(self, table: Any | None, out: Path, title: str | None = None) -> Paths:
        """Write the page of a run, see `anchorwalk.app.report`.

        Args:
            table: Rows to predict, best some that training has not seen; scored where they have the target.
            out: The folder to write into.
            title: The page's heading.
        """
        data = None if table is None else self._data(table)
        return write(self.estimator.posterior_, out, data, title=title, target=self._named)

    @property
    def _named(self) -> str:
        """The target with its unit, where its name does not tell it."""
        name, unit = self.target.name, self.target.unit
        return name if unit in name else f"{name} ({unit})"

    def _options(self, table: Any) -> Options:
        """How a table's texts are read: by its own decimal sign, where it was read from a file."""
        return self.options._replace(decimal=table.attrs.get("decimal", self.options.decimal))

    def _columns(self, table: Any) -> Any:
        """The columns that are used, as numbers, dates and texts.

        Raises:
            InvalidInput: A column that is missing or has other values than in training.
        """
        import pandas as pd

        missing = [form.name for form in self.forms if form.name not in table.columns]
        if missing:
            given = f"a table without {some(missing)}, with {some(table.columns)}"
            remedy = "Names are case-sensitive; add what is missing, empty where it is not known."
            checks.reject("data", given, "all columns that the run was fitted with", remedy)
        options = self._options(table)
        return pd.DataFrame({form.name: form.typed(table[form.name], options) for form in self.forms})

    def _data(self, table: Any) -> ReportData:
        columns = self._columns(table)
        known = self.target.name in table.columns and table[self.target.name].notna().any()
        truth = self._truth(table) if known else None
        shared = {
            "names": [form.name for form in self.forms],
            "values": table[list(columns)].to_numpy(dtype=object),
            "target": self._named,
        }
        inputs = self.estimator.scaling_(self.estimator._features(columns))
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
        values = column(table, self.target.name, "--target")
        if values.isna().any():
            row = int(np.argmax(values.isna().to_numpy()))
            given = f"nothing in row {row}, counted from 0"
            checks.reject(f"data, column {self.target.name!r}", given, "a value", "Leave those rows out.")
        if self.classes is None:
            return self.target.typed(values, self._options(table)).to_numpy()
        numbers = {name: i for i, name in enumerate(self.classes)}
        texts = values.map(text)
        new = sorted(set(texts) - set(numbers))
        if new:
            given = f"the class {new[0]!r}"
            checks.reject(
                f"data, column {self.target.name!r}", given, f"one of {some(numbers)}", "Leave those rows out."
            )
        return texts.map(numbers).to_numpy()


def fit(
    table: Any,
    settings: FitSettings,
    folder: Path,
    verbose: bool = False,
    tell: Callable[[list[str]], None] | None = None,
) -> TableModel:
    """Fit a table and keep everything in a folder; the same call resumes there after a kill.

    Args:
        table: What `read` gave, or a pandas table.
        settings: All that a fit can be told.
        folder: Where everything is kept.
        verbose: Whether to show a progress bar, and what the fit says of itself.
        tell: Called with what became of each column, before training starts.

    Raises:
        InvalidInput: A table or settings that cannot be right, before any work starts.
    """
    values = column(table, settings.target, "--target")
    for name in (*settings.drop, *settings.types):
        column(table, name, "--drop" if name in settings.drop else "--as")
    if settings.target in settings.drop:
        checks.reject("--drop", repr(settings.target), "columns beside the target", "Leave one of the two out.")
    options = Options(table.attrs.get("decimal", settings.decimal or "."), settings.thousands, settings.dates)
    notes: list[str] = []
    missing = values.isna()
    if missing.any():
        notes.append(f"{settings.target}: {int(missing.sum())} rows without it are left out")
        table, values = table[~missing], values[~missing]
    if len(values) < 2:
        given = f"{len(values)} rows with a value of {settings.target!r}"
        checks.reject("data", given, "two rows at least", "Is it the right target?")
    target, y, words = prepare.target(values, settings, options)
    notes.append(f"{settings.target}: {words}")
    forms, columns, others = prepare.features(table, settings, options)
    notes += others
    _check_settings(settings, folder)
    if tell is not None:
        tell(notes)
    estimator = _estimator(settings, target, folder).set_params(verbose=verbose).fit(columns, y)
    model = TableModel(forms, estimator, target, options, settings, tuple(notes))
    save(model, folder)
    return model


def _check_settings(settings: FitSettings, folder: Path) -> None:
    """Refuse to resume a finished run with other settings, naming those that differ."""
    if os.path.lexists(folder / NAME):
        stored, now = load(folder).settings.model_dump(mode="json"), settings.model_dump(mode="json")
        other = [f"{name} was {stored[name]}, is {now[name]}" for name in now if stored[name] != now[name]]
        if other:
            given = f"{str(folder)!r}, a run of other settings: {'; '.join(other)}"
            checks.reject("--out", given, "the same settings, or a new folder", "Choose another --out.")


def save(model: TableModel, folder: Path) -> None:
    """Write what is not yet in the run's folder."""
    model.estimator.save(folder)
    about = {
        "format": FORMAT,
        "estimator": type(model.estimator).__name__,
        "target": asdict(model.target),
        "columns": [asdict(form) for form in model.forms],
        "options": model.options._asdict(),
        "settings": model.settings.model_dump(mode="json"),
        "notes": list(model.notes),
    }
    beside.write(folder, NAME, json.dumps(about, indent=1, allow_nan=False).encode())


def load(folder: Path) -> TableModel:
    """The model that `fit` left in a folder.

    Raises:
        InvalidInput: A folder without one.
        StoreDamaged: A table.json that cannot be read.
    """
    if not os.path.lexists(folder / NAME) and (folder / "run.json").is_file():
        remedy = "Open it with anchorwalk.load or the estimator's load; anchorwalk.app.report.write makes its page."
        checks.reject("run", f"{str(folder)!r}, a run without a table", "a run of `anchorwalk fit`", remedy)
    if not os.path.lexists(folder / NAME):
        given = f"{str(folder)!r} without {NAME}"
        checks.reject(
            "run", given, "a folder that `anchorwalk fit --out` has finished", "Run that command first, or again."
        )
    try:
        about = files.from_json(beside.read(folder, NAME))
        form = about["format"]
        kind = {cls.__name__: cls for cls in (SAEClassifier, SAERegressor)}[about["estimator"]]
        target, *forms = (_form(one) for one in (about["target"], *about["columns"]))
        if target.kind != ("text" if kind is SAEClassifier else "number"):
            raise ValueError(f"a target of the kind {target.kind!r}")
        options, settings = _options(about["options"]), FitSettings(**about["settings"])
        notes = tuple(map(str, about["notes"]))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise StoreDamaged(f"{folder / NAME} is not what was written ({error!r})") from None
    if form != FORMAT:
        remedy = "Load it with the version that wrote it."
        checks.reject("run", f"{NAME} of format {form}", f"format {FORMAT}", remedy)
    estimator = kind.load(folder)
    encoder = estimator.encoder_
    if encoder is None or [one.name for one in encoder.columns] != [one.name for one in forms]:
        raise StoreDamaged(f"{folder / NAME} does not belong to the estimator beside it, which has other columns")
    return TableModel(tuple(forms), estimator, target, options, settings, notes)


def _form(about: dict[str, Any]) -> Form:
    """What a column is, as it can have been written; ValueError for another one."""
    form = Form(**about)
    texts = all(isinstance(one, str) for one in about.values())
    if not (texts and form.kind in KINDS and form.decimal in ("", *SIGNS)):
        raise ValueError(f"the column {form.name!r}")
    return form


def _options(about: dict[str, Any]) -> Options:
    """How texts are read, as it can have been written; ValueError for another way."""
    options = Options(**about)
    texts = isinstance(options.thousands, str) and isinstance(options.dates, str | None)
    if not (texts and options.decimal in tuple(SIGNS)):
        raise ValueError("how texts are read")
    return options


def _estimator(settings: FitSettings, target: Form, folder: Path) -> Any:
    names = ("method", "hidden", "budget", "seconds", "chains", "batch_size", "learning_rate", "step_size")
    options = {name: getattr(settings, name) for name in names}
    options |= {"random_state": settings.seed, "store": str(folder), "encoding": settings.texts}
    return SAEClassifier(**options) if target.kind == "text" else SAERegressor(noise=settings.noise, **options)
