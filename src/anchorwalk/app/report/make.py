"""The one call that makes a report: compute, draw, write."""

import warnings
from dataclasses import dataclass
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from anchorwalk import checks, files
from anchorwalk.app.report import classes, numbers, page, run, style, training, verdict
from anchorwalk.app.report.data import ReportData
from anchorwalk.app.report.elements import Section
from anchorwalk.app.report.formatting import count, duration, plain, spread_out
from anchorwalk.errors import NotFiniteWarning
from anchorwalk.likelihoods import ClassLikelihood, OrderedLikelihood
from anchorwalk.posterior.diagnose import Diagnosis
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.posterior.prediction import Prediction
from anchorwalk.run.store import DiskStore
from anchorwalk.types import HostArray
from anchorwalk.walks.base import Walk

PAGE, FOLDER = "report.html", "figures"
NAMES = ("calibration", "confusion", "losses", "members", "parts", "predictions", "walk")
"""Names that figures can have; those of a former report that this one lacks are removed."""
DIAGNOSED = 300
"""Rows on which chains are compared, at the most: a few hundred say as much as all."""
LONGEST_TITLE = 120


@dataclass(frozen=True)
class Paths:
    """What `write` has written.

    Attributes:
        page: The page, which needs no other file.
        figures: The same figures as files, PNG and SVG.
    """

    page: Path
    figures: tuple[Path, ...]


def write(
    posterior: Posterior,
    out: str | PathLike[str],
    data: ReportData | None = None,
    *,
    title: str | None = None,
    walk: Walk | None = None,
    target: str | None = None,
) -> Paths:
    """Write a report of a run: one page to open in a browser, `report.html`, and its figures as files.

    The page needs no network and no other file. It opens with a verdict on its uncertainty, and what to do. It tells
    what was run, how training went and what the anchors' walk is worth; with rows, also predictions, their uncertainty
    and the chains' diagnosis; with their truth, also scores and calibration.

    Args:
        posterior: What `sample`, `load` or `Posterior.from_members` gave.
        out: The folder to write into, made where it is missing.
        data: Rows to predict, best some that training has not seen; None leaves predictions out.
        title: The page's heading; the run's folder or method unless given.
        walk: The run's walk, where it is not one of this package, for example traces.
        target: What is predicted, where data do not name it.

    Returns:
        Where the page and the figures are.

    Raises:
        InvalidInput: A posterior without members, data that do not fit it, or no matplotlib.

    Example:
        >>> import anchorwalk as aw, jax, jax.numpy as jnp, tempfile
        >>> from anchorwalk.app import report
        >>> x = jnp.linspace(-1.0, 1.0, 32)
        >>> problem = aw.Problem(lambda key: jnp.zeros(()), lambda w, x: w * x, aw.Normal(scale=0.5),
        ...                      aw.Prior(scale=1.0), data=(x, 2 * x))
        >>> plan = aw.Plan(aw.AE(aw.Training(aw.SGD(0.5), epochs=50, batch_size=32)), chains=4)
        >>> posterior = aw.sample(jax.random.key(0), problem, plan, callbacks=[])
        >>> report.write(posterior, tempfile.mkdtemp(), title="A line").page.name
        'report.html'
    """
    folder = _check(posterior, out, data, title)
    style.require()
    named = data.target if target is None and data is not None else target
    name = named if named is None or isinstance(named, str) else ", ".join(named)
    about = run.read(posterior, walk, None if name is None else plain(name))
    section, diagnosis, remarks = (None, None, []) if data is None else _predictions(posterior, data)
    drawn = [training.losses(posterior, about), training.members(posterior, about), training.anchors(about)]
    pictures = [picture for picture in drawn if picture is not None]
    content = page.render(
        _title(posterior, title, about),
        f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC",
        about,
        verdict.judge(posterior, None if section is None else section.evidence, diagnosis, name and plain(name)),
        [*_tiles(posterior, about), *(section.tiles if section is not None else [])],
        section,
        [*about.remarks, *remarks],
        "" if diagnosis is None else str(diagnosis),
        pictures,
    )
    return _write(folder, content, [*(section.pictures if section is not None else []), *pictures])


