"""The first answer: processor seconds beyond the imports, in fresh processes, without and with programs on disk.

Each work is one process; it says what it has used by its marks. Compilation is counted apart, as JAX reports it.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text().split("```python\n")[2].split("```")[0]  # the core
HEAD = """
import json, time, warnings
warnings.simplefilter("ignore")
import jax, numpy as np, optax
from jax import monitoring
import anchorwalk as aw
[getattr(aw, name) for name in aw.__all__]
from sklearn.datasets import load_diabetes
from anchorwalk.integrations.sklearn import SAERegressor
x, y = load_diabetes(return_X_y=True)
aw.cache_programs()
compiled = []
def note(name, seconds, **_):
    if name == "/jax/core/compile/backend_compile_duration":
        compiled.append(seconds)
monitoring.register_event_duration_secs_listener(note)
marks = {}
def work(name, function):
    compiled.clear()
    wall, used = time.perf_counter(), time.process_time()
    found = function()
    marks[name] = {"processor": time.process_time() - used, "wall": time.perf_counter() - wall,
                   "compiling_wall": sum(compiled), "programs": len(compiled)}
    return found
"""
WORKS = {
    "estimator": """
model = work("fit", lambda: SAERegressor(random_state=0).fit(x[:401], y[:401]))
work("predict", lambda: model.predict(x[401:], return_std=True))
work("fit again", lambda: SAERegressor(random_state=0).fit(x[:401], y[:401]))
work("fit, 400 rows", lambda: SAERegressor(random_state=0).fit(x[:400], y[:400]))
work("fit, 9 features", lambda: SAERegressor(random_state=0).fit(x[:401, :9], y[:401]))
""",
    "readme": f"""
def lines():
    import contextlib, io
    with contextlib.redirect_stderr(io.StringIO()):
        exec({README!r}, {{}})
work("readme", lines)
""",
    "plan_for": """
network = aw.networks.mlp(10, (50,), 1)
problem = aw.Problem(network.init, network.apply, aw.Normal(scale=0.7), aw.Prior(aw.fan_in()),
                     data=((x - x.mean(0)) / x.std(0), ((y - y.mean()) / y.std())[:, None]))
work("plan_for", lambda: aw.plan_for(jax.random.key(0), problem, 1000))
""",
    "peer": """
from sklearn.neural_network import MLPRegressor
work("MLPRegressor", lambda: MLPRegressor(hidden_layer_sizes=(50,), random_state=0).fit(x[:401], y[:401]))
""",
}


def marks_of(code: str, cache: str, source: Path) -> dict:
    environment = {**os.environ, "ANCHORWALK_CACHE": cache, "PYTHONPATH": str(source)}
    command = [sys.executable, "-c", f"{HEAD}{code}\nprint(json.dumps(marks))"]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True, cwd="/")
    return json.loads(done.stdout.splitlines()[-1])


def measure(source: Path = ROOT / "src", repeats: int = 3) -> dict:
    """Medians over fresh processes: cold, each with an empty folder of programs; warm, with a filled one."""
    found: dict = {}
    for name, code in WORKS.items():
        runs: dict = {"cold": [], "warm": []}
        for _ in range(repeats):
            with tempfile.TemporaryDirectory() as folder:
                runs["cold"].append(marks_of(code, folder, source))
                runs["warm"].append(marks_of(code, folder, source))
        for kind, marks in runs.items():
            for mark in marks[0]:
                values = {key: float(np.median([one[mark][key] for one in marks])) for key in marks[0][mark]}
                found[f"{mark}, {kind}"] = values
        print(name, {key: round(value["processor"], 2) for key, value in found.items()}, flush=True)
    return found


if __name__ == "__main__":
    print(json.dumps(measure(Path(sys.argv[1]) if sys.argv[1:] else ROOT / "src", repeats=1), indent=1))
