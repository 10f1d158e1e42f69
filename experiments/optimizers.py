"""Optimisers, endings of trainings, and HMC from trained starts: `make optimizers` appends to results/optimizers.jsonl.

- seconds: plans of `plan_for` with SOAP at a budget, and with Lion and Adam at the budgets that take as many seconds.
- endings: single trainings of 200 epochs that end with a cosine, with averages of their last parameters, or without a
  schedule.
- hmc: Hamiltonian Monte Carlo that starts from trainings with SOAP, at 10,000 passes.

A cell that is recorded is not run again.
"""

import argparse
import itertools
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax

import anchorwalk as aw
from anchorwalk import tree
from anchorwalk.benchmark import Variant, open_case, records
from anchorwalk.objective import evaluate
from anchorwalk.optimizers import train
from study import scores_of

RESULTS = Path(__file__).parent.parent / "results" / "optimizers.jsonl"
RUNS = 10
KEYS = [jax.random.fold_in(jax.random.key(0), run) for run in range(RUNS)]
EPOCHS, BATCH, RATE, ADAM_RATE = 200, 8, 0.01, 0.01
PIECES = 10
"""Trainings at the end of which parameters are averaged."""


def add(case, section, place, about, runs):
    record = {"name": f"{case.label}: {section}: {place}", "kind": "optimizers", "command": "make optimizers"}
    record |= {"task": case.task, **case.variant.chosen, "seed": 0, **records.environment()}
    record |= {"label": case.label, "section": section, "place": place, **about, "runs": runs}
    records.append(RESULTS, record)
    print(record["name"], about, {name: float(np.median([run[name] for run in runs])) for name in runs[0]}, flush=True)


def is_done(case, section, place):
    return RESULTS.exists() and f"{case.label}: {section}: {place}" in records.read(RESULTS)


# Equal seconds


def planned(case, kind, budget, runs, lanes):
    """Scores of runs of one plan, its epochs, and the seconds of a run: its trials, and its trainings by themselves."""
    began = time.process_time()
    plan = aw.plan_for(jax.random.key(0), case.problem, budget, optimizer=kind).plan
    trials = time.process_time() - began
    began = time.process_time()
    runner = aw.Local(threads=1, lanes=lanes)
    found = list(aw.sample_many(KEYS[:runs], case.problem, plan, runner=runner, callbacks=[]))
    took = (time.process_time() - began) / runs
    return plan, trials, took, [scores_of(case, posterior) for posterior in found]


def seconds(case, budget, runs, lanes):
    """SOAP at its budget, then the others at budgets that take as long; programs are compiled before."""
    if all(is_done(case, "seconds", f"{kind.__name__}, {budget}") for kind in (aw.SOAP, aw.Lion, aw.Adam)):
        return
    planned(case, aw.SOAP, budget, runs, lanes)  # compiles
    plan, trials, target, scores = planned(case, aw.SOAP, budget, runs, lanes)
    about = {"budget": budget, "epochs": plan.epochs, "chains": plan.chains, "members": plan.total}
    add(case, "seconds", f"SOAP, {budget}", about | {"seconds": round(target, 3), "trials": round(trials, 3)}, scores)
    for kind in (aw.Lion, aw.Adam):
        planned(case, kind, budget, runs, lanes)  # compiles
        plan, _, took, _ = planned(case, kind, budget, runs, lanes)
        own = round(budget * target / took)
        plan, trials, took, scores = planned(case, kind, own, runs, lanes)
        about = {"budget": own, "epochs": plan.epochs, "chains": plan.chains, "members": plan.total}
        about |= {"seconds": round(took, 3), "trials": round(trials, 3)}
        add(case, "seconds", f"{kind.__name__}, {budget}", about, scores)


# Endings


