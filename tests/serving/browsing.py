"""A real browser, driven over its own pipe: no driver has to be installed beside it."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--enable-unsafe-swiftshader",
    "--remote-debugging-pipe",
)


class Page:
    """One page of a browser."""

    def __init__(self, commands: int, answers: int) -> None:
        self._commands, self._answers = commands, answers
        self._received, self._sent, self._session = b"", 0, ""
        self.requests: list[str] = []
        self.complaints: list[str] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "DOM"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """What the browser answers to a command of its protocol."""
        self._sent += 1
        message: dict[str, Any] = {"id": self._sent, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != self._sent:
            self._note(answer)
        assert "error" not in answer, answer
        return answer.get("result", {})

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._received:
            assert select.select([self._answers], [], [], 60)[0], "the browser does not answer"
            chunk = os.read(self._answers, 1 << 20)
            assert chunk, "the browser ended"
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return json.loads(message)

    def _note(self, event: dict[str, Any]) -> None:
        found = event.get("params", {})
        if event["method"] == "Network.requestWillBeSent":
            self.requests.append(found["request"]["url"])
        elif event["method"] == "Runtime.exceptionThrown":
            details = found["exceptionDetails"]
            self.complaints.append(details.get("exception", {}).get("description", details["text"]))
        elif event["method"] == "Log.entryAdded" and found["entry"]["level"] == "error":
            self.complaints.append(f"{found['entry']['text']} {found['entry'].get('url', '')}")

    def open(self, address: str, *, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        """Go to an address, on a screen of that size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        self.send("Page.navigate", url=address)

    def ask(self, expression: str) -> Any:
        """The value of an expression on the page."""
        found = self._evaluated(expression)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def _evaluated(self, expression: str) -> dict[str, Any]:
        return self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)

    def wait(self, expression: str, seconds: float = 60) -> Any:
        """The value of an expression once it is true; what it needs may be missing before."""
        until = time.monotonic() + seconds
        attempt = f"(() => {{ try {{ return {expression} }} catch {{}} }})()"
        while not (value := self._evaluated(attempt)["result"].get("value")):
            assert time.monotonic() < until, (expression, self.complaints, self.ask("document.body.innerText")[:2000])
            time.sleep(0.05)
        return value

    def mouse(self, kind: str, x: float, y: float) -> None:
        """`mousePressed`, `mouseMoved` or `mouseReleased` at a place on the screen."""
        button = {"mouseMoved": 1}.get(kind, 0) or 1
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", buttons=button, clickCount=1)

    def click(self, x: float, y: float) -> None:
        """A click at a place on the screen."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)

    def press(self, key: str) -> None:
        """A key, by its name."""
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def choose_files(self, selector: str, *files: Path) -> None:
        """Give files to an input element."""
        root = self.send("DOM.getDocument")["root"]["nodeId"]
        node = self.send("DOM.querySelector", nodeId=root, selector=selector)["nodeId"]
        self.send("DOM.setFileInputFiles", nodeId=node, files=[str(file) for file in files])

    def picture(self, path: Path, *, whole: bool = False) -> None:
        """A screenshot."""
        taken = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))


@contextmanager
def browsing(profile: Path) -> Iterator[Page]:
    """A page of a browser; without one the test is skipped."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    if program is None:
        pytest.skip("a browser: none of chromium, google-chrome is on PATH")
    to_browser, commands = os.pipe()
    answers, from_browser = os.pipe()
    flags = " ".join((*FLAGS, f"--user-data-dir='{profile}'"))
    # The browser reads commands from descriptor 3 and answers at 4.
    process = subprocess.Popen(
        ["/bin/bash", "-c", f"exec '{program}' {flags} 3<&{to_browser} 4>&{from_browser}"],
        pass_fds=(to_browser, from_browser),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(to_browser)
    os.close(from_browser)
    try:
        yield Page(commands, answers)
    finally:
        os.close(commands)
        os.close(answers)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
        process.kill()
        process.wait()
