"""Aliases that the whole package uses."""

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

Array = jax.Array
HostArray = np.ndarray[Any, Any]
"""An array in the host's memory, of any shape and type."""
Key = jax.Array
Params = Any
"""Any pytree of floating-point arrays."""
Inputs = Any
"""Any pytree of arrays with a leading axis of N rows."""
Init = Callable[[Key], Params]
Apply = Callable[[Params, Inputs], Array]
