"""Exceptions, warnings, and the status of a member."""

import enum


class AnchorwalkError(Exception):
    """The parent of every exception that this library raises on purpose."""


class InvalidInput(AnchorwalkError, ValueError):
    """An argument that cannot be right, found before any work started."""


class TrainingFailed(AnchorwalkError, RuntimeError):
    """A chain whose first training diverged at every attempt."""


class DivergedWarning(UserWarning):
    """Some members of a run are not finite and are left out of iteration and prediction."""


class InterruptedWarning(UserWarning):
    """A run that was ended by Ctrl-C before its plan was done."""


class NotFiniteWarning(UserWarning):
    """Predictions of some rows are not finite."""


class Status(enum.IntEnum):
    """How the training of a member ended."""

    OK = 0
    DIVERGED = 1
