"""Pictures with classes."""

from typing import NamedTuple

from anchorwalk.types import HostArray


class Images(NamedTuple):
    """Pictures with classes, as they are published: in their order, nothing scaled.

    Attributes:
        x_train: Pictures for training, uint8 of shape (rows, height, width, 3).
        y_train: Their classes, int32 of shape (rows,).
        x_validation: Pictures for choosing settings; no rows where the publisher sets none apart.
        y_validation: Their classes.
        x_test: Pictures for testing.
        y_test: Their classes.
        classes: The names of the classes.
    """

    x_train: HostArray
    y_train: HostArray
    x_validation: HostArray
    y_validation: HostArray
    x_test: HostArray
    y_test: HostArray
    classes: tuple[str, ...]
