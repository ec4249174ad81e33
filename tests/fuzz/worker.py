"""Checks some programs and notes its progress in a file."""

import argparse
import json
import time
import warnings
from pathlib import Path

from fuzz.check import Seen, check
from fuzz.generate import program
from fuzz.shrink import reproduction, shrink


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--keep-going", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    seen, failures, end = Seen(), set(), time.monotonic() + args.seconds

    def note(seed: int) -> None:
        counts = {"programs": seen.programs, "operations": sum(seen.operations.values())}
        counts |= {f"not supported: {reason}": n for reason, n in seen.unsupported.items()}
        args.state.write_text(json.dumps({"seed": seed, "failed": len(failures), "seen": counts}))

    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() > end or (failures and not args.keep_going):
            break
        note(seed)
        failure = check(program(seed), seen)
        if failure is not None and (failure.stage, failure.key) not in failures:
            failures.add((failure.stage, failure.key))
            small = shrink(failure)
            print(f"\n# seed {seed}, {small.stage} {small.key}")
            print("\n".join(f"# {line}" for line in small.message.splitlines()))
            print(reproduction(small), flush=True)
        note(seed)


if __name__ == "__main__":
    main()
