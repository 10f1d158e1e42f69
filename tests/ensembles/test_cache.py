"""Compiled programs outlive their process, where the user lets them."""

import os
import subprocess
import sys
from pathlib import Path

CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
import jax, anchorwalk as aw
from helpers import small_plan, small_problem
jax.numpy.ones(3).sum().block_until_ready()  # JAX has compiled something before
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
hits = []
jax.monitoring.register_event_listener(lambda name, **_: hits.append(name) if "cache_hits" in name else None)
posterior = aw.sample(jax.random.key(0), small_problem(), small_plan(), callbacks=[])
print(len(hits), float(sum(member.params["out"].sum() for member in posterior)))
"""


def run(place):
    tests = str(Path(__file__).parent.parent)
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment["ANCHORWALK_CACHE"] = str(place)
    out = subprocess.run(
        [sys.executable, "-c", CHILD, tests], env=environment, capture_output=True, text=True, check=True
    )
    hits, total = out.stdout.split()
    return int(hits), float(total)


def test_a_second_process_compiles_nothing_anew(tmp_path):
    folder = tmp_path / "deep" / "programs"
    first, total = run(folder)
    kept = len(list(folder.iterdir()))
    assert kept >= 2  # first trainings and later ones
    second, again = run(folder)
    assert second >= first + 2
    assert again == total
    assert len(list(folder.iterdir())) == kept


def test_what_cannot_be_kept_is_no_error(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert run(blocked / "programs")[0] == 0