def ended(problem, optimizer, epochs, pieces=0, share=0.1, finish=None):
    """From keys to parameters and losses: a training, then `pieces` more at a constant rate whose ends are averaged."""
    first = aw.Training(optimizer, epochs - round(share * epochs) * bool(pieces), BATCH, evaluate=False)

    def one(key):
        init_key, walk_key, order_key = jax.random.split(key, 3)
        start = problem.init(init_key)
        anchor = problem.prior.anchor(tree.normal_like(walk_key, start))
        found = train(order_key, problem, first, anchor, start)
        params = found.params if finish is None else finish(found.state, found.params)
        if pieces:
            low = aw.SOAP(optimizer.end_rate, refresh=optimizer.refresh)
            piece = aw.Training(low, max(1, round(share * epochs / pieces)), BATCH, evaluate=False)
            total = jax.tree.map(jnp.zeros_like, params)
            state = found.state
            for number in range(pieces):
                after = train(jax.random.fold_in(order_key, 1 + number), problem, piece, anchor, params, None, state)
                params, state = after.params, after.state
                total = jax.tree.map(jnp.add, total, params)
            params = jax.tree.map(lambda leaf: leaf / pieces, total)
        return params, evaluate(problem, anchor, params, None, BATCH).loss

    return jax.jit(jax.vmap(one))


def endings(case):
    steps = EPOCHS * -(-case.problem.n // BATCH)
    free = optax.contrib.schedule_free_adamw(ADAM_RATE, warmup_steps=steps // 20)
    soap = {share: aw.SOAP(RATE, end_rate=share * RATE, refresh=32) for share in (0.01, 0.1, 0.3)}
    kinds = {
        "SOAP, cosine": ended(case.problem, soap[0.01], EPOCHS),
        "SOAP, cosine to a tenth, average of the last tenth": ended(case.problem, soap[0.1], EPOCHS, PIECES),
        "SOAP, cosine to 0.3, average of the last fifth": ended(case.problem, soap[0.3], EPOCHS, PIECES, 0.2),
        "Adam, cosine": ended(case.problem, aw.Adam(ADAM_RATE, end_rate=0.01 * ADAM_RATE), EPOCHS),
        "Adam, schedule-free": ended(case.problem, free, EPOCHS, finish=optax.contrib.schedule_free_eval_params),
    }
    for name, function in kinds.items():
        if is_done(case, "endings", name):
            continue
        params, losses = function(jnp.stack(KEYS))
        runs = []
        for run in range(RUNS):
            members = [jax.tree.map(lambda leaf, run=run: np.asarray(leaf[run]), params)]
            posterior = aw.Posterior.from_members(
                apply=case.problem.apply, likelihood=case.problem.likelihood, members=members
            )
            runs.append(scores_of(case, posterior) | {"loss": float(losses[run])})
        add(case, "endings", name, {"epochs": EPOCHS}, runs)


# HMC from trainings


def hmc(case):
    name, chains, members, rate = "4 x (800 + 1,000 + 500 leapfrogs), 10 a draw", 4, 50, RATE * (200 / 800) ** 0.5
    if is_done(case, "hmc", name):
        return
    training = aw.Training(aw.SOAP(rate, end_rate=0.01 * rate, refresh=32), 800, BATCH)
    plan = aw.Plan(aw.HMC((50, 50), 1, 10, 50, members, training=training), chains, members)
    found = aw.sample_many(KEYS, case.problem, plan, runner=aw.Local(threads=1, lanes=10), callbacks=[])
    about = {"epochs": plan.epochs, "chains": plan.chains, "members": plan.total}
    add(case, "hmc", name, about, [scores_of(case, posterior) for posterior in found])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", nargs="*", default=["endings", "hmc", "seconds"])
    parser.add_argument("--split", type=int, nargs="*", default=[5, 6, 0])
    arguments = parser.parse_args()
    aw.cache_programs()
    cases = [open_case("uci_gap", Variant(split=split)) for split in arguments.split]
    for case in cases:
        if "endings" in arguments.only:
            endings(case)
        if "hmc" in arguments.only:
            hmc(case)
    for budget, case in itertools.product((200, 1000, 10_000), cases):
        if "seconds" in arguments.only:
            seconds(case, budget, RUNS, 16)


if __name__ == "__main__":
    main()
