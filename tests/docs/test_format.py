"""The page on the format tells of everything that is in a stored run."""

import json
import re
from pathlib import Path

import jax
import pytest
from safetensors import safe_open

import anchorwalk as aw
from anchorwalk.run.store.manifest import FORMAT
from helpers import small_plan, small_problem

PAGE = (Path(__file__).parent.parent.parent / "docs" / "format.md").read_text()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("format") / "derma"
    aw.sample(jax.random.key(0), small_problem(), small_plan(perturb_targets=True), store=folder, callbacks=[])
    return folder


def named(text):
    """Whether the page has a word as code, or as the end of a path such as `about.plan`."""
    return re.search(rf"`(about\.)?{re.escape(text)}`", PAGE) is not None


def test_every_key_of_the_manifest_is_explained(run):
    manifest = json.loads((run / "run.json").read_text())
    assert manifest["format"] == FORMAT
    assert f"This is format {FORMAT}." in PAGE
    assert f"| `format` | {FORMAT} |" in PAGE
    about, plan = manifest["about"], manifest["about"]["plan"]
    words = [*manifest, *manifest["header"], *(f"about.{name}" for name in about), *plan, *about["method"]]
    words += [*manifest["members"][0], *manifest["states"][0]]
    for word in set(words) - {"about"}:
        assert named(word), word


def test_the_calls_of_a_plan_are_as_told(run):
    plan = json.loads((run / "run.json").read_text())["about"]["plan"]
    assert plan["calls"] == [["train", 1, 4, 1], ["train", 1, 2, 2]]  # kind, draws, passes, how many
    assert (
        "a list of their kind, their draws, their cost in passes over the training rows, and how many they are" in PAGE
    )


def test_every_tensor_is_explained(run):
    names = set()
    for path in run.glob("*.safetensors"):
        with safe_open(path, framework="numpy") as file:
            names |= set(file.keys())
    for name in names:
        kind = name.split("/")[0]
        assert named("params/..." if kind == "params" else "state/..." if kind == "state" else name), name
    assert "`info/<name>`" in PAGE


def test_files_are_named_as_told(run):
    forms = [re.sub(r"\d+", "N", name) for name in re.findall(r"^  (\S+\.(?:json|safetensors)|lock)", PAGE, re.M)]
    assert {re.sub(r"\d+", "N", path.name) for path in run.iterdir()} <= set(forms)


def test_the_pages_python_reads_a_run(run):
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    block = block.replace("runs/derma", str(run)).replace("params/dense/kernel", "params/hidden/kernel")
    scope = {}
    exec(block, scope)
    assert scope["kernels"].shape == (1, len(scope["entry"]["chains"]), 2, 8)
