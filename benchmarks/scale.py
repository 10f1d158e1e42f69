"""What a cluster costs: `make scale` prints it and appends to results/scale.jsonl; docs/scale.md is made from that.

It starts a Ray cluster on this machine and measures what the driver spends on a round by its bytes, what a commit
costs, whole runs on the cluster beside the same ones in threads, and training on memory maps beside rows in memory.
The machine should have nothing else to do.
"""

import argparse
import datetime
import shlex
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.benchmark import cost, records
from anchorwalk.methods.base import Draws
from anchorwalk.run.runners import Job, cluster
from anchorwalk.run.runners.ray import RaySession
from anchorwalk.run.store import DiskStore, Like, Round
from anchorwalk.run.store.manifest import Part
from anchorwalk.serial import Settings
from networks import WORKS

ROOT = Path(__file__).parent.parent
KEY = jax.random.key(0)
LENET = next(work for work in WORKS if work.name == "lenet5")
MEMBERS = {"long": 451, "epochs": (100, 2)}  # of ResNet-20 in a chain of the paper's plan of 10,000 epochs


@tree.node()
@dataclass(frozen=True)
class Nothing(Settings):
    """A method whose calls cost nothing, so that what is left is the way there and back."""

    def prepare(self, key, problem):
        return problem

    def calls(self, problem, members) -> Iterator[aw.Call]:
        for _ in range(members):
            yield aw.Call("nothing", passes=1)

    def start(self, keys, problem, attempt):
        return problem.init(keys.own)

    def step(self, keys, problem, state, call, number):
        state = state + 1
        return state, Draws(state[None], jnp.zeros((1, 0)), jnp.ones(1, bool), {})


def idle(numbers):
    """A problem of so many parameters and two rows."""
    rows = np.zeros(2, np.float32)
    return aw.Problem(
        lambda key: jnp.zeros(numbers), lambda w, x: x + w[0], aw.Normal(scale=1.0), aw.Prior(), (rows, rows)
    )


def rounds(numbers, workers, seconds):
    """Bytes of a round, and seconds between rounds where calls cost nothing and each is a task of its own."""
    method, problem, runner = Nothing(), idle(numbers), aw.Ray(workers=workers, lanes=1)
    (call,) = method.calls(problem, 1)
    layout = runner.layout(problem, 2 * workers, 1.0, None)

    def job(chain, number, states):
        return Job(call, number, KEY, np.asarray([chain], np.uint32), np.zeros(1, np.uint32), states)

    with runner.open(method, problem, layout, 2 * workers) as session:
        running = {session.submit(job(chain, 0, None)): (chain, 0) for chain in range(2 * workers)}
        began, count, ready = None, 0, set()
        while running:
            finished, _ = wait(running, None, FIRST_COMPLETED)
            for future in finished:
                chain, number = running.pop(future)
                result = future.result()
                count += began is not None
                ready |= {chain} if number >= 3 else set()
                if began is None and len(ready) == 2 * workers:  # programs are compiled by now
                    began = time.perf_counter()
                if began is None or time.perf_counter() < began + seconds:
                    running[session.submit(job(chain, number + 1, result.carry))] = (chain, number + 1)
        spent = time.perf_counter() - began
    return tree.nbytes((result.states, result.draws)), spent / count


def commits(numbers, repeats, files=0):
    """Bytes of a round, and the median seconds of its commit to a run that has so many files."""
    like = jax.ShapeDtypeStruct((numbers,), np.float32)
    draws = Draws(np.zeros((1, 1, numbers), np.float32), np.zeros((1, 1, 2), np.float32), np.ones((1, 1), bool), {})
    about = {"plan": {"chains": 1, "members": repeats, "selected": [0], "calls": [["nothing", 1, 1, repeats]]}}
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        store = DiskStore(folder)
        store.begin({"network": "nothing"}, Like(like, like), about, {})
        reader = store._writer.reader
        there = tuple(Part(f"members-{i:06d}-000001.safetensors", 1, "0" * 64, (1,), i) for i in range(files))
        reader.manifest = replace(reader.manifest, members=there)  # no commit looks into them
        seconds = []
        for number in range(repeats):
            state = np.zeros((1, numbers), np.float32)
            began = time.perf_counter()
            store.commit(Round((0,), number, "nothing", 0, number, draws, np.zeros((1, 1), np.int32), 0.0, state))
            seconds.append(time.perf_counter() - began)
        store.end()
    return tree.nbytes((draws, state)), statistics.median(seconds)


class Alone(RaySession):
    """Each call a task of its own."""

    def submit(self, job):
        return super().submit(job._replace(more=()))


