"""The page on networks runs as it stands."""

import re
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parent.parent.parent / "docs" / "howto" / "networks.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
LIBRARIES = ["flax", "flax", "equinox", "haiku"]


def test_there_is_a_block_for_each_framework():
    assert len(BLOCKS) == len(LIBRARIES)
    for block, library in zip(BLOCKS, LIBRARIES, strict=True):
        assert re.search(rf"(import|from) .*\b{library}\b", block)
        assert len(block.splitlines()) < 25


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_a_block_runs(number):
    pytest.importorskip(LIBRARIES[number], exc_type=ImportError)
    scope = {}
    exec(BLOCKS[number], scope)
    assert len(scope["posterior"]) == scope["plan"].total
    prediction = scope["prediction"]
    rows = prediction.probabilities if "Categorical" in BLOCKS[number] else prediction.mean
    assert rows.shape[0] == 64
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("library", ["flax", "equinox", "haiku"])
def test_a_missing_library_is_named_with_its_extra(library, monkeypatch):
    import sys

    import anchorwalk as aw

    for name in [library, *(name for name in sys.modules if name.startswith(f"{library}."))]:
        monkeypatch.setitem(sys.modules, name, None)
    door = getattr(aw, f"from_{library}")
    with pytest.raises(ImportError, match=rf"from_{library} needs {library}.*anchorwalk\[{library}\]"):
        door(lambda key: None) if library == "equinox" else door(lambda key: None, np.zeros((1, 2)))
