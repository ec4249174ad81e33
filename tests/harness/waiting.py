"""Waits for other threads and processes."""

import time
from collections.abc import Callable

PATIENCE = 300
"""Seconds. Long, since the machine may be busy: this only ends what would never end."""


def until(condition: Callable[[], object]) -> None:
    """Waits until a condition is true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"not true after {PATIENCE} s: {condition}")
        time.sleep(0.01)
