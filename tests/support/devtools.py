"""A headless Chromium, driven over two pipes with its DevTools protocol: JSON messages that end in a zero byte."""

import fcntl
import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 60.0  # seconds for any one answer: machines that run tests can be slow
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    "--remote-debugging-pipe",
)
# Chromium reads from descriptor 3 and writes to 4; Python's own way of passing descriptors keeps their numbers.
LAUNCHER = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); os.execvp(sys.argv[3], sys.argv[3:])"
)


class Page:
    """A tab: its problems (errors on the console, failed scripts) and all that it asked the network for."""

    def __init__(self, browser: "Browser", session: str) -> None:
        self.browser = browser
        self.session = session
        self.problems: list[str] = []
        self.requests: list[str] = []

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.send(method, self.session, **parameters)

    def evaluate(self, script: str) -> Any:
        """The value of an expression, which may be a promise."""
        answer = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def scroll_width(self, width: int) -> int:
        """How wide the page is in a window of that width."""
        self.resize(width)
        try:
            return int(self.evaluate("document.documentElement.scrollWidth"))
        finally:
            self.resize(1200)

    def resize(self, width: int) -> None:
        """Give the window another width."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)

    def press(self, key: str) -> None:
        """A key, as if a person pressed it; the page has dealt with it when this returns."""
        codes = {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)


class Browser:
    """One Chromium with a profile of its own; a context manager that ends it."""

    def __init__(self, command: str) -> None:
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        profile = f"--user-data-dir={self._profile.name}"
        # High numbers: 3 and 4 are where they are to go.
        their_in, self._out = map(_raised, os.pipe())
        self._in, their_out = map(_raised, os.pipe())
        self._process = subprocess.Popen(
            [sys.executable, "-c", LAUNCHER, str(their_in), str(their_out), command, *FLAGS, profile, "about:blank"],
            pass_fds=(their_in, their_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_in)
        os.close(their_out)
        self._number = 0
        self._buffer = b""
        self._pages: dict[str, Page] = {}
        self._loaded: set[str] = set()

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.send("Browser.close")
            self._process.wait(10)
        except (OSError, AssertionError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._profile.cleanup()

    def open(self, url: str, *, width: int = 1200, theme: str = "light", scripts: bool = True) -> Page:
        """A page that has loaded."""
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.send(f"{domain}.enable")
        page.resize(width)
        page.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        if not scripts:
            page.send("Emulation.setScriptExecutionDisabled", value=True)
        page.send("Page.navigate", url=url)
        with _deadline("the page to load") as still:
            while session not in self._loaded:
                self._take(still())
        return page

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """The answer to a command. What happens meanwhile is noted at its page."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        _write(self._out, json.dumps(message).encode() + b"\0")
        with _deadline(method) as still:
            while True:
                answer = self._take(still())
                if answer.get("id") == self._number:
                    assert "error" not in answer, f"{method}: {answer['error']}"
                    found: dict[str, Any] = answer["result"]
                    return found

    def _take(self, seconds: float) -> dict[str, Any]:
        """The next message; events are noted as well."""
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], seconds)
            part = os.read(self._in, 1 << 20) if ready else b""
            assert part, f"chromium said nothing for {seconds:.0f} s, or has ended"
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        page = self._pages.get(message.get("sessionId", ""))
        if page and "method" in message:
            self._note(page, message["method"], message["params"])
        return message

    def _note(self, page: Page, event: str, details: dict[str, Any]) -> None:
        if event == "Network.requestWillBeSent":
            page.requests.append(details["request"]["url"])
        elif event == "Runtime.exceptionThrown":
            page.problems.append(str(details["exceptionDetails"].get("exception", details)))
        elif event == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            page.problems.append(str(details["args"]))
        elif event == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            page.problems.append(details["entry"]["text"])
        elif event == "Page.loadEventFired":
            self._loaded.add(page.session)


def _raised(descriptor: int) -> int:
    """The same pipe under a number from 10 on."""
    high = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 10)
    os.close(descriptor)
    return high


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


@contextmanager
def _deadline(what: str) -> Iterator[Any]:
    """A function that says how many seconds are left."""
    end = time.monotonic() + PATIENCE

    def still() -> float:
        left = end - time.monotonic()
        assert left > 0, f"waited too long for {what}"
        return left

    yield still
