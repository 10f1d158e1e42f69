"""Columns of a pandas table as numbers: by their dtypes, with scikit-learn's own transformers.

Numbers and truth values stay numbers, what is missing becomes the median and is marked. Texts and categories become
columns of zeros and ones, or, where there are many, the mean of the target. Dates become days and places in the year,
the week and, with times, the day.
"""

import sys
from importlib.metadata import version
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import KFold
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

from anchorwalk import checks
from anchorwalk.types import HostArray

ENCODINGS = ("auto", "one_hot", "target")
MOST_LEVELS = 50
"""Different texts in a column, up to which "auto" makes a column of zeros and ones of each."""
FOLDS = 5
"""Folds in which target means of training rows are taken."""
SHOWN = 5
DAY, EPOCH = np.timedelta64(1, "D"), "2000-01-01"
MARK = "missingindicator_"


class Column(NamedTuple):
    """A column: "number", "date", "moment" (a date with a time), "one_hot" or "target"; its levels, if it has any."""

    name: str
    kind: str
    levels: tuple[str, ...] = ()


def is_table(x: Any) -> bool:
    """Whether X is a pandas table; pandas need not be installed."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(x, pandas.DataFrame)


class Encoder:
    """How the columns of a table become features.

    Args:
        columns: What each column is.
        classes: Number of classes of the target, 0 for a number.
        seed: Of the folds in which target means of training rows are taken.
    """

    def __init__(self, columns: tuple[Column, ...], classes: int, seed: int) -> None:
        self.columns, self.classes = columns, classes
        levels = {kind: [list(one.levels) for one in columns if one.kind == kind] for kind in ("one_hot", "target")}
        ends = np.cumsum([0, *map(len, self._names())])
        places = [list(range(start, end)) for start, end in pairwise(ends)]
        median = {"strategy": "median", "keep_empty_features": True}
        kind = "continuous" if not classes else "binary" if classes == 2 else "multiclass"
        means = TargetEncoder(categories=levels["target"], target_type=kind, **_folds(seed))
        one_hot = OneHotEncoder(
            categories=levels["one_hot"],
            handle_unknown="ignore",
            sparse_output=False,
            feature_name_combiner=_level_name,
        )
        self._transformer = ColumnTransformer(
            [
                ("numbers", SimpleImputer(add_indicator=True, **median), places[0]),
                ("parts", SimpleImputer(**median), places[1]),
                ("one_hot", one_hot, places[2]),
                ("target", means, places[3]),
            ],
            verbose_feature_names_out=False,
        )

    @classmethod
    def choose(cls, table: Any, encoding: str, classes: int, seed: int) -> Self:
        """What each column is, by its dtype.

        Args:
            table: Training rows.
            encoding: One of `ENCODINGS`.
            classes: Number of classes of the target, 0 for a number.
            seed: See `Encoder`.

        Raises:
            InvalidInput: A column of a dtype that cannot be a feature.
        """
        checks.choice("encoding", encoding, ENCODINGS)
        return cls(tuple(_choose(name, values, encoding) for name, values in table.items()), classes, seed)

    def fit_transform(self, table: Any, y: HostArray) -> HostArray:
        """Learn medians and target means; the features of the training rows, target means from other rows alone."""
        if len(table) < FOLDS and any(one.kind == "target" for one in self.columns):
            expected = f"{FOLDS} rows at least, for means of the target"
            checks.reject("X", f"{len(table)} rows", expected, "Pass more rows, or encoding='one_hot'.")
        target = np.unique(y, return_inverse=True)[1] if self.classes else y
        return np.asarray(self._transformer.fit_transform(self._plain(table), target), np.float64)

    def transform(self, table: Any) -> HostArray:
        """The features of rows, shape (rows, features).

        Raises:
            InvalidInput: Values that are no numbers, or no dates, in a column that had only such in training.
        """
        if not is_table(table):
            import pandas as pd

            table = pd.DataFrame(table)
        return np.asarray(self._transformer.transform(self._plain(table)), np.float64)

    @property
    def names(self) -> list[str]:
        """Names of the features."""
        names = self._transformer.get_feature_names_out([name for group in self._names() for name in group])
        return [f"{name.removeprefix(MARK)} is missing" if name.startswith(MARK) else str(name) for name in names]

    def remarks(self, table: Any) -> list[str]:
        """What is unusual in rows to predict: gaps in columns that had none in training, and unknown texts."""
        found = []
        marked, medians = self._marked(), self._part("numbers", "statistics_", [])
        known = dict(zip(self._names()[0], zip(medians, range(len(medians)), strict=True), strict=True))
        for one, (_, values) in zip(self.columns, table.items(), strict=True):
            missing = int(values.isna().sum())
            if one.levels:
                new = sorted(set(_texts(values)) - set(one.levels))
                effect = "and so without effect" if one.kind == "one_hot" else "and so taken as the target's mean"
                texts = ", ".join(repr(text) if text else "nothing" for text in new[:SHOWN])
                more = f" and {len(new) - SHOWN} more" if len(new) > SHOWN else ""
                found += [f"{one.name}: not seen in training, {effect}: {texts}{more}"] if new else []
            elif missing and known[one.name][1] not in marked:
                taken = f"the median, {known[one.name][0]:g}" if one.kind == "number" else "the middle one"
                found.append(f"{one.name}: {missing} missing values are taken as {taken}")
        return found

    def to_json(self) -> dict[str, Any]:
        """All that was learned, as JSON."""
        means = self._part("target", "encodings_", [])
        return {
            "columns": [[one.name, one.kind, list(one.levels)] for one in self.columns],
            "classes": self.classes,
            "medians": [list(map(float, self._part(group, "statistics_", []))) for group in ("numbers", "parts")],
            "marked": self._marked(),
            "means": [list(map(float, one)) for one in means],
            "mean": np.atleast_1d(self._part("target", "target_mean_", 0.0)).tolist(),
        }

    @classmethod
    def from_json(cls, form: dict[str, Any]) -> Self:
        """The inverse of `to_json`: the transformers are fitted to rows that teach them just this."""
        import pandas as pd

        columns = tuple(Column(str(name), str(kind), tuple(map(str, levels))) for name, kind, levels in form["columns"])
        found = cls(columns, int(form["classes"]), 0)
        rows = 10 * max(1, found.classes)
        values: list[Any] = []
        for group, medians in enumerate(form["medians"]):
            for place, median in enumerate(medians):
                gap = group == 0 and place in form["marked"]
                values.append([float(median), *[np.nan if gap else float(median)] * (rows - 1)])
        values += [[one.levels[0]] * rows for kind in ("one_hot", "target") for one in columns if one.kind == kind]
        found._transformer.fit(pd.DataFrame(dict(enumerate(values))), np.arange(rows) % (found.classes or rows))
        if form["means"]:
            encoder = found._transformer.named_transformers_["target"]
            encoder.encodings_ = [np.asarray(one, np.float64) for one in form["means"]]
            mean = np.asarray(form["mean"], np.float64)
            encoder.target_mean_ = mean if found.classes > 2 else mean[0]
        return found

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Encoder) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def _names(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """Names of what the groups of transformers see."""
        numbers = [one.name for one in self.columns if not one.levels]
        parts = [f"{one.name}: {part}" for one in self.columns for part in _parts(one.kind)]
        texts, means = ([one.name for one in self.columns if one.kind == kind] for kind in ("one_hot", "target"))
        return numbers, parts, texts, means

    def _part(self, group: str, attribute: str, otherwise: Any) -> Any:
        return getattr(self._transformer.named_transformers_.get(group), attribute, otherwise)

    def _marked(self) -> list[int]:
        """Which of the numbers had gaps in training."""
        indicator = self._part("numbers", "indicator_", None)
        return [] if indicator is None else indicator.features_.tolist()

    def _plain(self, table: Any) -> Any:
        """Numbers with NaN, and texts, in the order of the transformers."""
        import pandas as pd

        numbers: list[Any] = []
        parts: list[Any] = []
        texts: dict[str, list[Any]] = {"one_hot": [], "target": []}
        for one, (_, values) in zip(self.columns, table.items(), strict=True):
            if one.levels:
                texts[one.kind].append(_texts(values))
            elif one.kind == "number":
                numbers.append(_numbers(one.name, values))
            else:
                moments = _moments(one.name, values)
                numbers.append((moments - np.datetime64(EPOCH)) / DAY)
                parts += [turn for period in PERIODS[one.kind] for turn in _turns(period, moments)]
        columns = [*numbers, *parts, *texts["one_hot"], *texts["target"]]
        return pd.DataFrame(dict(enumerate(columns)), index=range(len(table)))


def _folds(seed: int) -> dict[str, Any]:
    """Arguments of `TargetEncoder`: from scikit-learn 1.9 on it takes folds, and will not take their seed."""
    if tuple(map(int, version("scikit-learn").split(".")[:2])) < (1, 9):
        return {"cv": FOLDS, "random_state": seed}
    return {"cv": KFold(FOLDS, shuffle=True, random_state=seed)}


def _level_name(name: str, level: str) -> str:
    """The name of a text's feature; a function of the module, so that estimators can be pickled."""
    return f"{name} = {level}" if level else f"{name} is missing"


