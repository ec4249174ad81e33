"""Lets the garbage collector run rarely for a while."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# How many new objects start the collector meanwhile. A conversion keeps almost all that it creates
# until its end, so looking for garbage as often as Python usually does takes a tenth of the time
# and finds next to nothing.
_OBJECTS_PER_COLLECTION = 500_000


class _Thresholds:
    """The collector's thresholds. They belong to the process: the first of several blocks changes
    them, and the last one restores what the first one found.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks = 0
        self._found = gc.get_threshold()

    def raise_(self) -> None:
        with self._lock:
            if self._blocks == 0:
                self._found = first, *others = gc.get_threshold()
                if first:  # 0 is never
                    gc.set_threshold(max(first, _OBJECTS_PER_COLLECTION), *others)
            self._blocks += 1

    def restore(self) -> None:
        with self._lock:
            self._blocks -= 1
            if self._blocks == 0:
                gc.set_threshold(*self._found)


_thresholds = _Thresholds()


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Lets the garbage collector run rarely while the block runs, in any thread."""
    _thresholds.raise_()
    try:
        yield
    finally:
        _thresholds.restore()
