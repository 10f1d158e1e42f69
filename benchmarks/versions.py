"""Two versions of this package beside each other: throughput of the five networks, in one interleaved run.

Command: `python benchmarks/versions.py --old PATH/TO/OTHER/CHECKOUT`. Each version has a process of its own, and the
two take turns, so that a busy machine slows both alike. What is compared is the ratio of a pair; its median has an
interval from the order statistics of the pairs.
"""

import argparse
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from anchorwalk.benchmark import records

ROOT = Path(__file__).parent.parent
WORKER = """
import sys, time, json
import jax, numpy as np
import anchorwalk as aw
try:
    from anchorwalk.benchmark import networks, TASKS
except ImportError:
    from anchorwalk import networks
    from anchorwalk.benchmarks import TASKS
try:
    from anchorwalk.run.runners import layout
    layout.SHORT = 0  # programs as runs of minutes have them
except ImportError:
    pass
from jax import monitoring
compiled = []
monitoring.register_event_duration_secs_listener(
    lambda name, *_, **__: compiled.append(name) if name == "/jax/core/compile/backend_compile_duration" else None)
name, chains, epochs = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
tasks = {"mlp": "uci_gap", "lenet5": "dermamnist", "alexnet": "cifar10c", "resnet20": "cifar10", "cnn_lstm": "imdb"}
task = tasks[name]
settings = TASKS[task].settings
network = aw.networks.mlp(8, (50,), 2) if name == "mlp" else getattr(networks, name)()
rows = settings.batch_size * (8 if name == "mlp" else 2)
rng = np.random.default_rng(0)
shape = {"mlp": (8,), "lenet5": (28, 28, 3), "alexnet": (32, 32, 3), "resnet20": (32, 32, 3), "cnn_lstm": (100,)}[name]
if name == "cnn_lstm":
    x = rng.integers(0, 20_000, (rows, *shape)).astype(np.int32)
else:
    x = rng.normal(size=(rows, *shape)).astype(np.float32)
classes = {"lenet5": 7, "alexnet": 10, "resnet20": 10, "cnn_lstm": 2}.get(name, 0)
y = rng.integers(0, classes, rows) if classes else rng.normal(size=rows).astype(np.float32)
likelihood = aw.Categorical() if classes else aw.HeteroscedasticNormal()
problem = aw.Problem(network.init, network.apply, likelihood, aw.Prior(scale=0.1), data=(x, y))
first, then = settings.training("first", epochs, rows), settings.training("then", epochs, rows)
walk = aw.GuidedWalk(0.1)
def run(seed):
    key = jax.random.key(seed)
    if hasattr(aw, "SAE"):
        return aw.sample(key, problem, aw.Plan(aw.SAE(first, then, walk), chains, 3), callbacks=[])
    return aw.sample(key, problem, aw.Plan(chains, 3, first, then), walk, callbacks=[])
run(0)
print(json.dumps({"programs": len(compiled)}), flush=True)
for line in sys.stdin:
    began, cpu = time.perf_counter(), time.process_time()
    run(int(line))
    print(json.dumps({"seconds": time.perf_counter() - began, "cpu": time.process_time() - cpu}), flush=True)
"""
WORK = {
    "mlp": ((1, 1000), (10, 1000)),
    "lenet5": ((1, 20), (10, 8)),
    "alexnet": ((1, 2), (2, 2)),
    "resnet20": ((1, 1), (2, 1)),
    "cnn_lstm": ((1, 2), (2, 2)),
}
"""Chains, and epochs of a training, of what is measured."""


class Worker:
    """A process with one version of the package."""

    def __init__(self, source, name, chains, epochs):
        environment = {**os.environ, "PYTHONPATH": str(source), "ANCHORWALK_CACHE": "off"}
        command = [sys.executable, "-c", WORKER, name, str(chains), str(epochs)]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd="/"
        )

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit("a worker has ended")
        return json.loads(line)

    def run(self, seed):
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        return self.read()

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def interval(values, level=0.95):
    """An interval of the median from order statistics: each value is on either side with probability 1/2."""
    n, ordered = len(values), sorted(values)
    outside, low = 0.0, 0
    while low < n // 2:
        outside += 2 * math.comb(n, low) / 2**n
        if outside > 1 - level:
            break
        low += 1
    low = max(0, low - 1)
    return ordered[low], ordered[n - 1 - low]


def compare(old, new, name, chains, epochs, pairs):
    workers = {"old": Worker(old, name, chains, epochs), "new": Worker(new, name, chains, epochs)}
    programs = {version: worker.read()["programs"] for version, worker in workers.items()}
    found = {"old": [], "new": []}
    for pair in range(pairs):
        for version in ("old", "new") if pair % 2 else ("new", "old"):
            found[version].append(workers[version].run(pair + 1))
    for worker in workers.values():
        worker.close()
    ratios = [b["seconds"] / a["seconds"] for a, b in zip(found["new"], found["old"], strict=True)]
    cpu = [b["cpu"] / a["cpu"] for a, b in zip(found["new"], found["old"], strict=True)]
    low, high = interval(ratios)
    return {
        "network": name,
        "chains": chains,
        "pairs": pairs,
        "programs": programs,
        "seconds_old": float(np.median([one["seconds"] for one in found["old"]])),
        "seconds_new": float(np.median([one["seconds"] for one in found["new"]])),
        "throughput_ratio": float(np.median(ratios)),
        "interval": [low, high],
        "processor_ratio": float(np.median(cpu)),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--old", type=Path, required=True, help="another checkout of this repository")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", nargs="*", default=list(WORK))
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "versions.jsonl")
    arguments = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=arguments.old, capture_output=True, text=True, check=True)
    about = {"kind": "versions", "command": "python benchmarks/versions.py", "old_commit": commit.stdout.strip()}
    about |= records.environment()
    for name in arguments.only:
        for chains, epochs in WORK[name]:
            found = compare(arguments.old / "src", ROOT / "src", name, chains, epochs, arguments.pairs)
            ends = "{:.2f} to {:.2f}".format(*found["interval"])
            print(f"{name}, {chains} chains: new / old {found['throughput_ratio']:.2f} ({ends}),", end=" ")
            print(f"programs {found['programs']}", flush=True)
            label = f"{commit.stdout[:7]} {(about['commit'] or '')[:7]} {name} {chains}"
            records.append(arguments.out, {"name": label, **about, **found})


if __name__ == "__main__":
    main()
