import os
import sys
import tempfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["ANCHORWALK_CACHE"] = "off"  # nothing is kept outside of the tests' own folders
SHARED_PROGRAMS = "JAX_COMPILATION_CACHE_DIR"


def pytest_configure(config):
    """Workers, and the processes that tests start, share what any of them compiled in this run."""
    if SHARED_PROGRAMS not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="anchorwalk-tests-", ignore_cleanup_errors=True)
        config.add_cleanup(folder.cleanup)
        os.environ[SHARED_PROGRAMS] = folder.name
        os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.05"


@pytest.fixture
def data_folder():
    """The folder of real data, where it is to be had."""
    folder = os.environ.get("ANCHORWALK_DATA")
    if not folder:
        pytest.skip("set ANCHORWALK_DATA to the folder of data files to run this test")
    return Path(folder)