def _choose(name: Any, values: Any, encoding: str) -> Column:
    import pandas as pd
    from pandas.api import types

    name, kind = str(name), values.dtype
    if types.is_datetime64_any_dtype(kind):
        return Column(name, "moment" if (values.dt.normalize() != values)[values.notna()].any() else "date")
    if types.is_bool_dtype(kind) or (types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind)):
        return Column(name, "number")
    if isinstance(kind, types.CategoricalDtype) or types.is_string_dtype(kind) or types.is_object_dtype(kind):
        present = types.infer_dtype(values, skipna=True)
        if present in ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty"):
            return Column(name, "number")
        if present in ("date", "datetime"):
            return _choose(name, pd.to_datetime(values, errors="coerce", utc=True), encoding)
        if present not in ("string", "categorical"):
            given, remedy = f"values of the kind {present}", "Convert the column with astype, or leave it out."
            checks.reject(f"X, column {name!r}", given, "numbers, texts, categories or dates", remedy)
        levels = tuple(sorted(set(_texts(values))))
        few = encoding == "one_hot" or (encoding == "auto" and len(levels) <= MOST_LEVELS)
        return Column(name, "one_hot" if few else "target", levels)
    return checks.reject(
        f"X, column {name!r}",
        f"values of type {kind}",
        "numbers, texts, categories or dates",
        "Convert the column with astype, or leave it out.",
    )


