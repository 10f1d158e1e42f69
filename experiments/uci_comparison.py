"""Estimators beside others on the tables of UCI, at their defaults: `make comparison-uci`.

It appends to results/uci.jsonl, a line for each cell: a table, a split and a method. A cell that is recorded is not run
again. All 20 standard splits of small tables are done, 5 of large ones, all gaps, and 5 seeds of tables without
published splits. Scores are in the target's own unit, as in the literature; `unit` is its training rows' deviation.

The cells of a method on a table share a process: its first fit compiles, later ones find programs (`first`). A fit of a
competitor that takes longer than 15 minutes is cut, which is recorded, and its other splits of that kind are left out.
"""

import argparse
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import warnings
from importlib.util import find_spec
from pathlib import Path

import comparison
import competitors
import uci
from anchorwalk.benchmark import records

RESULTS = Path(__file__).parent.parent / "results" / "uci.jsonl"
PATIENCE = 900.0
"""Seconds of a competitor's fit."""
OURS = "SAE"
"""Names that are not cut start so."""
MOST_OF_PROCESS = 5000
"""Training rows that a Gaussian process takes: its matrix, and as many again on its way, fit into memory."""
BDE_TABLES = ("airfoil", "boston", "energy")
REGRESSORS = competitors.REGRESSORS | competitors.MORE
OPTIONAL = {"NGBoost": "ngboost", "CatBoost": "catboost"}


def left_out(split, method):
    """Why a method is not run on a split; None where it is."""
    module = OPTIONAL.get(method)
    if module is not None and find_spec(module) is None:
        return f"{module} is not installed: pip install 'anchorwalk[compare]'"
    if method.startswith("GaussianProcessRegressor") and len(split.parts[0]) > MOST_OF_PROCESS:
        return f"more than {MOST_OF_PROCESS:,} training rows"
    if method == "bde":
        if split.table not in BDE_TABLES or split.kind == "gap" or split.number:
            return "bde runs once on each of " + ", ".join(BDE_TABLES)
        if competitors.BDE not in os.environ:
            return f"{competitors.BDE} does not name a Python that has sklearn-contrib-bde 1.0.2"
    return None


def name_of(split, method):
    return f"{split.table}: {split.kind} {split.number}: {method}"


def scores(split, method):
    """One fit and its scores."""
    if uci.is_classes(split.table):
        return comparison.score_classification(comparison.CLASSIFIERS[method], split.parts, split.number)
    unit = float(split.parts[2].std())
    found = comparison.score_regression(REGRESSORS[method], split.parts, split.number, unit=1.0)
    return found | {"unit": unit}


class Worker:
    """A process that fits one method on splits of a table, one after the other."""

    def __init__(self, method):
        command = [sys.executable, __file__, "--worker", method]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen(command, start_new_session=True, **pipes)
        self.lines = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self.lines.put(line)
        self.lines.put(None)

    def ask(self, split, patience):
        """The scores of a split; None after `patience` seconds, which end the process.

        Raises:
            RuntimeError: The process ended.
        """
        print(json.dumps(split), file=self.process.stdin, flush=True)
        try:
            line = self.lines.get(timeout=patience)
        except queue.Empty:
            self._kill()
            return None
        if line is None:
            raise RuntimeError("the process of a fit ended; what it said is above")
        return json.loads(line)

    def end(self):
        """End the process."""
        self.process.stdin.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._kill()
        self.reader.join()

    def _kill(self):
        """End the process and those that it started."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def work(method):
    """Answer each split on the standard input with its scores; whatever else prints goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        print(json.dumps(scores(uci.Split(*json.loads(line)), method)), file=answers, flush=True)


def run(table, kind, method, out, patience, most=None):
    """The cells of a method on the splits of one kind that are not recorded yet."""
    done = records.read(out)
    worker = None
    for split in [split for split in uci.splits(table) if split.kind == kind][:most]:
        name = name_of(split, method)
        if name in done:
            if "cut" in done[name]:
                break
            continue
        if reason := left_out(split, method):
            print(name, "left out:", reason, flush=True)
            break
        first, worker = worker is None, worker or Worker(method)
        try:
            found = worker.ask(split, None if method.startswith(OURS) else patience)
        except RuntimeError as error:
            print(name, "failed:", error, flush=True)
            break
        x, task = split.parts[0], "classification" if uci.is_classes(table) else "regression"
        record = {"name": name, "kind": "uci", "task": task, "data": table, "rows": len(x), "features": x.shape[1]}
        record |= {"split": kind, "number": split.number, "method": method, "first": first}
        record |= {"command": "make comparison-uci", **records.environment()}
        record |= {"cut": patience} if found is None else {"scores": records.rounded(found)}
        records.append(out, record)
        print(name, record.get("scores", f"cut after {patience:g} s"), flush=True)
        if found is None:
            break
    if worker is not None:
        worker.end()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--table", nargs="*")
    parser.add_argument("--kind", nargs="*", default=["standard", "random", "gap"])
    parser.add_argument("--method", nargs="*", default=[*REGRESSORS, *comparison.CLASSIFIERS])
    parser.add_argument("--splits", type=int, help="the first so many of each kind")
    parser.add_argument("--patience", type=float, default=PATIENCE)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # networks that have not converged say so at their defaults
    if arguments.worker:
        work(arguments.worker)
        return
    for table, missing in uci.names().items():
        if arguments.table and table not in arguments.table:
            continue
        if missing:
            print(table, "left out:", missing, flush=True)
            continue
        kinds = {split.kind for split in uci.splits(table)}
        methods = comparison.CLASSIFIERS if uci.is_classes(table) else REGRESSORS
        for kind in (kind for kind in arguments.kind if kind in kinds):
            for method in (method for method in arguments.method if method in methods):
                run(table, kind, method, arguments.out, arguments.patience, arguments.splits)


if __name__ == "__main__":
    main()
