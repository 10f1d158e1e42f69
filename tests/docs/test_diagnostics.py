"""The page on diagnostics says what is so."""

import re
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.slow
def test_the_pages_python_runs(tmp_path, monkeypatch, capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("arviz")
        pytest.importorskip("tensorboardX")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/howto/diagnostics.md").read_text(), re.S)
    assert len(blocks) == 5
    scope = {}
    for block in blocks:
        exec(block, scope)
    printed = capsys.readouterr().out
    found = scope["diagnosis"]
    assert str(found) in printed
    assert found.judged
    assert (found.chains, found.members, found.rows) == (4, 100, 50)
    assert found.r_hat_worst == max(quantity.r_hat.max() for quantity in found.quantities.values())
    assert found.quantities["mean"].r_hat[scope["worst"][0]] == found.quantities["mean"].r_hat.max()
    assert scope["data"]["log_likelihood"]["y"].shape == (4, 25, 64)
    assert list((tmp_path / "runs/mine/tensorboard").iterdir())


def test_every_line_of_a_diagnosis_is_explained():
    from anchorwalk.posterior import diagnose

    page = (ROOT / "docs/howto/diagnostics.md").read_text()
    lines = re.findall(r'yield\s*\(?\s*"(\w+(?: \w+)?)",', Path(diagnose.__file__).read_text())
    assert {"members", "chains", "spread", "loss", "left out"} == set(lines)
    for name in [*lines, "advice"]:
        assert f"**{name}**" in page, name
