"""Shows the progress of a long export on the terminal and in notebooks."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from jax2onnx._python.notebooks import is_notebook

_STAGES = ("tracing", "converting", "writing")

_watching: "list[_Display]" = []


class Written(Protocol):
    """A file that is being written, such as a model."""

    @property
    def size(self) -> int:
        """The size in bytes."""

    @property
    def written(self) -> int:
        """The number of bytes that are written so far."""


def stage(name: str, what: Written | None = None) -> None:
    """Marks the start of a stage."""
    for display in _watching:
        display.stage, display.what = name, what


@contextmanager
def shown(stream: TextIO | None = None, *, after: float = 1.0) -> Iterator[None]:
    """Shows the stages of exports that take longer than `after` seconds on a terminal."""
    stream = stream or sys.stderr
    yield from _displayed(stream, after, wanted=stream.isatty())


@contextmanager
def shown_in_notebook(*, after: float = 1.0) -> Iterator[None]:
    """Shows the stages of long exports in a notebook. Python programs elsewhere stay quiet."""
    yield from _displayed(sys.stderr, after, wanted=is_notebook())


def _displayed(stream: TextIO, after: float, *, wanted: bool) -> Iterator[None]:
    if not wanted or _watching:
        yield
        return
    display = _Display(stream, after)
    _watching.append(display)
    display.start()
    try:
        yield
    finally:
        _watching.remove(display)
        display.close()


class _Display:
    """One line, which a thread keeps updating."""

    def __init__(self, stream: TextIO, after: float) -> None:
        self.stage = _STAGES[0]
        self.what: Written | None = None
        self._stream, self._after = stream, after
        self._width = 0
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if self._stop.wait(self._after):
            return
        while not self._stop.wait(0.2):
            self._show(self._line())
        self._show("")

    def _show(self, line: str) -> None:
        # Notebooks do not know how to erase a line, only how to return to its start.
        blank = "\r\x1b[2K" if self._stream.isatty() else f"\r{' ' * self._width}\r"
        self._width = len(line)
        self._stream.write(blank + line)
        self._stream.flush()

    def _line(self) -> str:
        done = _STAGES.index(self.stage)
        bar = "█" * done + "▒" + "░" * (len(_STAGES) - done - 1)
        what, size = self.what, ""
        if what is not None and what.size >= 1_000_000:
            size = f" {what.written / 1e6:,.0f} of {what.size / 1e6:,.0f} MB"
        return f"{bar} {self.stage}{size} … {time.monotonic() - self._start:.0f} s"
