"""What decides whether a run that goes on gives the same bits: versions, the machine, its threads."""

import os
import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

CPU_INFO = Path("/proc/cpuinfo")


def current() -> dict[str, Any]:
    """Versions, device and threads of this process."""
    device = jax.devices()[0]
    affinity = getattr(os, "sched_getaffinity", None)
    return {
        **{f"version of {name}": version(name) for name in ("anchorwalk", "jax", "jaxlib", "optax")},
        "device": f"{device.platform}: {device.device_kind}",
        "processor": _processor() if device.platform == "cpu" else "",
        "threads": len(affinity(0)) if affinity else os.cpu_count(),
        "XLA_FLAGS": os.environ.get("XLA_FLAGS", ""),
        "widest float": str(jax.dtypes.canonicalize_dtype(float)),
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
