"""Lets the garbage collector run rarely for a while."""

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# How many new objects start the collector meanwhile. A conversion keeps almost all that it creates
# until its end, so looking for garbage as often as Python usually does takes a tenth of the time
# and finds next to nothing.
_OBJECTS_PER_COLLECTION = 50_000

_lock = threading.Lock()

# The settings that each running block found. The thresholds are the process's, so the first block
# changes them and the last one restores them.
_found: list[tuple[int, int, int]] = []


@contextmanager
def collected_rarely() -> Iterator[None]:
    """Lets the garbage collector run rarely while the block runs, in any thread."""
    with _lock:
        first, *others = found = gc.get_threshold()
        if not _found and first:  # 0 is never
            gc.set_threshold(max(first, _OBJECTS_PER_COLLECTION), *others)
        _found.append(found)
    try:
        yield
    finally:
        with _lock:
            if len(_found) == 1:
                gc.set_threshold(*_found[0])
            _found.pop()
