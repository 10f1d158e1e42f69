"""The files of the page on clusters, run as Slurm would run them, with plain processes in its place; and large data."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import anchorwalk as aw
from helpers import leaves_equal, stacked_params

DOCS = Path(__file__).parent.parent.parent / "docs" / "howto"
PAGE = (DOCS / "cluster.md").read_text()
FILES = dict(re.findall(r"<!-- ([\w.]+) -->\n```\w+\n(.*?)```", PAGE, re.S))
COMMANDS = {
    "python": f'exec {sys.executable} "$@"',
    "anchorwalk": f'exec {sys.executable} -m anchorwalk "$@"',
}


@pytest.fixture
def folder(tmp_path):
    for name, content in FILES.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "bin").mkdir()
    for name, line in COMMANDS.items():
        (tmp_path / "bin" / name).write_text(f"#!/bin/bash\n{line}\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def submit(folder, script, **variables):
    path = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", script]
    return subprocess.Popen(command, cwd=folder, env=os.environ | {"PATH": path} | variables, stderr=subprocess.PIPE)


def ends(jobs):
    for job in jobs:
        errors = job.communicate(timeout=120)[1]
        assert job.returncode == 0, errors


def test_the_array_makes_the_run_of_one_call(folder):
    first, last = map(int, re.search(r"#SBATCH --array=(\d+)-(\d+)", FILES["array.sh"]).groups())
    scope = {"__name__": "train"}
    exec(FILES["train.py"], scope)
    plan = scope["plan"]
    assert (first, last) == (0, plan.chains - 1)
    ends([submit(folder, "array.sh", SLURM_ARRAY_TASK_ID=str(task)) for task in range(first, last + 1)])
    ends([submit(folder, "merge.sh")])
    found = aw.load(folder / "runs" / "whole", scope["network"].apply)
    whole = aw.sample(scope["jax"].random.key(0), scope["problem"], plan, callbacks=[])
    assert leaves_equal(stacked_params(found), stacked_params(whole))
    assert (len(found), found.complete) == (12, True)


def test_the_page_on_large_data(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "large_data.md").read_text(), re.S)
    scope = {}
    exec(block, scope)
    assert len(scope["posterior"]) == 6
