"""From the columns of a training table to features and target, and what a person should know of each."""

from typing import Any

import numpy as np

from anchorwalk import checks
from anchorwalk.app.tables.columns import Form, Options, learn, left_out, mostly_numbers, written
from anchorwalk.app.tables.reading import some
from anchorwalk.app.tables.settings import FitSettings
from anchorwalk.integrations.sklearn.encoding import MOST_LEVELS, text

MOST_CLASSES = 20
"""Different whole numbers in a target, up to which they are taken for classes."""


def target(values: Any, settings: FitSettings, options: Options) -> tuple[Form, Any, str]:
    """The target's form, its values, and how it was understood.

    Raises:
        InvalidInput: A target that is none, or that is not clearly a number or clearly a class.
    """
    from pandas.api import types

    name, argument = settings.target, f"--target {settings.target!r}"
    classes, asked = settings.task == "classification", settings.types.get(name)
    form, remarks = learn(name, values, options, "text" if classes else asked)
    if form.kind == "date":
        checks.reject(argument, "dates", "numbers or classes", "Make it a number, such as days since a date.")
    texts = values.map(text)
    looks = not classes and not asked and mostly_numbers(values, options)
    if form.kind == "text" and (settings.task == "regression" or looks):
        form, remarks = learn(name, values, options, "number")  # the text among the numbers is named below
    if form.kind == "number":
        y = form.typed(values, options).to_numpy()
        whole = (y == y.round()).all() if types.is_numeric_dtype(values) else texts.str.fullmatch(r"[-+]?\d+").all()
        few = whole and len(np.unique(y)) <= min(MOST_CLASSES, len(y) / 5)
        truths = types.infer_dtype(values) == "boolean"
        classes = settings.task == "auto" and not asked and (truths or few)
    if form.kind == "text" or classes:
        form, y = Form(name, "text"), texts.to_numpy(dtype=object).astype(str)
    different = np.unique(y).tolist()
    if len(different) == 1:
        checks.reject(argument, f"{y[0]} in every row", "a column that varies", "There is nothing to predict.")
    if form.kind == "number":
        unit = f" in {form.unit}" if form.unit else ""
        words = f"to predict, taken as a number{unit} (from {written(y.min())} to {written(y.max())})"
        words += "".join(f", {remark}" for remark in remarks)
    else:
        many = len(different) > MOST_LEVELS or MOST_CLASSES < len(different) > len(y) / 2
        if settings.task == "auto" and many:
            given = f"{len(different)} different texts, such as {different[0]!r} and {different[1]!r}"
            checks.reject(
                argument, given, f"numbers, or {MOST_LEVELS} classes at most", "Or pass --task classification."
            )
        words = f"to predict, taken as {len(different)} classes ({some(different)})"
    other = "" if settings.task != "auto" else "; --task says otherwise"
    return form, y, words + other


def features(table: Any, settings: FitSettings, options: Options) -> tuple[tuple[Form, ...], Any, list[str]]:
    """The columns that are used, their values, and what became of every one.

    Raises:
        InvalidInput: A column that is not as the user says, or none that can be used.
    """
    import pandas as pd

    forms, columns, notes, formats = [], {}, [], set()
    for name in table.columns:
        if name == settings.target:
            continue
        if name in settings.drop:
            notes.append(f"{name}: left out, as you say")
            continue
        asked = settings.types.get(name)
        form, remarks = learn(name, table[name], options, asked)
        typed = form.typed(table[name], options)
        formats.add(form.dates)
        reason = left_out(form, table[name], typed)
        if reason and not (asked and "identifier" in reason):
            other = f"; --as '{name}={form.kind}' uses it" if "identifier" in reason else ""
            notes.append(f"{name}: left out, {reason}{other}")
            continue
        forms.append(form)
        columns[name] = typed
        notes.append(f"{name}: {'; '.join([_described(form, typed, settings), *remarks])}")
    if settings.dates and settings.dates not in formats:
        remedy = "Leave it out: formats are found out."
        checks.reject("--dates", repr(settings.dates), "the format of all values of a column", remedy)
    if not forms:
        given = f"no column to predict from ({'; '.join(notes)})" if notes else "the target as its only column"
        checks.reject("data", given, "at least one feature that varies", "Is it the right table?")
    return tuple(forms), pd.DataFrame(columns), notes


def _described(form: Form, typed: Any, settings: FitSettings) -> str:
    missing = float(typed.isna().mean())
    gaps = f", {missing:.1%} of its values are missing: taken as the median, and marked" if missing else ""
    if form.kind == "number":
        unit = f" in {form.unit}" if form.unit else ""
        return f"numbers{unit} from {written(typed.min())} to {written(typed.max())}{gaps}"
    if form.kind == "date":
        ends = " to ".join(end.isoformat().partition("T")[0] for end in (typed.min(), typed.max()))
        return f"dates from {ends}, as days and as places in the year and the week{gaps}"
    levels = typed.fillna("").nunique()
    one_hot = settings.texts == "one_hot" or (settings.texts == "auto" and levels <= MOST_LEVELS)
    gaps = f", {missing:.1%} of its values are missing: a text of their own" if missing else ""
    return (
        f"{levels} texts, {'a column of zeros and ones each' if one_hot else 'taken as the mean of the target'}{gaps}"
    )
