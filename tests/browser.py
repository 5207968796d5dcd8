"""A browser without a window, driven over the pipe of its DevTools protocol; nothing to install beside Chromium."""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAUNCHER = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execv(sys.argv[3], sys.argv[3:])"""
"""The browser reads commands from descriptor 3 and answers on 4."""

PATIENCE = 60.0
"""Seconds to wait for an answer, on a machine with other work."""


def find_browser() -> str | None:
    """The browser's program, None where there is none."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def find_axe() -> Path | None:
    """axe-core's script: $AXE_CORE, or the npm package beside the project or installed globally; None without."""
    places = [
        Path(__file__).parent.parent / "node_modules",
        Path("/usr/lib/node_modules"),
        Path("/usr/local/lib/node_modules"),
    ]
    files = [Path(os.environ.get("AXE_CORE", "")), *(place / "axe-core" / "axe.min.js" for place in places)]
    return next((file for file in files if file.is_file()), None)


class Tab:
    """One page: everything that it asked of the network or complained about is kept."""

    def __init__(self, commands: int, answers: int) -> None:
        self.commands, self.answers = commands, answers
        self.number, self.rest = 0, b""
        self.session: str | None = None
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def begin(self, width: int, height: int, *, phone: bool = False) -> None:
        """Make a fresh tab the one that is driven."""
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{domain}.enable")
        self.resize(width, height, phone=phone)

    def visit(self, address: str, *, width: int, height: int) -> None:
        """Open an address in a fresh tab."""
        self.begin(width, height)
        self.ask("Page.navigate", url=address)

    def open(self, file: Path, *, width: int, height: int, dark: bool = False, phone: bool = False) -> None:
        """Load a file in a fresh tab that cannot reach any network, and wait until all figures are drawn."""
        self.begin(width, height, phone=phone)
        self.ask("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)
        self.ask("Network.setBlockedURLs", urls=["http://*", "https://*", "ws://*", "wss://*"])
        if dark:
            self.ask("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
        self.ask("Page.navigate", url=file.resolve().as_uri())
        self.wait("document.body && document.body.dataset.figures === 'drawn'")

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """Change the size of the window."""
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)

    def run(self, script: str) -> Any:
        """Value of an expression in the page."""
        done = self.ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def wait(self, condition: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(condition):
            if time.monotonic() > end:
                raise AssertionError(f"never true: {condition}; {self.complaints}")
            time.sleep(0.05)

    def accessibility_violations(self, axe: Path) -> list[str]:
        """Rules of axe-core that the page breaks, with the first element of each."""
        self.run(axe.read_text(encoding="utf-8"))
        told = "(v) => `${v.id} (${v.nodes.length}): ${v.nodes[0].html} ${v.nodes[0].failureSummary}`"
        return list(self.run(f"axe.run().then((found) => found.violations.map({told}))"))

    def drag(self, x: float, y: float, dx: float, dy: float) -> None:
        """Press, move in some steps, release."""
        mouse = {"button": "left", "clickCount": 1}
        self.ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.ask("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **mouse)
        for k in range(1, 9):
            self.ask(
                "Input.dispatchMouseEvent",
                type="mouseMoved",
                x=x + dx * k / 8,
                y=y + dy * k / 8,
                button="left",
                buttons=1,
            )
        self.ask("Input.dispatchMouseEvent", type="mouseReleased", x=x + dx, y=y + dy, **mouse)

    def swipe(self, x: float, y: float, dx: float, dy: float) -> None:
        """Move a finger over the page."""
        self.ask("Emulation.setTouchEmulationEnabled", enabled=True)
        for k in range(9):
            point = {"x": x + dx * k / 8, "y": y + dy * k / 8}
            self.ask("Input.dispatchTouchEvent", type="touchMove" if k else "touchStart", touchPoints=[point])
        self.ask("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.ask("Emulation.setTouchEmulationEnabled", enabled=False)

    def picture(self, *, clip: dict[str, float] | None = None, whole: bool = False) -> bytes:
        """PNG of the window, or of a part of the page."""
        more: dict[str, Any] = {"clip": {**clip, "scale": 1}} if clip else {}
        return base64.b64decode(
            self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **more)["data"]
        )

    def pdf(self) -> bytes:
        """The page as it is printed."""
        return base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"])

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer; events on the way are looked at."""
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None and not method.startswith("Target."):
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + PATIENCE
        while True:
            for answer in self._messages(end):
                if answer.get("id") == self.number:
                    if "error" in answer:
                        raise AssertionError(f"{method}: {answer['error']}")
                    return dict(answer["result"])
                self._note(answer)

    def _messages(self, end: float) -> Iterator[dict[str, Any]]:
        while b"\0" not in self.rest:
            ready, _, _ = select.select([self.answers], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self.answers, 1 << 20) if ready else b""
            if not data:
                raise AssertionError("the browser does not answer")
            self.rest += data
        first, _, self.rest = self.rest.partition(b"\0")
        yield json.loads(first)

    def _note(self, event: dict[str, Any]) -> None:
        kind, detail = event.get("method"), event.get("params", {})
        if kind == "Runtime.exceptionThrown":
            self.complaints.append(str(detail["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled" and detail["type"] in ("error", "assert"):
            self.complaints.append(str(detail["args"]))
        elif kind == "Log.entryAdded" and detail["entry"]["level"] == "error":
            self.complaints.append(str(detail["entry"]))
        elif kind == "Network.requestWillBeSent":
            self.requests.append(detail["request"]["url"])


@contextmanager
def browser(program: str) -> Iterator[Tab]:
    """Start the browser, give a tab, end the browser."""
    ours, theirs = os.pipe(), os.pipe()
    read, write = (fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (ours[0], theirs[1]))
    for fd in (ours[0], theirs[1]):
        os.close(fd)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        words = [
            program, "--headless=new", "--remote-debugging-pipe", "--no-sandbox", f"--user-data-dir={folder}",
            "--no-first-run", "--disable-extensions", "--disable-background-networking", "--hide-scrollbars",
            "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist", "about:blank",
        ]  # fmt: skip
        start = [sys.executable, "-c", LAUNCHER, str(read), str(write), *words]
        quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        process = subprocess.Popen(start, pass_fds=(read, write), start_new_session=True, **quiet)  # type: ignore[call-overload]
        os.close(read)
        os.close(write)
        try:
            yield Tab(ours[1], theirs[0])
        finally:
            process.terminate()
            process.wait(20)
            os.close(ours[1])
            os.close(theirs[0])
