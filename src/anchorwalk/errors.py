"""Exceptions, warnings, and the status of a member."""

import enum
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path


class AnchorwalkError(Exception):
    """The parent of every exception that this library raises on purpose."""


class InvalidInput(AnchorwalkError, ValueError):
    """An argument that cannot be right, found before any work started."""


class TrainingFailed(AnchorwalkError, RuntimeError):
    """A run of which no chain has a good first draw, in any attempt."""


class StoreDamaged(AnchorwalkError, RuntimeError):
    """A file of a stored run that is missing or not what was written."""


class StoreFailed(AnchorwalkError, RuntimeError):
    """A store that could not write; what it had before is safe."""


class WorkerLost(AnchorwalkError, RuntimeError):
    """A call whose workers died again and again.

    Attributes:
        losses: What happened to each of them.
    """

    def __init__(self, losses: Sequence[str]) -> None:
        super().__init__(f"{len(losses)} workers were lost with the same call: {'; '.join(losses)}")
        self.losses = tuple(losses)


class DamagedWarning(UserWarning):
    """A part of a stored run is damaged, and the rest of it was read."""


class NoLockWarning(UserWarning):
    """A folder on a file system without locks: nothing keeps a second process from writing to it."""


class OtherNetworkWarning(UserWarning):
    """The network passed for a stored run seems to be another one than the run was made with."""


class DivergedWarning(UserWarning):
    """Some members of a run are not finite and are left out of iteration and prediction."""


class FailedChainsWarning(UserWarning):
    """Some chains of a run had no good first draw and are left out; the others continued."""


class LostChainsWarning(UserWarning):
    """Some chains of a run were given up because their workers died again and again; the others continued."""


class InterruptedWarning(UserWarning):
    """A run that was ended by Ctrl-C before its plan was done."""


class ScaleWarning(UserWarning):
    """A feature or target of which little is left after scaling: its values hardly differ, but for a few."""


class NotConvergedWarning(UserWarning):
    """An estimator's fit whose chains disagree, whose losses rise, or whose training diverged or exploded."""


class NotFiniteWarning(UserWarning):
    """Predictions of some rows are not finite."""


class DropoutWarning(UserWarning):
    """Dropout of a model from another library was switched off."""


class Status(enum.IntEnum):
    """How the training of a member ended."""

    OK = 0
    DIVERGED = 1


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line outside of this package that led here."""
    package, frame, level = str(Path(__file__).parent), sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
