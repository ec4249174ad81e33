"""Runs random programs for a while: `python -m fuzz --seconds 600 --seed 7`.

Programs run in processes of their own, a few dozen in each: what JAX compiles adds up, and ONNX
Runtime may crash.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

BATCH = 40


def main() -> int:
    """Prints a small reproduction of each kind of failure; returns whether there was one."""
    parser = argparse.ArgumentParser(prog="fuzz", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long to run")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first program")
    parser.add_argument("--count", type=int, default=10**9, help="how many programs to run")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    args = parser.parse_args()

    end, seed, last = time.monotonic() + args.seconds, args.seed, args.seed + args.count
    total, failed = Counter(), 0
    while time.monotonic() < end and seed < last and (args.keep_going or not failed):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, "state.json")
            worker = [sys.executable, "-m", "fuzz.worker", str(file), str(seed)]
            worker += [str(min(BATCH, last - seed)), str(end - time.monotonic())]
            worker += ["--keep-going"] * args.keep_going
            status = subprocess.run(worker, check=False).returncode
            state = json.loads(file.read_text()) if file.exists() else {"seed": seed}
        total.update(state.get("seen", {}))
        failed += state.get("failed", 0)
        if status:
            print(f"\nseed {state['seed']}: the process ended with {status}", flush=True)
            failed += 1
        seed = state["seed"] + 1
    for what, count in total.most_common():
        print(f"{count:6} {what}")
    print(f"{failed} failures")
    return bool(failed)


if __name__ == "__main__":
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    sys.exit(main())
