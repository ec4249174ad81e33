"""Measures the memory that this process uses while something runs."""

import resource
import threading


class Peak(threading.Thread):
    """A thread that watches the resident memory of this process, including mapped files."""

    def __init__(self):
        super().__init__(daemon=True)
        self.base = self.peak = self._now()
        self.stopped = threading.Event()

    def _now(self):
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    def run(self):
        while not self.stopped.wait(0.001):
            self.peak = max(self.peak, self._now())

    def stop(self):
        """Stops watching. Returns the peak number of bytes above the start."""
        self.stopped.set()
        self.join()
        return self.peak - self.base