@dataclass(frozen=True)
class RayAlone(aw.Ray):
    def open(self, method, problem, layout, chains):
        return Alone(self, method, problem, layout, -(-chains // layout.lanes))


def overhead(epochs, members, workers, rows):
    """Seconds of a run of LeNet in threads and on the cluster, chains by themselves, compiled before."""
    problem, training = lenet(in_memory(rows)), epochs_of_lenet(epochs)
    plan = aw.Plan(aw.SAE(training, training), chains=2 * workers, members=members)
    runners = {
        "local": aw.Local(threads=workers, lanes=1),
        "ray": aw.Ray(workers=workers, lanes=1),
        "ray, each call by itself": RayAlone(workers=workers, lanes=1),
    }
    seconds = {name: [] for name in runners}
    for _ in range(4):  # the first round compiles
        for name, runner in runners.items():
            began = time.perf_counter()
            aw.sample(KEY, problem, plan, runner=runner, callbacks=[])
            seconds[name].append(time.perf_counter() - began)
    found = {name: statistics.median(values[1:]) for name, values in seconds.items()}
    return {"round_seconds": found["local"] * workers / plan.total, "rounds": plan.total, **found}


def lenet(data):
    """The problem of LeNet on rows of a kind."""
    network = LENET.network()
    return aw.Problem(network.init, network.apply, aw.Categorical(), aw.Prior(scale=0.1), data=data)


def epochs_of_lenet(count):
    """A training of so many epochs."""
    return aw.Training(aw.Adam(1e-3), count, LENET.batch_size, evaluate=False)


def in_memory(rows):
    """So many rows for LeNet."""
    return tuple(np.concatenate([part] * -(-rows // len(part)))[:rows] for part in LENET.data())


class Maps:
    """The same rows in memory maps."""

    def __init__(self, folder, rows):
        self.parts = []
        for place, part in enumerate(LENET.data()):
            name = f"{folder}/{place}.npy"
            whole = np.lib.format.open_memmap(name, "w+", part.dtype, (rows, *part.shape[1:]))
            for start in range(0, rows, len(part)):
                whole[start : start + len(part)] = part[: rows - start]
            whole.flush()
            self.parts.append(np.load(name, mmap_mode="r"))

    def __len__(self):
        return len(self.parts[0])

    def __getitem__(self, indices):
        return tuple(part[indices] for part in self.parts)


def epoch(problem):
    """Seconds of an epoch of LeNet."""
    plan = aw.Plan(aw.AE(epochs_of_lenet(1)), chains=1)
    return aw.sample(KEY, problem, plan, runner=aw.Local(1, 1), callbacks=[]).infos[0].seconds


def streaming(rows, repeats):
    """Median seconds of an epoch on rows in memory and on those of memory maps, in turns, compiled before."""
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        problems = {"memory": lenet(in_memory(rows)), "map": lenet(Maps(folder, rows))}
        seconds = [{name: epoch(problem) for name, problem in problems.items()} for _ in range(1 + repeats)]
    return {name: statistics.median(one[name] for one in seconds[1:]) for name in problems}


def own_bytes():
    """Bytes of this process that are no pages of files: those of a map are the system's, and not counted."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) * 1024


def most_bytes(rows):
    """Bytes of so many rows, and the most bytes of its own that a process has which trains on maps of them."""
    ended, seen = threading.Event(), [own_bytes()]

    def watch():
        while not ended.wait(0.01):
            seen.append(own_bytes())

    threading.Thread(target=watch, daemon=True).start()
    with tempfile.TemporaryDirectory(dir=ROOT) as folder:
        maps = Maps(folder, rows)
        epoch(lenet(maps))
        ended.set()
        return sum(part.nbytes for part in maps.parts), max(seen)


def peaks(sizes):
    """`most_bytes` of some numbers of rows, each in a process of its own."""
    found = []
    for rows in sizes:
        with ProcessPoolExecutor(1, get_context("spawn")) as processes:
            found.append(processes.submit(most_bytes, rows).result())
    return found


def resnet():
    """What the predictions of the page need of ResNet-20: bytes of a round and seconds of an epoch."""
    shape = cost.SHAPES["cifar10"]
    params = tree.nbytes(jax.eval_shape(shape.network.init, KEY))
    found = cost.measure("cifar10")
    # A round: the member, and a state of the anchor's position, the walk's direction and the parameters.
    return {"bytes_of_params": params, "bytes_of_round": 4 * params, "epoch_seconds": found.epoch_seconds, **MEMBERS}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "scale.jsonl")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--tiny", action="store_true", help="sizes that show whether it works, and nothing else")
    given = parser.parse_args()
    sizes = (1_000, 10_000) if given.tiny else (1_000, 30_000, 300_000, 3_000_000, 10_000_000)
    # Rows, epochs and members of rounds of about a second and of about ten milliseconds.
    works = {"short": (56, 1, 3)} if given.tiny else {"a second": (5_600, 1, 12), "ten milliseconds": (56, 1, 400)}
    record = {
        "name": f"scale-{datetime.datetime.now().astimezone().isoformat(timespec='seconds')}",
        "kind": "scale",
        "command": shlex.join(["python", "benchmarks/scale.py", *sys.argv[1:]]),
        **records.environment(),
        "workers": given.workers,
        "commits": [commits(size, 20) for size in sizes],
        "files": [(files, commits(1_000, 20, files)[1]) for files in ((0, 100) if given.tiny else (0, 1_000, 30_000))],
        "resnet20": {"bytes_of_round": 4_000_000, "epoch_seconds": 1.0, **MEMBERS} if given.tiny else resnet(),
    }
    record["streaming"] = streaming(56 * 2 if given.tiny else 7_000, 1 if given.tiny else 5)
    record["peaks"] = peaks((56, 560) if given.tiny else (7_000, 70_000))
    with cluster.connected(None, given.workers, room=2**30):
        record["rounds"] = [rounds(size, given.workers, 0.5 if given.tiny else 10.0) for size in sizes]
        record["overhead"] = {
            name: overhead(epochs, members, given.workers, rows) for name, (rows, epochs, members) in works.items()
        }
    records.append(given.out, record)
    print(record)


if __name__ == "__main__":
    main()
