"""The environment of a process: versions and device, on which the last bits of results depend."""

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax

from anchorwalk.run.programs import matmul_precision


def of_machine(threads: int) -> dict[str, Any]:
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


def _processor() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(errors="replace").splitlines() if path.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")
    return f"{platform.machine()} {model}".strip()
