"""What decides whether a resumed run gives the same bits, beside its arguments: versions and the machine."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from anchorwalk.run.programs import matmul_precision

CPU_INFO = Path("/proc/cpuinfo")


def current(threads: int) -> dict[str, Any]:
    """Versions and device of this process, in which one program may use so many threads."""
    device = jax.devices()[0]
    return {
        **{f"version of {name}": version(name) for name in ("anchorwalk", "jax", "jaxlib", "optax")},
        "device": f"{device.platform}: {device.device_kind}",
        "processor": _processor() if device.platform == "cpu" else "",
        "threads": threads,
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "widest float": str(jax.dtypes.canonicalize_dtype(float)),
        "matrix products": matmul_precision(),
    }


def differences(stored: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """What differs, in words."""
    return [
        f"{name} was {stored.get(name)!r}, is {value!r}" for name, value in given.items() if stored.get(name) != value
    ]


def _processor() -> str:
    model = ""
    if CPU_INFO.exists():
        lines = CPU_INFO.read_text(errors="replace").splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{platform.machine()} {model}".strip()
