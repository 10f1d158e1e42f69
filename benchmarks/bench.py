"""Speed, side by side on this machine: `make bench` prints it and appends to results/bench.jsonl.

Everything is a ratio within one run: the machine may be shared, so that an absolute time means little.
"""

import argparse
import contextlib
import datetime
import importlib.util
import itertools
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

import anchorwalk as aw
import start
import throughput
from anchorwalk import tree
from anchorwalk.benchmark import TASKS, networks, records
from anchorwalk.methods.base import Draws
from anchorwalk.objective import anchored_loss, in_order
from anchorwalk.optimizers import train
from anchorwalk.posterior import passes
from anchorwalk.run.runners import Job
from anchorwalk.run.store import DiskStore, Like, Round
from networks import WORKS

ROOT = Path(__file__).parent.parent
console = Console(width=150)
MLP, LENET, _, _, WORDS = WORKS


def timed(function):
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def interleaved(functions, repeats):
    """Median seconds of each function, repetitions interleaved; each has run once before."""
    for function in functions.values():
        function()
    seconds = {name: [] for name in functions}
    for _ in range(repeats):
        for name, function in functions.items():
            seconds[name].append(timed(function))
    return {name: statistics.median(values) for name, values in seconds.items()}


def peak_bytes():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def lenet_problem(rows):
    rng = np.random.default_rng(0)
    network = networks.lenet5(7)
    x, y = rng.normal(size=(rows, 28, 28, 3)).astype(np.float32), rng.integers(0, 7, rows)
    return aw.Problem(network.init, network.apply, aw.Categorical(), aw.Prior(scale=0.1), data=(x, y))


def made_up(params, chains, index):
    """A finished call with these parameters, with a leading axis of chains: one draw of each chain."""
    lead = (len(chains), 1)
    names = ("loss_start", "loss_end", "gradient_norm_start", "gradient_norm_end", "acceptance")
    info = {name: np.zeros(lead, np.float32) for name in names}
    trace = np.zeros((*lead, 2 if index else 3), np.float32)
    draws = Draws(jax.tree.map(lambda leaf: leaf[:, None], params), trace, np.ones(lead, bool), info)
    kind = "then" if index else "first"
    return Round(chains, index, kind, 0, index, draws, np.zeros(lead, np.int32), 0.0, ())


def short_trainings():
    """What a round of two epochs of LeNet on 7,000 rows costs beside its training, in memory and on disk.

    Walk, optimiser's state, bookkeeping and the way to the host do not depend on the rows, so the difference between
    a round and its training is taken on a single batch, where the training does not drown it.
    """
    settings = TASKS["dermamnist"].settings
    problem, full = lenet_problem(settings.batch_size), lenet_problem(7000)
    training = aw.Training(aw.Adam(1e-3, end_rate=1e-5), 2, settings.batch_size, evaluate=False)
    params = problem.init(jax.random.key(0))
    anchor = problem.prior.draw(jax.random.key(1), params)
    bare = jax.jit(train)
    runner, method = aw.Local(), aw.SAE(training, training)
    first, then = method.calls(problem, 2)
    chain, key = np.zeros(1, np.uint32), jax.random.key(0)
    layout = runner.layout(problem, 1, None)
    with tempfile.TemporaryDirectory() as folder, runner.open(method, problem, layout, 1) as session:
        states, draws, _ = session.submit(Job(first, 0, key, chain, chain, None)).result()
        store = DiskStore(folder)
        store.begin({}, Like(problem.params_like, tree.lane_like(states)), {}, {})
        status = np.zeros((1, 1), np.int32)

        def whole():
            session.submit(Job(then, 1, key, chain, chain, states)).result()

        count = iter(range(10**6))

        def commit():
            index = next(count)
            store.commit(Round((0,), index, "then", 0, index, draws, status, 0.0, states))

        def alone(problem):
            return lambda: jax.device_get(bare(key, problem, training, anchor, params))

        small = interleaved({"training": alone(problem), "round": whole}, 300)
        seconds = interleaved({"training": alone(full)}, 5)["training"]
        writes = [timed(commit) for _ in range(130)]  # two mergers into one file included
        store.end()
    return {
        "seconds_of_a_training": seconds,
        "seconds_of_walk_and_bookkeeping": small["round"] - small["training"],
        "share_of_walk_and_bookkeeping": (small["round"] - small["training"]) / seconds,
        "share_of_the_store": statistics.mean(writes) / seconds,
    }


