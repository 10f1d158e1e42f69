import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
os.environ["ANCHORWALK_CACHE"] = "off"  # nothing is kept outside of the tests' own folders


@pytest.fixture
def data_folder():
    """The folder of real data, where it is to be had."""
    folder = os.environ.get("ANCHORWALK_DATA")
    if not folder:
        pytest.skip("set ANCHORWALK_DATA to the folder of data files to run this test")
    return Path(folder)
