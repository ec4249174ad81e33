"""Checks random programs for a while: `python -m fuzz --seconds 600 --seed 7 --jobs 4`.

Programs run in separate processes, a few dozen in each, because compiled code accumulates in JAX,
and JAX and ONNX Runtime may crash. Failures are reduced and saved in a folder. Problems of the
reference are counted and skipped. The search uses all of the time.
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
# The extra time of a process in seconds, because it may be reducing a failure.
PATIENCE = 180
FOLDER = Path(__file__).parents[2] / "target" / "fuzz-failures"


class Search:
    """The state shared by all processes: the remaining seeds and the findings."""

    def __init__(
        self, seed: int, count: int, seconds: float, folder: Path, *, half: bool = False
    ) -> None:
        self._next, self._last = seed, seed + count
        self._half = half
        self._end = time.monotonic() + seconds
        self._folder = folder
        self._lock = threading.Lock()
        self.seen: Counter[str] = Counter()
        self.passed_over: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def run(self) -> None:
        """Checks programs until the time is up, one process after the other."""
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
        """Checks some programs in another process. Returns the last seed that was checked."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "state.json")
            left = max(self._end - time.monotonic(), 1)
            worker = [sys.executable, "-m", "fuzz.worker", str(file), str(self._folder)]
            worker += [str(seed), str(count), str(left), *["--half"] * self._half]
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
        """Records that a process was terminated."""
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
    """Searches for programs whose models behave differently; returns 1 if there was one."""
    parser = argparse.ArgumentParser(prog="fuzz", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="the duration of the search")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=10**9, help="the maximum number of programs")
    parser.add_argument("--jobs", type=int, default=1, help="the number of parallel processes")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="the folder for failures")
    parser.add_argument("--half", action="store_true", help="floats in half precision only")
    args = parser.parse_args()

    search = Search(args.seed, args.count, args.seconds, args.folder, half=args.half)
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