def _check(posterior: Any, out: Any, data: Any, title: Any) -> Path:
    if not isinstance(posterior, Posterior):
        checks.reject("report", type(posterior).__name__, "a Posterior", "Pass what sample or load gave.")
    if not len(posterior):
        checks.reject("report", "a posterior without members", "at least one", "Look at posterior.infos.")
    if data is not None and not isinstance(data, ReportData):
        checks.reject(
            "report(data=)", type(data).__name__, "report.ReportData or None", "Pass report.ReportData(x, y)."
        )
    if not (title is None or isinstance(title, str)):
        checks.reject("report(title=)", repr(title), "a text", "Pass a text, or None.")
    folder = Path(out)
    if folder.exists() and not folder.is_dir():
        checks.reject("report(out=)", f"the file {str(folder)!r}", "a folder", "Choose another name.")
    return folder


def _predictions(posterior: Posterior, data: ReportData) -> tuple[Section | None, Diagnosis | None, list[str]]:
    """The part on predictions, the diagnosis of the chains, and what should not be missed about them."""
    likelihood = posterior.likelihood
    if not isinstance(likelihood, ClassLikelihood | OrderedLikelihood):
        posterior.predict(data.x)  # so that inputs that do not fit are refused all the same
        name = type(likelihood).__name__
        return None, None, [f"Predictions are not shown: the likelihood {name} has neither classes nor quantiles."]
    prediction, rows = _finite(posterior, data)
    if prediction is None:
        return None, None, ["Predictions are not shown: they are not finite for any row."]
    if data.y is not None:
        prediction.log_prob(np.asarray(data.y)[rows])  # refuses targets that do not fit, before anything is drawn
    remarks = []
    if len(rows) < data.rows:
        remarks.append(
            f"{count(data.rows - len(rows), 'row')} of {data.rows:,} with predictions that are not finite are left out."
        )
    kind = classes if isinstance(likelihood, ClassLikelihood) else numbers
    diagnosis = posterior.diagnose(data.take(rows[spread_out(len(rows), DIAGNOSED)]))
    return kind.section(posterior, prediction, data, rows), diagnosis, remarks


def _finite(posterior: Posterior, data: ReportData) -> tuple[Prediction | None, HostArray]:
    """Predictions of all rows on which they are finite, and these rows' numbers."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotFiniteWarning)  # the page tells of it
        prediction = posterior.predict(data.x)
    finite = np.isfinite(prediction.variance).reshape(data.rows, -1).all(axis=1)
    rows = np.flatnonzero(finite)
    if finite.all():
        return prediction, rows
    return (posterior.predict(data.take(rows)) if len(rows) else None), rows


def _tiles(posterior: Posterior, about: run.Run) -> list[tuple[str, str, str]]:
    seconds = float(np.sum([info.seconds for info in posterior.infos]))
    later = f"{count(about.chains, 'chain')} of {about.longest:,}"
    time = [("Training time", duration(seconds), "without compiling")] if seconds else []
    return [("Members", f"{len(posterior):,}", later), *time]


def _title(posterior: Posterior, title: str | None, about: run.Run) -> str:
    store = posterior._store
    own = store.folder.resolve().name if isinstance(store, DiskStore) else about.method or "Posterior"
    return plain(own if title is None else title, LONGEST_TITLE)


def _write(folder: Path, content: str, pictures: list[style.Picture]) -> Paths:
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    kept = []
    for picture in pictures:
        for ending, data in picture.files.items():
            path = folder / FOLDER / f"{picture.name}.{ending}"
            files.put(path, data)
            kept.append(path)
    for name in set(NAMES) - {picture.name for picture in pictures}:
        for ending in ("png", "svg"):
            (folder / FOLDER / f"{name}.{ending}").unlink(missing_ok=True)
    files.put(folder / PAGE, content.encode())
    return Paths(folder / PAGE, tuple(kept))
