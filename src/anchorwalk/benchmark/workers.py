"""Requests spread over processes, one core each.

A small network's training gains nothing from a second core (XLA's threads cost as much as they bring), so two
processes of one core each do about twice the work of one process with two.
"""

import multiprocessing
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from anchorwalk.benchmark.experiment import Outcome, Request, open_case, run
from anchorwalk.benchmark.tasks import Case, Variant
from anchorwalk.run.programs import cache_programs

Job = tuple[str, Variant, Request]
"""A task, what was chosen of it, and a request."""
_cases: dict[tuple[str, Variant, str], Case] = {}


def run_all(jobs: Sequence[Job], workers: int, done: Callable[[Job, Outcome], None]) -> None:
    """Run all jobs, the dearest first.

    Args:
        jobs: Each is one cell of the tables.
        workers: Processes, each held to a core of its own where the system can do that.
        done: Called with each finished job and what it came to.
    """
    context = multiprocessing.get_context("spawn")
    cores = context.Queue()
    for core in sorted(_available())[:workers]:
        cores.put(core)
    ordered = sorted(jobs, key=lambda job: -job[2].budget * job[2].runs)
    with ProcessPoolExecutor(workers, context, initializer=_settle, initargs=(cores,)) as pool:
        futures = {pool.submit(_work, job): job for job in ordered}
        try:
            for future in as_completed(futures):
                done(futures[future], future.result())
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _available() -> set[int]:
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def _settle(cores: Any) -> None:
    """Hold this process to one core, before JAX counts them, and let it share compiled programs with the others."""
    if not cores.empty() and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores.get()})
    cache_programs()


def _work(job: Job) -> Outcome:
    task, variant, request = job
    key = (task, variant, request.protocol)
    if key not in _cases:
        _cases[key] = open_case(task, variant, request.protocol)
    return run(_cases[key], request, quiet=True)
