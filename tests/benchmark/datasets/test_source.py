"""Where files come from, and that no half of one is ever taken for a whole."""

import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from anchorwalk.benchmark.datasets import source
from anchorwalk.errors import AnchorwalkError, InvalidInput

CONTENT = bytes(range(256)) * 3000  # three blocks, the last one smaller
NAME = "imdb.npz"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):  # the name is the library's
        if self.path == "/none":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write(CONTENT[: 1000 if self.path == "/short" else None])

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def address():
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """One's own folder and the cache, the first there and empty, the second not there yet."""
    own, cache = tmp_path / "own", tmp_path / "cache" / "anchorwalk"
    own.mkdir()
    monkeypatch.setenv("ANCHORWALK_DATA", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return own, cache


def publish(monkeypatch, url, content=CONTENT, algorithm="sha256"):
    checksum = hashlib.new(algorithm, content).hexdigest()
    monkeypatch.setitem(source.SOURCES, NAME, source.Source(url, algorithm, checksum))
    return checksum


def test_ones_own_folder_comes_before_the_cache_and_the_cache_before_the_download(folders, monkeypatch, address):
    own, cache = folders
    publish(monkeypatch, address + "/whole")
    assert source.find(NAME) == cache / NAME
    assert (cache / NAME).read_bytes() == CONTENT

    publish(monkeypatch, address + "/none")
    assert source.find(NAME) == cache / NAME  # found there, and not asked for again

    (own / NAME).write_bytes(b"mine")
    assert source.find(NAME) == own / NAME
    monkeypatch.setenv("ANCHORWALK_DATA", "")
    assert source.find(NAME) == cache / NAME


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_download_has_the_published_content_and_leaves_nothing_else(folders, monkeypatch, address, algorithm):
    publish(monkeypatch, address + "/whole", algorithm=algorithm)
    assert source.find(NAME).read_bytes() == CONTENT
    assert os.listdir(folders[1]) == [NAME]


def test_a_file_address_will_do(folders, monkeypatch, tmp_path):
    (tmp_path / "published").write_bytes(CONTENT)
    publish(monkeypatch, (tmp_path / "published").as_uri())
    assert source.find(NAME).read_bytes() == CONTENT


def test_a_wrong_checksum_is_named_with_the_right_one_and_nothing_is_kept(folders, monkeypatch, address):
    expected = publish(monkeypatch, address + "/whole", content=b"something else")
    with pytest.raises(source.DataDamaged) as caught:
        source.find(NAME)
    for part in (NAME, expected, hashlib.sha256(CONTENT).hexdigest(), address, str(len(CONTENT))):
        assert part in str(caught.value)
    assert os.listdir(folders[1]) == []


def test_a_download_that_breaks_off_leaves_nothing(folders, monkeypatch, address):
    publish(monkeypatch, address + "/short")
    with pytest.raises((source.DataDamaged, source.DataMissing)):  # which one depends on who notices first
        source.find(NAME)
    assert os.listdir(folders[1]) == []


@pytest.mark.parametrize("url", ["{address}/none", "http://127.0.0.1:1/refused", "file:///no/such/file"])
def test_without_a_download_the_message_says_what_where_from_and_where_to(folders, monkeypatch, address, url):
    url = url.format(address=address)
    publish(monkeypatch, url)
    with pytest.raises(source.DataMissing) as caught:
        source.find(NAME)
    assert isinstance(caught.value, FileNotFoundError)
    assert isinstance(caught.value, AnchorwalkError)
    for part in (NAME, url, str(folders[1] / NAME), "ANCHORWALK_DATA"):
        assert part in str(caught.value)
    assert not folders[1].exists()


def test_a_cache_that_cannot_be_made_is_said(folders, monkeypatch, address):
    publish(monkeypatch, address + "/whole")
    folders[1].parent.write_text("a file where the folder should be")
    with pytest.raises(source.DataMissing, match="put it at"):
        source.find(NAME)


def test_a_variable_that_names_no_folder_is_an_error_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("ANCHORWALK_DATA", str(tmp_path / "gone"))
    with pytest.raises(InvalidInput, match=r"ANCHORWALK_DATA: got '.*gone', expected a folder.*unset"):
        source.find(NAME)


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidInput, match="dermamnist"):
        source.find("other.npz")


def test_the_cache_follows_the_standard_for_such_folders(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert source.cache_folder() == tmp_path / "x" / "anchorwalk"
    for ignored in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert source.cache_folder() == tmp_path / ".cache" / "anchorwalk"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert source.cache_folder() == tmp_path / ".cache" / "anchorwalk"


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, OSError])
def test_an_interrupted_file_is_not_there_and_an_older_one_stays(tmp_path, interruption):
    def write():
        with source.whole(tmp_path / "a") as file:
            file.write(b"half")
            raise interruption

    with pytest.raises(interruption):
        write()
    assert os.listdir(tmp_path) == []
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(interruption):
        write()
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").read_bytes() == b"old"


def test_a_file_is_on_disk_before_it_takes_its_name(tmp_path, monkeypatch):
    events = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (events.append(("fsync", os.fstat(fd).st_size)), fsync(fd)))
    monkeypatch.setattr(
        os,
        "replace",
        lambda a, b: (events.append(("replace", os.path.dirname(a) == os.path.dirname(b))), replace(a, b)),
    )
    with source.whole(tmp_path / "a") as file:
        file.write(b"abc")
    assert events == [("fsync", 3), ("replace", True)]


def test_the_table_of_sources_is_sound():
    digits = {"md5": 32, "sha256": 64}
    for name, entry in source.SOURCES.items():
        assert entry.url.startswith("https://")
        assert name in entry.url
        assert len(bytes.fromhex(entry.checksum)) * 2 == digits[entry.algorithm]


def test_importing_it_brings_neither_a_progress_bar_nor_the_network():
    # JAX may load urllib.request by itself: what counts is that this package adds nothing to it.
    code = (
        "import sys, anchorwalk.checks; before = set(sys.modules); import anchorwalk.benchmark.datasets;"
        "print(sorted({'tqdm', 'urllib.request', 'http.client'} & (set(sys.modules) - before)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    assert "tqdm" not in source.__dict__