def reading():
    """Reading members back, against reading the same files at once."""
    like = jax.eval_shape(networks.resnet20().init, jax.random.key(0))
    rng = np.random.default_rng(0)
    params = jax.tree.map(lambda leaf: rng.normal(size=(4, *leaf.shape)).astype(np.float32), like)
    with tempfile.TemporaryDirectory() as folder:
        store = DiskStore(folder)
        store.begin({}, Like(like, ()), {"plan": {"selected": [0, 1, 2, 3], "members": 65}}, {})
        for index in range(65):
            store.commit(made_up(params, (0, 1, 2, 3), index))
        store.end()
        size = sum(path.stat().st_size for path in Path(folder).glob("members-*"))

        def members():
            opened = DiskStore(folder)
            opened.open(like, opened.manifest)
            for info in opened.infos():
                opened.member(info.chain, info.index)

        def files():
            for path in Path(folder).glob("members-*"):
                path.read_bytes()

        found = interleaved({"members": members, "files": files}, 3)
    return {
        "bytes": size,
        "members_bytes_per_second": size / found["members"],
        "files_bytes_per_second": size / found["files"],
        "ratio": found["files"] / found["members"],
    }


GROWTH = """
import json, sys, time
import jax, numpy as np
import anchorwalk as aw
members, folder = int(sys.argv[1]), sys.argv[2]
rng = np.random.default_rng(0)
network = aw.networks.mlp(8, (50,), 2)
data = rng.normal(size=(512, 8)).astype(np.float32), rng.normal(size=512).astype(np.float32)
problem = aw.Problem(network.init, network.apply, aw.HeteroscedasticNormal(), aw.Prior(scale=0.18), data=data)
training = aw.Training(aw.Adam(1e-3), epochs=40, batch_size=58)
times = []
def note(round_info):
    times.append(time.perf_counter())
plan = aw.Plan(aw.SAE(training, training), 2, members)
posterior = aw.sample(jax.random.key(0), problem, plan, store=folder, callbacks=[note])
gaps = np.diff(times)[1:]
posterior.predict(data[0]).mean
status = open("/proc/self/status").read()  # getrusage counts what this process was before it was this program
peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
print(json.dumps([float(np.median(gaps[-200:])), peak]))
"""


def growth():
    """Seconds of a round late in a long run stored on disk against those of a short run right after it, and peaks.

    The machine's pace drifts within a run: so the short run comes when the late rounds are over, and all of it thrice.
    """

    def run(members):
        with tempfile.TemporaryDirectory() as folder:
            arguments = [sys.executable, "-c", GROWTH, str(members), folder]
            out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
        return json.loads(out.splitlines()[-1])

    pairs = [(run(1000), run(100)) for _ in range(3)]
    peaks = {"100 members": pairs[0][1][1], "1000 members": pairs[0][0][1]}
    return {
        "late_rounds_against_a_short_run": [late[0] / short[0] for late, short in pairs],
        "ratio_of_seconds": statistics.median(late[0] / short[0] for late, short in pairs),
        "peak_bytes": peaks,
        "ratio_of_memory": peaks["1000 members"] / peaks["100 members"],
    }


def chains():
    """Member-epochs a second of the MLP by the number of chains, the runner chosen by the rule."""
    runs = {}
    for count in (1, 2, 4, 8, 16, 32, 64):
        runs[count] = throughput.rounds(MLP, aw.Local(), count)
    seconds = interleaved({str(count): run for count, (run, _) in runs.items()}, 3)
    return {str(count): rows / MLP.rows / seconds[str(count)] for count, (_, rows) in runs.items()}


