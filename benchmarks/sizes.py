"""Time and memory of `SAERegressor` by rows and columns, each size in a process of its own.

Appends a record for each size to results/sizes.jsonl; sizes that are there from today are left out, so that the same
command goes on after a break. Command: `make sizes`.
"""

import argparse
import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console

from anchorwalk.benchmark import records

ROOT = Path(__file__).parent.parent
ROWS, COLUMNS = (1_000, 10_000, 100_000, 1_000_000), (10, 50)
CODE = """
import json, resource, time
import numpy as np
from anchorwalk.integrations.sklearn import SAERegressor
rows, columns, budget = {rows}, {columns}, {budget}
rng = np.random.default_rng(0)
x = rng.normal(size=(rows, columns))
y = np.sin(x[:, 0]) + x[:, 1] + 0.3 * rng.normal(size=rows)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
found = {{"rows": rows, "columns": columns, "budget": budget, "bytes_before": peak()}}
def work(name, function):
    wall, used = time.perf_counter(), time.process_time()
    result = function()
    found[f"{{name}}_seconds"], found[f"{{name}}_processor"] = time.perf_counter() - wall, time.process_time() - used
    found[f"{{name}}_bytes"] = peak()
    return result
model = work("fit", lambda: SAERegressor(budget=budget, random_state=0).fit(x, y))
work("predict", lambda: model.predict(x, return_std=True))
found["epochs"], found["members"] = model.n_iter_, len(model.posterior_)
print(json.dumps(found))
"""


def measure(rows, columns, budget):
    """Seconds, and the process's peak of memory after each work."""
    code = CODE.format(rows=rows, columns=columns, budget=budget)
    environment = {**os.environ, "ANCHORWALK_CACHE": "off", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


def main(given=None):
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--columns", type=int, nargs="*", default=COLUMNS)
    parser.add_argument("--budget", type=int, default=100, help="epochs over all chains")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "sizes.jsonl")
    arguments = parser.parse_args(given)
    console, date = Console(), str(datetime.date.today())
    about = {"kind": "sizes", "command": "make sizes", **records.environment(), "date": date}
    there = records.read(arguments.out)
    for rows in arguments.rows:
        for columns in arguments.columns:
            name = f"{date} {rows} x {columns}, budget {arguments.budget}"
            if name in there:
                continue
            found = measure(rows, columns, arguments.budget)
            console.print(found)
            records.append(arguments.out, {"name": name, **about, "found": found})
    console.print(f"Written: {arguments.out}", markup=False)


if __name__ == "__main__":
    main()
