"""Runs random programs for a while: `python -m fuzz --seconds 600 --seed 7`."""

import argparse
import os
import sys
import time
import traceback
import warnings

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> int:
    """Prints a small reproduction of each kind of failure; returns whether there was one."""
    parser = argparse.ArgumentParser(prog="fuzz", description=main.__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="the first program")
    parser.add_argument("--count", type=int, help="how many programs")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    parser.add_argument("--verbose", action="store_true", help="name each program")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    import jax

    from fuzz.check import Seen, check
    from fuzz.generate import program
    from fuzz.shrink import reproduction, shrink

    seen, failures = Seen(), {}
    end, seed = time.monotonic() + args.seconds, args.seed
    while time.monotonic() < end and (args.count is None or seed < args.seed + args.count):
        if args.verbose:
            print(f"seed {seed}", flush=True)
        try:
            failure = check(program(seed), seen)
        except Exception:
            print(f"seed {seed}: the generator itself failed")
            traceback.print_exc()
            return 2
        if failure is not None:
            key = (failure.stage, failure.key)
            failures.setdefault(key, []).append(seed)
            if len(failures[key]) == 1:
                small = shrink(failure)
                print(f"\n# seed {seed}, {small.stage} {small.key}")
                print("\n".join(f"# {line}" for line in small.message.splitlines()))
                print(reproduction(small), flush=True)
            if not args.keep_going:
                break
        seed += 1
        if seed % 40 == 0:
            jax.clear_caches()  # Compiled operations add up.
    print(f"\n{seen.programs} programs, {sum(seen.operations.values())} operations")
    for reason, count in seen.unsupported.most_common():
        print(f"not supported, {count} times: {reason}")
    for (stage, key), seeds in failures.items():
        print(f"failed: {stage} {key}: seeds {', '.join(map(str, seeds[:9]))}")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