@contextlib.contextmanager
def stored_lenets(problem, count, chains):
    """A posterior of so many equal members on disk."""
    params = problem.init(jax.random.key(0))
    lanes = jax.tree.map(lambda leaf: leaf[None], jax.device_get(params))
    with tempfile.TemporaryDirectory() as folder:
        store = DiskStore(folder)
        plan = {"selected": [*range(chains)], "members": count // chains}
        about = {"plan": plan, "likelihood": {"name": "Categorical", "settings": {}}}
        store.begin({}, Like(problem.params_like, ()), about, {})
        for index, chain in itertools.product(range(count // chains), range(chains)):
            store.commit(made_up(lanes, (chain,), index))
        store.end()
        yield params, aw.load(folder, problem.apply, verify=False)


def prediction(count, rows=2000, parts=50):
    """Members of LeNet a second in `predict`, from disk, against the forward pass alone on members in memory."""
    problem = lenet_problem(rows)
    x = np.asarray(problem.data.x)
    with stored_lenets(problem, count, parts) as (params, posterior):
        size = passes.fitting_rows(problem.apply, params, x, rows)
        batches = [jax.device_put(x[start : start + size]) for start in range(0, rows - rows % size, size)]

        def forward():
            for _ in range(count // parts):
                for batch in batches:
                    done = passes._forward(problem.apply, params, batch)
                jax.block_until_ready(done)

        def forward_seconds():
            return timed(forward) * rows / (len(batches) * size)

        jax.block_until_ready(passes._forward(problem.apply, params, batches[0]))  # compiled
        ratios = []
        for part in range(parts):  # in turns, so that the machine's pace is the same for both
            some = posterior.select([part])
            ratios.append(forward_seconds() / timed(lambda some=some: some.predict(x)))
    return {"members": count, "rows": rows, "ratio_to_forward": statistics.median(ratios)}


def prediction_memory(count, rows=200):
    """How far memory rises while many members predict, against what they take on disk."""
    problem = lenet_problem(rows)
    x = np.asarray(problem.data.x)
    with stored_lenets(problem, count, 1) as (params, posterior):
        posterior.thin(count // 10).predict(x)  # everything is compiled, and ten members have predicted
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before = peak_bytes()
        posterior.predict(x)
        after = peak_bytes()
    return {
        "members": count,
        "rows": rows,
        "bytes_of_members": tree.nbytes(params) * count,
        "peak_grew_by_bytes": after - before,
    }


def start_up():
    """`import anchorwalk` against `import jax, optax`."""
    code = {
        "anchorwalk": "import anchorwalk",
        "its names": "import anchorwalk as aw; [getattr(aw, name) for name in aw.__all__]",
        "jax and optax": "import jax, optax",
    }
    seconds = interleaved(
        {n: lambda c=c: subprocess.run([sys.executable, "-c", c], check=True) for n, c in code.items()}, 7
    )
    return {
        "ratio_of_imports": seconds["anchorwalk"] / seconds["jax and optax"],
        "ratio_with_all_names_used": seconds["its names"] / seconds["jax and optax"],
    }


def embedding():
    """What of a CNN-LSTM's step the dense update of 20,000 words costs: the same with a table of 200."""
    from networks import Work

    class Few(Work):
        def network(self, convolution="auto"):
            return networks.cnn_lstm(words=200)

        def data(self):
            x, y = WORDS.data()
            return x % 200, y

    few = Few(*(getattr(WORDS, name) for name in ("name", "task", "shape", "classes", "steps")))
    runs = {name: throughput.rounds(work, aw.Local(), 1)[0] for name, work in (("all", WORDS), ("few", few))}
    seconds = interleaved(runs, 3)
    return {"share_of_the_dense_update": 1 - seconds["few"] / seconds["all"]}


def profile():
    """Of a training step inside a loop: the shares of the forward pass, of the gradient beyond it, and of the rest."""
    return {work.name: shares_of_a_step(work) for work in (LENET, WORDS)}


def shares_of_a_step(work, rate=1e-3):
    problem, optimizer = work.problem(), aw.Adam(rate).build(1)
    params = problem.init(jax.random.key(0))
    anchor = problem.prior.draw(jax.random.key(1), params)
    batch = tree.lane(in_order(problem.n, work.batch_size), 0)

    def loss(params, before=0.0):  # what came out before goes in, so that no step of a loop is left out
        return anchored_loss(problem, anchor, jax.tree.map(lambda leaf: leaf + 0 * before, params), batch)

    def forward(carry):
        params, total = carry
        return params, loss(params, total)

    def gradient(carry):
        params, total = carry
        total, slope = jax.value_and_grad(loss)(params, total)
        return jax.tree.map(lambda leaf, s: leaf - rate * s, params, slope), total

    def whole(carry):
        params, state = carry
        updates, state = optimizer.update(jax.grad(loss)(params), state, params)
        return optax.apply_updates(params, updates), state

    def looped(step, start):
        run = jax.jit(
            lambda carry: jax.lax.scan(lambda c, _: (step(c), None), carry, length=max(2, work.steps // 4))[0]
        )
        return lambda: jax.block_until_ready(run(start))

    start = (params, jnp.zeros(()))
    runs = {"forward": looped(forward, start), "gradient": looped(gradient, start)}
    seconds = interleaved({**runs, "whole": looped(whole, (params, optimizer.init(params)))}, 5)
    return {
        "forward": seconds["forward"] / seconds["whole"],
        "backward": (seconds["gradient"] - seconds["forward"]) / seconds["whole"],
        "adam": 1 - seconds["gradient"] / seconds["whole"],
    }


def narrow_outputs(chains=5, rows=58, inputs=50, steps=300):
    """How much faster gradients of a dense layer are output by output than as one product, by the number of outputs."""

    def program(layer, outputs):
        kernel = jax.random.normal(jax.random.key(0), (chains, inputs, outputs)) / inputs**0.5
        x = jax.random.normal(jax.random.key(1), (chains, rows, inputs))

        def step(carry, _):
            gradients = jax.vmap(jax.grad(lambda k, x: jnp.mean(jnp.tanh(layer(k, x)) ** 2), (0, 1)))(*carry)
            return tuple(value - 1e-3 * slope for value, slope in zip(carry, gradients, strict=True)), None

        run = jax.jit(lambda *start: jax.lax.scan(step, start, length=steps)[0])
        return lambda: jax.block_until_ready(run(kernel, x))

    def columns(kernel, x):
        return jnp.stack([x @ kernel[:, i] for i in range(kernel.shape[1])], axis=-1)

    found = {}
    for outputs in (1, 2, 3, 4, 7, 10):
        both = {"product": program(lambda k, x: x @ k, outputs), "columns": program(columns, outputs)}
        seconds = interleaved(both, 7)
        found[str(outputs)] = seconds["product"] / seconds["columns"]
    return found


def rows_of_a_call(rows=1600):
    """Microseconds a row of LeNet's forward pass by the rows of a call, and the rows that the rule picks."""
    problem = lenet_problem(rows)
    params, x = problem.init(jax.random.key(0)), np.asarray(problem.data.x)

    def run(size):
        batches = [jax.device_put(x[start : start + size]) for start in range(0, rows, size)]

        def forward():
            jax.block_until_ready([passes._forward(problem.apply, params, batch) for batch in batches][-1])

        return forward

    seconds = interleaved({str(size): run(size) for size in (8, 16, 32, 80, 200, 400, 800)}, 5)
    return {
        "microseconds_of_a_row": {size: value / rows * 1e6 for size, value in seconds.items()},
        "picked": passes.fitting_rows(problem.apply, params, x, rows),
    }


def optimizers(repeats=9):
    """Processor seconds of an epoch by optimiser, as ratios to Adam's: medians of interleaved repetitions."""
    network = aw.networks.mlp(8, (50,), 2)
    rng = np.random.default_rng(0)
    data = rng.normal(size=(512, 8)).astype(np.float32), rng.normal(size=512).astype(np.float32)
    mlp = aw.Problem(network.init, network.apply, aw.HeteroscedasticNormal(), aw.Prior(scale=0.2), data=data)
    cases = {"mlp, one chain": (mlp, 8, 20, 1), "mlp, ten chains": (mlp, 8, 20, 10)}
    cases["lenet5, one chain"] = lenet_problem(1120), 56, 1, 1
    found = {}
    for name, (problem, batch_size, epochs, count) in cases.items():
        keys = jax.random.split(jax.random.key(0), count)
        starts, programs = jax.vmap(problem.init)(keys), {}
        kinds = {"Adam": aw.Adam(1e-3), "Lion": aw.Lion(1e-3), "SOAP": aw.SOAP(1e-3)}
        for kind, optimizer in {**kinds, "SOAP, bases every 32 steps": aw.SOAP(1e-3, refresh=32)}.items():
            training = aw.Training(optimizer, epochs, batch_size, evaluate=False)

            def chains_of(keys, starts, problem=problem, training=training):
                return jax.vmap(lambda key, start: train(key, problem, training, start, start).params)(keys, starts)

            def one_of(keys, starts, problem=problem, training=training):
                return train(keys[0], problem, training, tree.lane(starts, 0), tree.lane(starts, 0)).params

            program = jax.jit(chains_of if count > 1 else one_of)
            programs[kind] = lambda run=program, a=keys, b=starts: jax.block_until_ready(run(a, b))
        used = {kind: [] for kind in programs}
        for repeat in range(repeats + 1):
            for kind, run in programs.items():
                began = time.process_time()
                run()
                if repeat:
                    used[kind].append(time.process_time() - began)
        ratios = {kind: np.divide(seconds, used["Adam"]) for kind, seconds in used.items()}
        found[name] = {kind: round(float(np.median(values)), 3) for kind, values in ratios.items()}
    return found


def show(rows):
    table = Table(title="Training throughput: medians, repetitions interleaved", title_justify="left")
    for name in ("network", "variant", "rows/s", "lowest", "highest", "x plain loop", "x PyTorch", "of peak"):
        table.add_column(name, justify="left" if name in ("network", "variant") else "right")
    for row in rows:
        torch = "" if row["ratio_torch"] is None else f"{row['ratio_torch']:.2f}"
        numbers = (f"{row[name]:,.0f}" for name in ("rows_per_second", "lowest", "highest"))
        table.add_row(
            row["network"], row["variant"], *numbers, f"{row['ratio_loop']:.2f}", torch, f"{row['share_of_peak']:.1%}"
        )
    console.print(table)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=throughput.REPEATS)
    parser.add_argument("--members", type=int, default=1000, help="members of LeNet to predict with")
    parser.add_argument("--only", nargs="*", help="some sections; those of today that are there stay")
    parser.add_argument("--out", type=Path, help="by default results/bench.jsonl")
    arguments = parser.parse_args()
    without = () if importlib.util.find_spec("torch") else ("PyTorch eager",)
    sections = {
        "rows": lambda: throughput.all_rows(lambda row: console.print(row["network"]), arguments.repeats, without),
        "short_trainings": short_trainings,
        "store_reading": reading,
        "growth": growth,
        "member_epochs_per_second_by_chains": chains,
        "start_up": start_up,
        "start": start.measure,
        "embedding": embedding,
        "profile": profile,
        "narrow_outputs": narrow_outputs,
        "optimizers": optimizers,
        "rows_of_a_call": rows_of_a_call,
        "prediction": lambda: prediction(arguments.members),
        "prediction_memory": lambda: prediction_memory(arguments.members),
    }
    unknown = set(arguments.only or ()) - set(sections)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(sections)}")
    path, date = arguments.out or ROOT / "results" / "bench.jsonl", str(datetime.date.today())
    about = {"kind": "bench", "command": "make bench", **records.environment(), "date": date}
    for name in arguments.only or sections:
        found = sections[name]()
        if name == "rows":
            show(found)
        else:
            console.print(name, found)
        records.append(path, {"name": f"{date} {name}", **about, "section": name, "found": found})
    console.print(f"Written: {path}")


if __name__ == "__main__":
    main()
