"""A headless Chromium that is spoken to through two pipes: pages as a reader sees them."""

import base64
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 60
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3), os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""Chromium reads from descriptor 3 and writes to 4."""


class Browser:
    """Opens one page at a time and remembers what it complained of and what it asked the network for."""

    def __init__(self, profile: Path) -> None:
        to_child, self._write = os.pipe()
        self._read, from_child = os.pipe()
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        flags += [
            "--disable-background-networking",
            "--hide-scrollbars",
            "--remote-debugging-pipe",
            f"--user-data-dir={profile}",
        ]
        self._process = subprocess.Popen(
            [sys.executable, "-c", START, str(to_child), str(from_child), PROGRAM, *flags, "about:blank"],
            pass_fds=(to_child, from_child),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_child)
        os.close(from_child)
        self._number, self._rest, self._session = 0, b"", None
        self.events: list[dict] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(SECONDS)
        os.close(self._read)
        os.close(self._write)

    def call(self, method: str, **params) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self) -> dict:
        end = time.monotonic() + SECONDS
        while b"\0" not in self._rest:
            assert time.monotonic() < end, "the browser does not answer"
            part = os.read(self._read, 2**16)
            assert part, "the browser is gone"
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def open(self, path: Path, width: int, height: int = 900, dark: bool = False, phone: bool = False) -> None:
        """Show a file at a width in CSS pixels and wait until it is laid out."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())
        self.evaluate("new Promise(done => setTimeout(done, 100))")

    def evaluate(self, expression: str):
        """The value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def screenshot(self, path: Path) -> None:
        """The whole page as a picture."""
        taken = self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png")
        path.write_bytes(base64.b64decode(taken["data"]))

    def pdf(self, path: Path) -> None:
        """The page as it is printed."""
        path.write_bytes(base64.b64decode(self.call("Page.printToPDF", printBackground=True)["data"]))

    @property
    def complaints(self) -> list[str]:
        """Errors and warnings of the console and of the browser itself."""
        kinds = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in kinds]

    @property
    def requests(self) -> list[str]:
        """Addresses that were asked for."""
        sent = (event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent")
        return [params["request"]["url"] for params in sent]
