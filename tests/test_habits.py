"""Workflows do what can be done here: their steps are the Makefile's targets. The lock is clean."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text()
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}


def targets():
    return set(re.findall(r"^([\w-]+):", MAKEFILE, re.M))


def runs(workflow):
    """Each command of a workflow, once for each entry of its matrix."""
    for job in workflow["jobs"].values():
        for entry in job.get("strategy", {}).get("matrix", {}).get("include", [{}]):
            for command in (step["run"] for step in job["steps"] if "run" in step):
                for name, value in entry.items():
                    command = command.replace(f"${{{{ matrix.{name} }}}}", value)
                yield command


@pytest.mark.parametrize("name", WORKFLOWS)
def test_steps_of_workflows_are_targets(name):
    commands = list(runs(WORKFLOWS[name]))
    assert commands
    for command in commands:
        assert re.match(r"make ([\w-]+)", command)[1] in targets(), command


def test_what_is_run_where():
    ran = {name: {command.split()[1] for command in runs(workflow)} for name, workflow in WORKFLOWS.items()}
    assert ran == {
        "tests": {"test", "test-lowest", "test-newest", "smoke"},
        "docs": {"docs"},
        "release": {"dist", "tagged"},
    }
    assert WORKFLOWS["tests"]["jobs"]["test"]["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert WORKFLOWS["release"]["jobs"]["publish"]["permissions"] == {"id-token": "write"}  # no password is kept


def test_hooks_are_targets():
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert {hook["entry"].removeprefix("make ") for hook in hooks} <= targets()


def test_every_target_is_declared():
    declared = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.M)[1].split()
    assert sorted(declared) == sorted(name for name in targets() if not name.startswith("reference-"))


def test_the_lock_names_versions_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all(re.fullmatch(r"[\w.-]+==[\w.!]+( ; [^/:@]+)?", line) for line in lines)
    names = {line.split("==")[0] for line in lines}
    assert {"jax", "numpy", "scikit-learn", "pytest", "ruff", "mypy", "sphinx"} <= names
