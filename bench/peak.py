"""How much memory this process uses while something runs."""

import resource
import threading


class Peak(threading.Thread):
    """Watches the resident memory of this process, mapped files included."""

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
        """The largest number of bytes above those at the start."""
        self.stopped.set()
        self.join()
        return self.peak - self.base
