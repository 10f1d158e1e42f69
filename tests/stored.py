"""What the tests of stored runs share."""

import hashlib
import json

import numpy as np
from typer.testing import CliRunner

from anchorwalk.app.cli.app import app
from anchorwalk.run.store import manifest
from helpers import leaves_equal


def apply(params, x):
    return x @ params["w"]


def same(posterior, kept):
    assert [(m.info.chain, m.info.index) for m in posterior] == sorted(kept)
    for member in posterior:
        original = kept[member.info.chain, member.info.index]
        assert leaves_equal(member.params, original.params)
        np.testing.assert_array_equal(member.trace, original.trace)
        assert member.info == original.info
    return True


def rewritten(folder, change):
    """Change a manifest and give it the checksum that fits, as one who means harm would."""
    content = json.loads((folder / "run.json").read_text())
    del content["sha256"]
    change(content)
    content["sha256"] = manifest._digest(content)
    for name in ("run.json", "run.backup.json"):
        (folder / name).write_text(json.dumps(content))


def call(*arguments):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], terminal_width=250)
    return result.exit_code, " ".join(result.output.split())


def flip(path):
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))


def relisted(folder, name):
    """Give a file beside a run the checksum that fits in the manifest."""
    content = (folder / name).read_bytes()

    def change(manifest):
        entry = {"file": name, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        manifest["beside"] = [*(one for one in manifest["beside"] if one["file"] != name), entry]

    rewritten(folder, change)
