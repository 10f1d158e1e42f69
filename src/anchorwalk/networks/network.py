"""What a network is: a pair of functions."""

from typing import NamedTuple

from anchorwalk.types import Apply, Init


class Network(NamedTuple):
    """A network as a pair of functions."""

    init: Init
    apply: Apply
