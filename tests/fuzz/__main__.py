"""Runs random programs for a while: `python -m fuzz --seconds 600 --seed 7 --jobs 4`.

Programs run in processes of their own, a few dozen in each: what JAX compiles adds up, and JAX and
ONNX Runtime may crash. Failures are made small and kept in a folder. What the reference is to blame
for is counted and passed over. The search goes on for all of the time.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

BATCH = 40
# A process may take this long after its time: it may be making a failure small.
PATIENCE = 180
FOLDER = Path(__file__).parents[2] / "target" / "fuzz-failures"


class Search:
    """What all processes share: the seeds that are left, and what was found."""

    def __init__(self, seed: int, count: int, seconds: float, folder: Path) -> None:
        self._next, self._last = seed, seed + count
        self._end = time.monotonic() + seconds
        self._folder = folder
        self._lock = threading.Lock()
        self.seen: Counter[str] = Counter()
        self.passed_over: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def run(self) -> None:
        """Checks programs until the time is over, one process after the other."""
        while True:
            with self._lock:
                first, self._next = self._next, min(self._next + BATCH, self._last)
                last = self._next
            while first < last:
                if time.monotonic() > self._end:
                    return
                first = self._process(first, last - first) + 1
            if first >= self._last:
                return

    def _process(self, seed: int, count: int) -> int:
        """Checks some programs in another process. Returns the last seed that it checked."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "state.json")
            left = max(self._end - time.monotonic(), 1)
            worker = [sys.executable, "-m", "fuzz.worker", str(file), str(self._folder)]
            worker += [str(seed), str(count), str(left)]
            try:
                done = subprocess.run(
                    worker, check=False, capture_output=True, timeout=left + PATIENCE
                )
                ended, said = done.returncode, done.stderr.decode(errors="replace")
            except subprocess.TimeoutExpired:
                ended, said = "a timeout", ""
            state = json.loads(file.read_text()) if file.exists() else {"seed": seed}
        with self._lock:
            self.seen.update(state.get("seen", {}))
            self.passed_over.update(state.get("passed over", {}))
            self.failures.update(state.get("failures", {}))
            for name in state.get("failures", {}):
                print(f"seed {state['seed']}: {self._folder / name}", flush=True)
            if ended:
                self._ended(state, ended, said)
        return state["seed"]

    def _ended(self, state: dict, ended: object, said: str) -> None:
        """Notes that a process did not end by itself."""
        stage = state.get("stage", "start")
        if stage in ("draw", "compare"):
            self.passed_over[f"JAX crashed: the process ended with {ended}"] += 1
            return
        name = f"{stage}-ended-{state['seed']}.txt"
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_text(f"seed {state['seed']}, {stage}: {ended}\n\n{said}")
        print(f"seed {state['seed']}: the process ended with {ended} during {stage}", flush=True)
        self.failures[name] += 1


def main() -> int:
    """Searches for programs whose models do something else; returns whether there was one."""
    parser = argparse.ArgumentParser(prog="fuzz", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to run")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=10**9, help="how many programs to run")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes to run at once")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where failures are kept")
    args = parser.parse_args()

    search = Search(args.seed, args.count, args.seconds, args.folder)
    threads = [threading.Thread(target=search.run) for _ in range(args.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    _print("checked", search.seen)
    _print("passed over, because of the reference", search.passed_over)
    _print(f"failures, kept in {args.folder}", search.failures)
    print(f"{len(search.failures)} kinds of failures")
    return bool(search.failures)


def _print(title: str, counts: Counter[str]) -> None:
    print(f"{title}:")
    for what, count in counts.most_common():
        print(f"{count:8} {what}")


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
