"""A headless Chromium for tests, driven through a pipe: no port, no driver, no package."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from harness.waiting import PATIENCE, until

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# The folder that `make web` installs packages in.
NODE_MODULES = Path(__file__).parents[2] / "build" / "web" / "node_modules"

# The codes of keys that type no text.
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "End": 35, "Home": 36}
CODES |= {"ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}

# Disables background activity, which takes time and may be throttled.
QUIET = (
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-renderer-backgrounding",
    "--disable-sync",
    "--no-default-browser-check",
    "--no-first-run",
)

# The browser reads commands from descriptor 3 and writes answers to 4.
_LAUNCH = """
import fcntl, os, sys
away = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(away[0], 3)
os.dup2(away[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_browser() -> str:
    """Returns the browser's path; skips the test if there is no browser."""
    for name in NAMES:
        path = shutil.which(name)
        if path:
            return path
    pytest.skip(f"no browser: none of {', '.join(NAMES)} is on PATH")


class Page:
    """One tab. Errors on the page fail the test that uses it."""

    def __init__(
        self, folder: Path, width: int = 1440, height: int = 900, flags: Sequence[str] = ()
    ) -> None:
        browser = find_browser()
        down, up = os.pipe(), os.pipe()
        command = [
            browser,
            "--headless=new",
            "--no-sandbox",
            *(flags or ["--disable-gpu"]),
            "--disable-dev-shm-usage",
            *QUIET,
            "--hide-scrollbars",
            # Only this machine can be reached.
            "--host-resolver-rules=MAP * ~NOTFOUND , EXCLUDE 127.0.0.1",
            f"--window-size={width},{height}",
            f"--user-data-dir={folder / 'browser'}",
            "--remote-debugging-pipe",
            "about:blank",
        ]
        with (folder / "browser.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LAUNCH, str(down[0]), str(up[1]), *command],
                pass_fds=(down[0], up[1]),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        os.close(down[0])
        os.close(up[1])
        self._commands = os.fdopen(down[1], "wb", buffering=0)
        self._answers = os.fdopen(up[0], "rb", buffering=0)
        self._left = b""
        self._last = 0
        self._session: str | None = None
        self._tabs: list[str] = []
        self._loaded: set[str] = set()
        self.errors: list[str] = []
        self.requests: list[str] = []
        try:
            self._attach(width, height)
        except BaseException:
            self._kill()
            raise

    def _attach(self, width: int, height: int) -> None:
        # The browser answers before it has a tab.
        self.send("Target.setDiscoverTargets", discover=True)
        while not self._tabs:
            self._receive()
        attached = self.send("Target.attachToTarget", targetId=self._tabs[0], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network"):
            self.send(f"{domain}.enable")
        self.send("Page.setLifecycleEventsEnabled", enabled=True)
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2,
            mobile=False,
        )
        # Without animations, the page is never between two states.
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.send("Emulation.setEmulatedMedia", features=[still])

    def __enter__(self) -> "Page":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._process.poll() is None:
                self._session = None
                self.send("Browser.close")
            self._process.wait(timeout=10)
        except (OSError, EOFError, subprocess.TimeoutExpired):
            pass
        finally:
            self._kill()

    def _kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._commands.close()
        self._answers.close()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Sends a command and waits for its answer."""
        self._last += 1
        message: dict[str, Any] = {"id": self._last, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        self._commands.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._last:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._left:
            if not select.select([self._answers], [], [], PATIENCE)[0]:
                raise TimeoutError(f"the browser has not answered for {PATIENCE} s")
            more = self._answers.read(1 << 20)
            if not more:
                raise EOFError("the browser has exited")
            self._left += more
        text, self._left = self._left.split(b"\0", 1)
        message = json.loads(text)
        params = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                self.errors.append(details.get("exception", {}).get("description", details["text"]))
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
            case "Target.targetCreated" if params["targetInfo"]["type"] == "page":
                self._tabs.append(params["targetInfo"]["targetId"])
            case "Page.lifecycleEvent" if params["name"] == "load":
                self._loaded.add(params["loaderId"])
        return message

    def open(self, address: str) -> None:
        """Loads a page and waits until it is complete."""
        # Asking the page instead might reach the previous one.
        started = self.send("Page.navigate", url=address)
        if "errorText" in started:
            raise AssertionError(f"{address}: {started['errorText']}")
        while started["loaderId"] not in self._loaded:
            self._receive()

    def leave(self) -> None:
        """Shows an empty page, so that the same page is loaded again even with another fragment."""
        self.open("about:blank")

    def evaluate(self, expression: str) -> Any:
        """Returns the value of a JavaScript expression, with promises awaited."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in found:
            details = found["exceptionDetails"]
            text = details.get("exception", {}).get("description", details["text"])
            raise AssertionError(f"{expression[:1000]}: {text}")
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        """Waits until an expression is true."""
        try:
            until(lambda: self.evaluate(f"Boolean({condition})"))
        except TimeoutError:
            raise AssertionError(f"never true: {condition}; errors: {self.errors}") from None

    def frame(self) -> None:
        """Waits until pending changes are painted."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)))")

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Sends a mouse event: `mouseMoved`, `mousePressed` or `mouseReleased`."""
        button = "none" if kind == "mouseMoved" else "left"
        self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)

    def center(self, element: str) -> tuple[float, float]:
        """Returns the centre of the element that an expression selects."""
        x, y = self.evaluate(
            f"(() => {{ const found = {element};"
            " found.scrollIntoView({ block: 'nearest', inline: 'nearest' });"
            " const r = found.getBoundingClientRect();"
            " return [r.x + Math.min(r.width / 2, 120), r.y + r.height / 2]; })()"
        )
        return x, y

    def hover(self, element: str) -> None:
        """Moves the pointer to the element that an expression selects."""
        self.mouse("mouseMoved", *self.center(element))
        self.frame()

    def click(self, element: str) -> None:
        """Clicks on the element that an expression selects."""
        x, y = self.center(element)
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.mouse(kind, x, y)
        self.frame()

    def press(self, key: str, text: str = "") -> None:
        """Presses a key such as `ArrowDown`; `text` is the text that it types, if any."""
        extra = {"text": text} if text else {}
        code = CODES.get(key, 0)
        self.send(
            "Input.dispatchKeyEvent",
            type="keyDown",
            key=key,
            windowsVirtualKeyCode=code,
            **extra,
        )
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)
        self.frame()

    def type(self, text: str) -> None:
        """Types into the focused element."""
        self.send("Input.insertText", text=text)
        self.frame()

    def screenshot(self, path: Path) -> None:
        """Saves a picture of the visible part."""
        self.frame()
        data = self.send("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(data))


@contextmanager
def browser(folder: Path, width: int = 1440, height: int = 900) -> Iterator[Page]:
    """Yields a page of a browser that is closed afterwards."""
    with _started(folder, width, height) as page:
        yield page


def _started(folder: Path, width: int, height: int) -> Page:
    """Starts a browser. Retries once, because a browser sometimes exits before it answers."""
    try:
        return Page(folder, width, height)
    except (EOFError, BrokenPipeError):
        again = folder / "again"
        again.mkdir()
        return Page(again, width, height)
