"""Many fits of different shapes in one process, which compiles programs for each."""

import json
import subprocess
import sys

import pytest

FITS = """
import json, os, warnings
from pathlib import Path
import jax
import numpy as np
from anchorwalk.integrations.sklearn import SAEClassifier, SAERegressor

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
seen = []
for fit in range(200):
    rows, features, hidden = int(rng.integers(20, 2000)), int(rng.integers(1, 40)), (int(rng.integers(2, 60)),)
    x = rng.normal(size=(rows, features))
    options = {"hidden": hidden, "budget": 8, "chains": 2, "random_state": fit}
    model = SAEClassifier(**options) if fit % 2 else SAERegressor(**options)
    assert np.isfinite(model.fit(x, x[:, 0] > 0 if fit % 2 else x[:, 0]).predict(x[:3])).all()
    status = Path("/proc/self/status").read_text()
    resident = int(status.split("VmRSS:")[1].split()[0]) / 1024
    with open("/proc/self/maps", "rb") as lines:
        seen.append((resident, sum(1 for _ in lines), len(jax.devices()[0].client.live_executables())))
print(json.dumps(seen))
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads what Linux tells of a process")
def test_two_hundred_fits_of_different_shapes_neither_crash_nor_grow():
    done = subprocess.run([sys.executable, "-c", FITS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    seen = json.loads(done.stdout.splitlines()[-1])
    resident, maps, programs = zip(*seen, strict=True)
    assert len(seen) == 200
    assert max(maps) < 40_000  # Linux grants 65,530 by default
    # What is kept has a limit, which fifty fits reach: no program is left of older ones.
    assert max(programs[100:]) <= max(programs[:100]), programs[::20]
    # JAX itself keeps what it has traced of its own functions for each shape, 1 MB or less a fit, and less and less.
    assert max(resident[150:]) < 1.12 * max(resident[50:100]), (resident[::20], maps[::20])
