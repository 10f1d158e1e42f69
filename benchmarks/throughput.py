"""Training throughput of the five networks: anchorwalk, a plain loop over a jitted step, and PyTorch eager."""

import gc
import time

import jax
import jax.numpy as jnp
import numpy as np
import optax

import anchorwalk as aw
from anchorwalk.objective import Batch, anchored_loss
from anchorwalk.run.runners import Job
from networks import WORKS, torch_step

REPEATS = 3
CHAINS = 10


def peak():
    """The best rate of a large float32 matrix product, in floating-point operations a second."""
    n = 2048
    a = jnp.ones((n, n), jnp.float32)
    product = jax.jit(lambda a: a @ a)
    jax.block_until_ready(product(a))
    best = np.inf
    for _ in range(8):
        began = time.perf_counter()
        jax.block_until_ready(product(a))
        best = min(best, time.perf_counter() - began)
    return 2 * n**3 / best


def rounds(work, runner, chains, shared_order=False):
    """A function that trains first members of so many chains as the library does, and the rows it goes through."""
    problem, training = work.problem(), work.training()
    method = aw.SAE(training, shared_order=shared_order)
    (call,) = method.calls(problem, 1)
    layout = runner.layout(problem, chains, None)
    numbers, key = np.arange(chains, dtype=np.uint32), jax.random.key(0)
    blocks = [numbers[start : start + layout.lanes] for start in range(0, chains, layout.lanes)]

    def run():
        with runner.open(method, problem, layout, chains) as session:
            jobs = [session.submit(Job(call, 0, key, block, np.zeros_like(block), None)) for block in blocks]
            for job in jobs:
                job.result()

    return run, chains * training.steps(problem.n) * training.batch_size


def plain_loop(work):
    """A loop in Python over a step that is compiled once, with XLA's own convolution, one chain; and its rows."""
    problem, training = work.problem("native"), work.training()
    anchor = problem.prior.draw(jax.random.key(1), problem.params_like)
    optimizer = training.optimizer.build(training.steps(problem.n))

    @jax.jit
    def step(params, state, indices):
        batch = Batch(indices, jnp.ones(training.batch_size, bool))
        gradient = jax.grad(lambda params: anchored_loss(problem, anchor, params, batch))(params)
        updates, state = optimizer.update(gradient, state, params)
        return optax.apply_updates(params, updates), state

    rng = np.random.default_rng(0)
    steps = training.steps(problem.n)

    def run():
        params = problem.init(jax.random.key(0))
        state = optimizer.init(params)
        for _ in range(steps):
            params, state = step(params, state, rng.permutation(problem.n)[: training.batch_size])
        jax.block_until_ready(params)

    return run, steps * training.batch_size


def eager(work):
    """PyTorch in the better of its memory formats, and the rows of a call."""
    steps = work.training().steps(work.rows)
    candidates = []
    for channels_last in (False, True) if len(work.shape) == 3 else (False,):
        step = torch_step(work, channels_last)
        step()
        began = time.perf_counter()
        for _ in range(2):
            step()
        candidates.append((time.perf_counter() - began, step))
    step = min(candidates, key=lambda pair: pair[0])[1]

    def run():
        for _ in range(steps):
            step()

    return run, steps * work.batch_size


def chosen_for(work):
    """The runner that the rule chooses for ten chains, its numbers told."""
    problem = work.problem()
    layout = aw.Local().layout(problem, CHAINS, None)
    with aw.Local().open(aw.SAE(work.training()), problem, layout, CHAINS) as session:
        return aw.Local(threads=session.slots, lanes=layout.lanes)


def variants(work):
    """All that is compared on one network, by name."""
    chosen = chosen_for(work)
    # Ten chains of a large network are as fast as two: each runs by itself.
    chains = CHAINS if work.name in ("mlp", "lenet5") else chosen.threads * chosen.lanes
    found = {
        "plain loop": lambda: plain_loop(work),
        "PyTorch eager": lambda: eager(work),
        "one chain": lambda: rounds(work, aw.Local(), 1),
        f"{CHAINS} chains, auto: {chosen!r}": lambda: rounds(work, chosen, chains),
    }
    if work.name in ("mlp", "lenet5"):
        one_block = aw.Local(threads=1, lanes=CHAINS)
        found[f"{CHAINS} chains, {one_block!r}"] = lambda: rounds(work, one_block, CHAINS)
    if work.name == "mlp":
        name = f"{CHAINS} chains, one order of rows for all, auto: {chosen!r}"
        found[name] = lambda: rounds(work, chosen, CHAINS, True)
    return found


def measure(work, repeats=REPEATS, without=()):
    """Rows of the record for one network; repetitions of all variants interleaved."""
    runs = {name: make() for name, make in variants(work).items() if name not in without}
    for run, _ in runs.values():
        run()
    seconds = {name: [] for name in runs}
    for _ in range(repeats * (5 if work.name == "mlp" else 1)):  # seconds in all, and the noisiest
        for name, (run, _) in runs.items():
            began = time.perf_counter()
            run()
            seconds[name].append(time.perf_counter() - began)
    rates = {name: runs[name][1] / np.array(seconds[name]) for name in runs}
    median = {name: float(np.median(rate)) for name, rate in rates.items()}
    best, flops = peak(), work.flops_per_row()
    gc.collect()
    return [
        {
            "network": work.name,
            "variant": name,
            "batch_size": work.batch_size,
            "rows_per_second": round(median[name], 1),
            "lowest": round(float(rates[name].min()), 1),
            "highest": round(float(rates[name].max()), 1),
            "member_epochs_per_second": median[name] / work.rows,
            "rows_in_an_epoch": work.rows,
            "ratio_loop": median[name] / median["plain loop"],
            "ratio_torch": median[name] / median["PyTorch eager"] if "PyTorch eager" in median else None,
            "share_of_peak": median[name] * flops / best,
        }
        for name in runs
    ]


def all_rows(tell, repeats=REPEATS, without=()):
    found = []
    for work in WORKS:
        for row in measure(work, repeats, without):
            tell(row)
            found.append(row)
    return found
