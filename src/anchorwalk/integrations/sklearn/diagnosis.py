"""Diagnosis of a fit on some of its training rows, and a warning where something is surely wrong."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from anchorwalk.errors import NotConvergedWarning, warn
from anchorwalk.posterior.diagnose import Diagnosis
from anchorwalk.posterior.posterior import Posterior
from anchorwalk.types import HostArray

SURE = 4.0
"""Standard errors by which losses rise along chains before a fit warns of it; they are estimated from few members."""
APART = 2**0.5
"""Median R-hat above which a fit warns: its square is about 1 + (variance between chains) / (variance within them)."""
FAR = 1.0
"""How far beyond the targets' range predictions of training rows may go, in ranges, before a fit warns of it."""


def spread(count: int, size: int) -> HostArray:
    """`size` row numbers spread evenly over `count` rows; where these are fewer, some repeat."""
    return np.linspace(0, count - 1, size).round().astype(int)


def warn_of(estimator: Any, x: HostArray, y: HostArray | None) -> None:
    """Warn of what makes the fit unreliable, and name the parameters that change it.

    Args:
        estimator: After its fit, with its `diagnosis_`.
        x: Inputs of the diagnosis.
        y: Targets of all rows as numbers, standardised; None for classes.
    """
    found, posterior = estimator.diagnosis_, estimator.posterior_
    problems = [*_exploded(estimator, posterior, x, y)] if y is not None else []
    problems += [*_left_out(estimator, posterior), *_apart(estimator, found)]
    if problems:
        warn(f"{type(estimator).__name__}: {'; '.join(problems)}", NotConvergedWarning)


def _exploded(estimator: Any, posterior: Posterior, x: HostArray, y: HostArray) -> Iterator[str]:
    low, high = y.min(axis=0), y.max(axis=0)
    prediction = posterior.predict(x, batch_size=len(x))
    with np.errstate(all="ignore"):
        spread = np.sqrt(prediction.epistemic)
        out = np.maximum(prediction.mean - high, low - prediction.mean) + spread
        ranges = np.where(high > low, np.nan_to_num(out / (high - low), nan=np.inf), 0)
    worst = np.unravel_index(int(np.argmax(ranges)), ranges.shape)
    if ranges[worst] <= FAR:
        return
    back = estimator.target_scaling_.back
    with np.errstate(all="ignore"):
        given, least, most = back(prediction.mean)[worst], back(low)[worst[1:]], back(high)[worst[1:]]
        given_spread = (back(prediction.mean + spread) - back(prediction.mean))[worst]
    yield (
        f"members' predictions of a training row are {given:.4g} ± {given_spread:.2g}, and targets go from {least:.4g} "
        f"to {most:.4g}: training has exploded, {_slower(estimator)}"
    )


def _left_out(estimator: Any, posterior: Posterior) -> Iterator[str]:
    if posterior.diverged:
        yield f"{posterior.diverged} of {len(posterior.infos)} members diverged: {_slower(estimator)}"
    if posterior.failed:
        yield f"{len(posterior.failed)} of {estimator.plan_.chains} chains failed: {_slower(estimator)}"


def _apart(estimator: Any, found: Diagnosis) -> Iterator[str]:
    walk = getattr(estimator.plan_.method, "walk", None)
    step = f"step_size= ({getattr(walk, 'step_size', 0.0):g} now)"
    if found.agree is False and found.r_hat_median > APART:
        yield (
            f"chains disagree on {found.share_above_chance:.0%} of the predictions (R-hat {found.r_hat_median:.2f} in "
            "the median): they differ more than members of a chain do; raise "
            f"chains= ({found.chains} now) and budget= with it, or {step}"
        )
    if found.loss_later - found.loss_first > SURE * found.loss_noise:
        yield (
            f"losses rise along chains, from {found.loss_first:.3g} to {found.loss_later:.3g} nats a row, since later "
            f"trainings are too short to follow their anchors: raise budget= ({estimator.budget} now), or lower {step}"
        )


def _slower(estimator: Any) -> str:
    method = estimator.plan_.method
    training = method.training if getattr(method, "one_member", False) else method.first
    return f"lower learning_rate= ({training.optimizer.rate:.3g} now)"