def text(value: Any) -> str:
    """A value as text: 1 and 1.0 are one."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def _texts(values: Any) -> Any:
    """Texts, an empty one for what is missing; as objects, so that they compare one by one."""
    return np.array(["" if gap else text(one) for one, gap in zip(values, values.isna(), strict=True)], object)


def _numbers(name: str, values: Any) -> HostArray:
    import pandas as pd

    values = values.astype(object) if isinstance(values.dtype, pd.ArrowDtype) else values
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    _refuse(name, values, np.isnan(numbers) & ~values.isna().to_numpy(), "a number, as in training")
    _refuse(name, values, np.isinf(numbers), "a finite number")
    return np.asarray(numbers)


def _moments(name: str, values: Any) -> HostArray:
    import pandas as pd

    moments = pd.to_datetime(values, errors="coerce", utc=True).dt.tz_localize(None)
    _refuse(name, values, moments.isna().to_numpy() & ~values.isna().to_numpy(), "a date, as in training")
    return np.asarray(moments.to_numpy(dtype="datetime64[us]"))  # in nanoseconds the year 9999 would be another


def _refuse(name: str, values: Any, bad: HostArray, expected: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        given = f"{text(values.iloc[row])!r} in row {row}, counted from 0"
        checks.reject(f"X, column {name!r}", given, expected, "Correct the value, or leave it empty.")


PERIODS = {"date": ("year", "week"), "moment": ("year", "week", "day")}


def _parts(kind: str) -> list[str]:
    return [f"{period} ({turn})" for period in PERIODS.get(kind, ()) for turn in ("cos", "sin")]


def _turns(period: str, moments: HostArray) -> list[HostArray]:
    """Where in a period moments are, on a circle, so that its end is beside its beginning."""
    days = (moments - np.datetime64(EPOCH)) / DAY  # EPOCH was a Saturday, at midnight
    length = {"day": 1.0, "week": 7.0, "year": 365.2425}[period]
    angle = 2 * np.pi * days / length
    return [np.cos(angle), np.sin(angle)]
