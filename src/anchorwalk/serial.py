"""Settings as JSON: a name, and the numbers, texts and arrays that an object was made with."""

import dataclasses
import json
import re
from collections.abc import Mapping
from importlib import import_module
from typing import Any, Self

import jax
import numpy as np

from anchorwalk import checks
from anchorwalk.errors import InvalidInput

DTYPES = re.compile("bool|u?int(8|16|32|64)|float(16|32|64)|bfloat16")
"""Types of arrays that are made from JSON."""


_classes: dict[str, type["Settings"]] = {}


class Settings:
    """A frozen dataclass that can be written as JSON, and made again from it.

    Its fields are numbers, texts, truth values, None, arrays, and other such objects.

    Example:
        >>> from dataclasses import dataclass
        >>> import numpy as np
        >>> from anchorwalk.serial import Settings
        >>> @dataclass(frozen=True)
        ... class Scales(Settings):
        ...     values: np.ndarray
        >>> Scales(np.array([1.0, 2.0])).to_json()
        {'name': 'Scales', 'settings': {'values': {'array': [1.0, 2.0], 'dtype': 'float64'}}}
    """

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("anchorwalk."):  # only what this package defines is made by its name
            _classes[cls.__name__] = cls

    def to_json(self) -> dict[str, Any]:
        """The class's name and its fields as JSON."""
        fields = [field for field in dataclasses.fields(self) if field.init]  # type: ignore[arg-type]
        return {
            "name": type(self).__name__,
            "settings": {field.name: _encoded(getattr(self, field.name)) for field in fields},
        }

    @classmethod
    def from_json(cls, encoded: Mapping[str, Any]) -> Self:
        """The inverse of `to_json`.

        Raises:
            InvalidInput: Something that `to_json` of this class does not give.
        """
        argument = f"{cls.__name__}.from_json"
        remedy = "Pass what its to_json gave."
        try:
            if encoded["name"] != cls.__name__:
                checks.reject(argument, repr(encoded["name"]), f"the name {cls.__name__!r}", remedy)
            return cls(**{name: _decoded(argument, value) for name, value in encoded["settings"].items()})
        except InvalidInput:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            checks.reject(argument, repr(error), "a name and the class's own settings", remedy)


def to_json(argument: str, value: Any) -> dict[str, Any]:
    """What an object's own `to_json` gives, or the name of its class where it has none.

    Raises:
        InvalidInput: What it gives is not JSON.
    """
    if not hasattr(value, "to_json"):
        return {"name": type(value).__name__}
    given = value.to_json()
    try:
        result = json.loads(json.dumps(given, allow_nan=False))
    except (TypeError, ValueError) as error:
        result = error
    if not isinstance(result, dict):
        remedy = "Return a dictionary of finite numbers, texts, lists and dictionaries; array.tolist() for an array."
        checks.reject(f"{argument}.to_json()", repr(given), "JSON", remedy)
    return result


def _encoded(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        array = np.asarray(value)
        return {"array": array.tolist(), "dtype": str(array.dtype)}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    if isinstance(value, list | tuple):
        return [_encoded(one) for one in value]
    return to_json("settings", value)


def from_json(encoded: Any) -> Any:
    """An object of this package from its JSON, whatever its class; None where it is of another's.

    Example:
        >>> import anchorwalk as aw
        >>> from anchorwalk.serial import from_json
        >>> from_json(aw.GuidedWalk(0.1).to_json())
        GuidedWalk(step_size=0.1)
    """
    name = encoded.get("name") if isinstance(encoded, Mapping) else None
    if not isinstance(name, str):
        return None
    package = import_module("anchorwalk")
    if name in package.__all__:
        getattr(package, name)  # its module is imported when it is first used
    return _classes[name].from_json(encoded) if name in _classes else None


def _decoded(argument: str, value: Any) -> Any:
    if isinstance(value, list):
        return [_decoded(argument, one) for one in value]
    if not isinstance(value, Mapping):
        return value
    if "name" in value:
        found = from_json(value)
        if found is None:
            checks.reject(argument, repr(value["name"]), "a class of this package", "Make the object in Python.")
        return found
    if not DTYPES.fullmatch(str(value["dtype"])):
        checks.reject(argument, f"an array of type {value['dtype']!r}", "numbers", "Pass what to_json gave.")
    return np.asarray(value["array"], np.dtype(value["dtype"]))
