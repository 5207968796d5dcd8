"""A real browser for tests: Debian's Chromium without a window, driven through its own debugging protocol."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--no-first-run", "--hide-scrollbars",
    "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--remote-debugging-port=0",
    "--disable-background-networking", "--disable-component-update", "--mute-audio",
)  # fmt: skip


class Browser:
    """One page of a browser: `go` opens an address, `picture` takes a screenshot, `run` evaluates JavaScript."""

    def __init__(self, folder: Path, *, width: int = 1000, height: int = 700) -> None:
        from websockets.sync.client import connect

        if CHROMIUM is None:
            pytest.skip("there is no Chromium on this machine")
        words = [CHROMIUM, *FLAGS, f"--window-size={width},{height}", f"--user-data-dir={folder}", "about:blank"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            port = self._port(folder / "DevToolsActivePort")
            self._socket = connect(f"ws://127.0.0.1:{port}/devtools/page/{self._page(port)}", proxy=None, max_size=None)
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._number = 0
        self.errors: list[str] = []
        self.call("Page.enable")
        self.call("Runtime.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _port(self, file: Path) -> int:
        for _ in range(300):
            if file.is_file() and file.read_text().count("\n"):
                return int(file.read_text().splitlines()[0])
            if self._process.poll() is not None:
                break
            time.sleep(0.1)
        pytest.skip("Chromium does not start on this machine")

    def _page(self, port: int) -> str:
        from urllib.request import ProxyHandler, build_opener

        with build_opener(ProxyHandler({})).open(f"http://127.0.0.1:{port}/json/list") as answer:
            pages = json.load(answer)
        return str(next(page["id"] for page in pages if page["type"] == "page"))

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command of the protocol and return its answer; errors of the page are kept on the way."""
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._socket.recv(timeout=60))
            if message.get("method") == "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
            if message.get("method") == "Runtime.consoleAPICalled" and message["params"]["type"] == "error":
                self.errors.append(str(message["params"]["args"]))
            if message.get("id") == self._number:
                assert "error" not in message, message
                return dict(message["result"])

    def go(self, address: str) -> None:
        """Open an address."""
        self.call("Page.navigate", url=address)

    def run(self, script: str) -> Any:
        """Evaluate JavaScript."""
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def wait_for(self, script: str, *, seconds: float = 30.0) -> None:
        """Wait until JavaScript says true."""
        end = time.monotonic() + seconds
        while not self.run(script):
            assert time.monotonic() < end, f"never true in the browser: {script}"
            time.sleep(0.1)

    def picture(self) -> bytes:
        """Take a PNG of the page."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])
