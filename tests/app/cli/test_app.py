"""What all commands have in common."""

import os
import subprocess
import sys
import warnings
from importlib import import_module

import pytest
from typer.testing import CliRunner

from anchorwalk.app.cli import app
from anchorwalk.app.cli.errors import plain, shown
from anchorwalk.errors import DamagedWarning, NotConvergedWarning, warn

CHILD = """
import jax
from anchorwalk.app.cli import app
assert jax.config.jax_compilation_cache_dir is None  # importing changes nothing
app(["runs", {folder!r}], standalone_mode=False)
print(jax.config.jax_compilation_cache_dir)
"""


@pytest.mark.parametrize("place", ["programs", "off"])
def test_commands_keep_compiled_programs_where_the_user_lets_them(place, tmp_path):
    folder = place if place == "off" else str(tmp_path / "deep" / place)
    environment = {name: value for name, value in os.environ.items() if "CACHE" not in name}
    environment["ANCHORWALK_CACHE"] = folder
    (tmp_path / "runs").mkdir()
    code = CHILD.format(folder=str(tmp_path / "runs"))
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == ("None" if place == "off" else folder)
    assert (tmp_path / "deep" / "programs").is_dir() == (place != "off")


def test_a_folder_that_is_not_there_is_no_folder_without_runs(tmp_path):
    result = CliRunner().invoke(app, ["runs", str(tmp_path / "nowhere")])
    assert result.exit_code == 2
    assert "which is not there" in " ".join(result.output.split())
    (tmp_path / "file").touch()
    assert "which is no folder" in " ".join(CliRunner().invoke(app, ["runs", str(tmp_path / "file")]).output.split())
    assert CliRunner().invoke(app, ["runs", str(tmp_path)]).exit_code == 0


def test_each_call_asks_for_that_once(monkeypatch, tmp_path):
    calls = []
    monkeypatch.setattr(import_module("anchorwalk.app.cli.app"), "cache_programs", lambda: calls.append(1))
    for arguments in (["runs", str(tmp_path)], ["demo", "--gap", "colour"], ["benchmark", "table", "--results", "x"]):
        CliRunner().invoke(app, arguments)
    assert len(calls) == 3
    assert CliRunner().invoke(app, ["--version"]).exit_code == 0
    assert len(calls) == 3  # nothing is compiled for that


@pytest.mark.filterwarnings("always")
def test_warnings_of_ours_are_a_line_without_a_place_in_code(capsys):
    with shown(plain()):
        warn("chains disagree [/x]", NotConvergedWarning)
        warn("a part is damaged", DamagedWarning)
    expected = "chains disagree [/x]. `anchorwalk init` writes a file with these settings.\na part is damaged\n"
    assert capsys.readouterr().out == expected
    with pytest.warns(UserWarning, match="another's"), shown(plain()):
        warnings.warn("another's", UserWarning, stacklevel=1)
