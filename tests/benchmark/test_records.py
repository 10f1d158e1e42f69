"""Records are appended whole, beside other processes too."""

import errno
import json
import os
import subprocess
import sys

import pytest

from anchorwalk.benchmark import records
from anchorwalk.errors import InvalidInput

WRITER = """
import sys
from pathlib import Path
from anchorwalk.benchmark import records
path, writer, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(count):
    records.append(path, {"name": f"{writer}-{number}", "filler": writer * 5000, "number": number})
"""


def test_a_record_comes_back_and_later_lines_count(tmp_path):
    path = tmp_path / "new" / "folder" / "task-method.jsonl"
    first = {"name": "a", "scores": {"w1": 0.1234567890123, "text": "new\nline, ü"}, "list": [1, None, True]}
    records.append(path, first)
    records.append(path, {"name": "b", "scores": {}})
    assert records.read(path) == {"a": first, "b": {"name": "b", "scores": {}}}
    records.append(path, {"name": "a", "scores": "again"})
    assert list(records.read(path)) == ["a", "b"]
    assert records.read(path)["a"] == {"name": "a", "scores": "again"}
    assert len(path.read_text().splitlines()) == 3  # nothing is taken out
    assert records.read(tmp_path / "none.jsonl") == {}


def test_a_file_can_be_read_as_it_once_was(tmp_path):
    runs = [{"name": f"task-method-{i}", "format": records.FORMAT, "kind": "benchmark"} for i in range(4)]
    for run in runs[:3]:
        records.append(tmp_path / "task-method.jsonl", run)
    lines = {"task-method": 3}
    before = records.read_all(tmp_path, lines)
    records.append(tmp_path / "task-method.jsonl", runs[3])
    records.append(tmp_path / "task-other.jsonl", runs[0] | {"name": "task-other-0"})
    assert records.read_all(tmp_path, lines) == before == runs[:3]
    assert len(records.read_all(tmp_path)) == 5
    assert list(records.read(tmp_path / "task-method.jsonl", 2)) == ["task-method-0", "task-method-1"]


@pytest.mark.parametrize("torn", [b'{"name": "c", "sco', b"x" * 200_000])
def test_a_torn_line_is_not_read_and_does_not_stay(tmp_path, torn):
    path = tmp_path / "runs.jsonl"
    records.append(path, {"name": "a"})
    whole = path.read_bytes()
    path.write_bytes(whole + torn)
    assert list(records.read(path)) == ["a"]
    records.append(path, {"name": "b"})
    assert path.read_bytes() == whole + b'{"name": "b"}\n'


def test_what_is_no_record_is_named(tmp_path):
    path = tmp_path / "runs.jsonl"
    for bad in ("{", "[]", "3", '{"scores": 1}'):
        path.write_text(f'{{"name": "a"}}\n{bad}\n{{"name": "b"}}\n')
        with pytest.raises(InvalidInput, match=r"runs\.jsonl, line 2.*Remove the line"):
            records.read(path)


def test_a_full_disk_leaves_no_half_of_a_line(tmp_path, monkeypatch):
    path = tmp_path / "runs.jsonl"
    records.append(path, {"name": "a"})
    before, write = path.read_bytes(), os.write

    def half(descriptor, content):
        write(descriptor, bytes(content)[: len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", half)
        with pytest.raises(OSError, match="No space left"):
            records.append(path, {"name": "b"})
    assert path.read_bytes() == before
    records.append(path, {"name": "b"})
    assert list(records.read(path)) == ["a", "b"]


def test_processes_that_append_at_once_lose_nothing(tmp_path):
    path, count = tmp_path / "runs.jsonl", 40
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), writer, str(count)], stderr=subprocess.PIPE)
        for writer in ("u", "v", "w")
    ]
    for process in writers:
        _, errors = process.communicate()
        assert process.returncode == 0, errors.decode()
    lines = path.read_text().splitlines()
    assert len(lines) == 3 * count
    assert all(json.loads(line)["filler"] == json.loads(line)["name"][0] * 5000 for line in lines)
    for writer in ("u", "v", "w"):
        assert [n for n in map(json.loads, lines) if n["name"].startswith(writer)] == [
            {"name": f"{writer}-{number}", "filler": writer * 5000, "number": number} for number in range(count)
        ]


def test_a_file_that_is_replaced_meanwhile_is_opened_again(tmp_path, monkeypatch):
    path, opened = tmp_path / "runs.jsonl", []
    records.append(path, {"name": "a"})
    opening = os.open

    def replaced_once(name, *rest):
        descriptor = opening(name, *rest)
        if name == path and not opened:
            opened.append(descriptor)
            (tmp_path / "other").write_bytes(path.read_bytes())
            os.replace(tmp_path / "other", path)  # as a checkout of another commit would
        return descriptor

    monkeypatch.setattr(os, "open", replaced_once)
    records.append(path, {"name": "b"})
    assert opened
    assert list(records.read(path)) == ["a", "b"]
