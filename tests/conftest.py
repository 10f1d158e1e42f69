import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["ANCHORWALK_CACHE"] = "off"  # nothing is kept outside of the tests' own folders
SHARED_PROGRAMS = "JAX_COMPILATION_CACHE_DIR"
MOST_MAPPINGS = 20_000
QUICK = "--xla_cpu_use_fusion_emitters=false"
"""Without XLA's optimisations this halves the time of compilation."""


def pytest_configure(config):
    """Workers, and the processes that tests start, share what any of them compiled in this run.

    A shell starts background jobs with Ctrl-C ignored, and a run respects that: tests of Ctrl-C need Python's own way.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1" and "XLA_FLAGS" not in os.environ and known(QUICK):
        os.environ["XLA_FLAGS"] = QUICK
    if SHARED_PROGRAMS not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="anchorwalk-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ[SHARED_PROGRAMS] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"


def known(flag):
    """Whether this version of XLA has a flag: at one that it has not, it ends the process."""
    begun = [sys.executable, "-c", "import jax; jax.devices()"]
    return subprocess.run(begun, env=os.environ | {"XLA_FLAGS": flag}, capture_output=True).returncode == 0


@pytest.fixture(autouse=True, scope="module")
def few_programs():
    """Forget all compiled programs after a module, where they take many of the memory mappings that Linux grants."""
    yield
    programs = sys.modules.get("anchorwalk.run.programs")
    if programs is not None and (programs._mappings() or 0) > MOST_MAPPINGS:
        programs.forget()
        sys.modules["jax"].clear_caches()


@pytest.fixture
def data_folder():
    """The folder of real data, where it is to be had."""
    folder = os.environ.get("ANCHORWALK_DATA")
    if not folder:
        pytest.skip("set ANCHORWALK_DATA to the folder of data files to run this test")
    return Path(folder)
