"""All of uci_gap in one go, timed: AE and SAE, all budgets, 100 runs on split 0 and 20 on the other splits."""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from anchorwalk.benchmark import records

ROOT = Path(__file__).parent.parent
BUDGETS = ("200", "500", "1000", "10000")


def run(results, runs, splits):
    arguments = [sys.executable, "-m", "anchorwalk", "benchmark", "run", "uci_gap", "--method", "ae", "--method", "sae"]
    arguments += [part for budget in BUDGETS for part in ("--budget", budget)]
    arguments += [part for split in splits for part in ("--split", str(split))]
    arguments += ["--runs", str(runs), "--workers", str(os.cpu_count()), "--results", results]
    subprocess.run(arguments, check=True, cwd=ROOT)


def main():
    work = ROOT / "runs" / "uci_gap"  # a folder of its own: records that are there would not be made again
    shutil.rmtree(work, ignore_errors=True)
    began = time.perf_counter()
    run("runs/uci_gap", 100, [0])
    run("runs/uci_gap", 20, [1, 5, 6])
    seconds = time.perf_counter() - began
    found = records.read_all(work)
    for record in found:
        record["command"] = record["command"].replace(" --results runs/uci_gap", "")
        records.append(records.path_of(ROOT / "results", "uci_gap", record["method"]), record)
    about = {"name": "timing", "kind": "timing", "command": "make benchmark", "cores": os.cpu_count()}
    about |= {"records": len(found), "seconds": round(seconds, 1)}
    records.append(ROOT / "results" / "timing-uci_gap.jsonl", about)


if __name__ == "__main__":
    main()
