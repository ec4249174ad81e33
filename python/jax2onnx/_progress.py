"""Shows on the terminal what a long export is doing."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

_STAGES = ("tracing", "converting", "writing")

_watching: "list[_Display]" = []


def stage(name: str) -> None:
    """Marks the start of a stage. This costs nothing unless progress is shown."""
    for display in _watching:
        display.stage = name


@contextmanager
def shown(stream: TextIO | None = None, *, after: float = 1.0) -> Iterator[None]:
    """Shows the stages of exports that take longer than `after` seconds on a terminal."""
    stream = stream or sys.stderr
    if not stream.isatty():
        yield
        return
    display = _Display(stream, after)
    _watching.append(display)
    try:
        yield
    finally:
        _watching.remove(display)
        display.close()


class _Display:
    """One line, which a thread keeps updating."""

    def __init__(self, stream: TextIO, after: float) -> None:
        self.stage = _STAGES[0]
        self._stream, self._after = stream, after
        self._start = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        if self._stop.wait(self._after):
            return
        while not self._stop.wait(0.2):
            self._stream.write(f"\r\x1b[2K{self._line()}")
            self._stream.flush()
        self._stream.write("\r\x1b[2K")
        self._stream.flush()

    def _line(self) -> str:
        done = _STAGES.index(self.stage)
        bar = "█" * done + "▒" + "░" * (len(_STAGES) - done - 1)
        return f"{bar} {self.stage} … {time.monotonic() - self._start:.0f} s"
