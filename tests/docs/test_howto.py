"""Pages of how-tos run as they stand."""

import re
from pathlib import Path

import jax
import numpy as np
import pytest

from helpers import leaves_equal

DOCS = Path(__file__).parent.parent.parent / "docs" / "howto"


def scope_of(page, *blocks):
    """The names that blocks of Python on a page leave; all blocks unless some are numbered."""
    found, scope = re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S), {"__name__": page}
    for number in blocks or range(len(found)):
        exec(found[number], scope)
    return scope


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow
def test_resume(folder):
    begun = scope_of("resume.md", 0)["posterior"]
    whole = scope_of("resume.md")["posterior"]  # the first block resumes what is there
    assert (len(begun), len(whole)) == (6, 12)
    for old in begun:
        (new,) = [one for one in whole if (one.info.chain, one.info.index) == (old.info.chain, old.info.index)]
        assert leaves_equal(old.params, new.params)


@pytest.mark.slow
def test_sharing(folder):
    from anchorwalk.run.store.maintenance import thin

    scope = scope_of("sharing.md", 0)
    (command,) = re.findall(r"^anchorwalk thin .*$", (DOCS / "sharing.md").read_text(), re.M)
    assert command == "anchorwalk thin runs/mine --every 2 --out runs/small"
    thin(folder / "runs/mine", folder / "runs/small", 2)
    (block,) = re.findall(r"```python\n(again = .*?)```", (DOCS / "sharing.md").read_text(), re.S)
    exec(block, scope)
    assert len(scope["again"]) == 6
    np.testing.assert_array_equal(scope["prediction"].mean, scope["posterior"].thin(2).predict(scope["x"]).mean)


@pytest.mark.slow
def test_devices():
    scope = scope_of("gpus.md")
    assert scope["posterior"].settings["lanes"] == str(4 * len(jax.devices()))
    assert len(scope["posterior"]) == 8


@pytest.mark.slow
def test_an_own_network():
    scope = scope_of("own_network.md")
    assert scope["prediction"].mean.shape == (64,)
    drawn = scope["init"](jax.random.key(0))
    scales = scope["problem"].prior.scale
    assert jax.tree.structure(drawn) == jax.tree.structure(scales)


@pytest.mark.slow
def test_an_own_method():
    scope = scope_of("own_method.md")  # the contract is one of its blocks
    assert len(scope["posterior"]) == 80


@pytest.mark.slow
def test_optimisation_with_draws():
    scope = scope_of("bayesian_optimisation.md")
    costly, x = scope["costly"], scope["x"]
    assert len(x) == 9
    assert scope["values"].shape == (40, 200)
    assert len(set(scope["together"])) <= 4
    best, first = costly(scope["candidates"]).max(), costly(x[:6]).max()
    assert costly(x).max() > first + 0.5 * (best - first)  # three evaluations come half of the way at least


def test_every_block_of_python_is_run_by_a_test():
    """Pages of how-tos with blocks of Python are named in a test."""
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*.py"))
    for page in DOCS.glob("*.md"):
        if "```python" in page.read_text():
            assert f"{page.name}" in tests, page.name
