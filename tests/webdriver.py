"""A browser driven by the clicks of W3C WebDriver, over chromedriver; nothing to install beside Debian's package."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's number, by the standard."""


def find_driver() -> str | None:
    """The driver's program, None where there is none."""
    return shutil.which("chromedriver")


class Clicker:
    """One page that is only looked at and clicked."""

    def __init__(self, address: str, session: str) -> None:
        self.address, self.session = address, session

    def ask(self, path: str, data: dict[str, Any] | None = None) -> Any:
        """Send a command of the session."""
        return _send(f"{self.address}/session/{self.session}/{path}", data)

    def open(self, file: Path) -> None:
        """Load a file, with no network."""
        self.cdp("Network.enable")
        self.cdp("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.ask("url", {"url": file.resolve().as_uri()})

    def cdp(self, command: str, **parameters: Any) -> Any:
        """Send a command of the DevTools protocol."""
        return self.ask("goog/cdp/execute", {"cmd": command, "params": parameters})

    def click(self, xpath: str) -> None:
        """Click an element, such as a button or an entry of a drop-down."""
        found = self.ask("element", {"using": "xpath", "value": xpath})[ELEMENT]
        self.ask(f"element/{found}/click", {})

    def choose(self, label: str, entry: str) -> None:
        """Click an entry of the drop-down with a label."""
        self.click(f"//select[@aria-label={quoted(label)}]/option[text()={quoted(entry)}]")

    def text(self, xpath: str) -> str:
        """Text of an element."""
        found = self.ask("element", {"using": "xpath", "value": xpath})[ELEMENT]
        return str(self.ask(f"element/{found}/property/textContent"))

    def copied(self, button: str) -> str:
        """Click a button that copies, and return what the clipboard holds then."""
        self.click(f"//button[text()={quoted(button)}]")
        self.cdp("Browser.grantPermissions", permissions=["clipboardReadWrite"])
        script = (
            "const done = arguments[0]; setTimeout(() => navigator.clipboard.readText().then(done, () => done('')), 50)"
        )
        return str(self.ask("execute/async", {"script": script, "args": []}))


def quoted(text: str) -> str:
    """A text as XPath writes it, whatever quotes it holds."""
    if '"' not in text:
        return f'"{text}"'
    parts = text.split('"')
    return "concat(" + ", '\"', ".join(f'"{part}"' for part in parts) + ")"


def _send(address: str, data: dict[str, Any] | None) -> Any:
    body = None if data is None else json.dumps(data).encode()
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]
    except urllib.error.HTTPError as error:
        raise AssertionError(f"{address}: {error.read().decode()[:600]}") from None


@contextmanager
def clicker(driver: str, browser: str) -> Iterator[Clicker]:
    """Start the driver and a browser without a window; end both."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([driver, f"--port={port}"], **quiet)  # type: ignore[call-overload]
    try:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            words = ["--headless=new", "--no-sandbox", f"--user-data-dir={folder}", "--disable-gpu", "--no-first-run"]
            asked = {"goog:chromeOptions": {"binary": browser, "args": words}}
            end = time.monotonic() + 60.0
            while True:
                try:
                    made = _send(f"{address}/session", {"capabilities": {"alwaysMatch": asked}})
                    break
                except urllib.error.URLError:
                    if time.monotonic() > end:
                        raise
                    time.sleep(0.1)
            tab = Clicker(address, made["sessionId"])
            try:
                yield tab
            finally:
                request = urllib.request.Request(f"{address}/session/{tab.session}", method="DELETE")
                urllib.request.urlopen(request, timeout=60).close()
    finally:
        process.terminate()
        process.wait(20)
