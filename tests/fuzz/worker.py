"""Checks some programs. Records its progress in a file, and saves failures in a folder."""

import argparse
import json
import re
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

from fuzz.check import DRAW, Failure, Seen, check
from fuzz.generate import program
from fuzz.shrink import shrunk


class Worker:
    """The programs of one process, and their outcomes."""

    def __init__(self, state: Path, folder: Path, *, half: bool = False) -> None:
        self._state = state
        self._folder = folder
        self._half = half
        self._seed = 0
        self._seen = Seen(enter=self._note)
        self._failures: Counter[str] = Counter()

    def run(self, seed: int) -> None:
        """Checks the program of a seed."""
        self._seed = seed
        self._note(DRAW)
        refused: Counter[str] = Counter()
        try:
            drawn = program(seed, refused, half=self._half)
        except Exception:
            self._keep("draw", f"# seed {seed}\n{traceback.format_exc()}")
            return
        finally:
            for reason, count in refused.items():
                self._seen.passed_over[f"JAX refuses {reason}"] += count
        failure = check(drawn, self._seen)
        if failure is not None:
            self._keep(f"{failure.stage} {failure.key}", failure)
        self._note(DRAW)

    def _keep(self, kind: str, failure: Failure | str) -> None:
        """Reduces a failure and writes it to a file, unless there is one of its kind."""
        name = re.sub(r"\W+", "-", kind).strip("-")[:80] + ".py"
        self._failures[name] += 1
        file = self._folder / name
        if not file.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            file.write_text(failure if isinstance(failure, str) else self._small(failure))

    def _small(self, failure: Failure) -> str:
        return f"# seed {self._seed}\n{shrunk(failure)}"

    def _note(self, stage: str) -> None:
        seen = self._seen
        counts = {"programs": seen.programs, "operations": sum(seen.operations.values())}
        counts |= {f"not supported: {reason}": n for reason, n in seen.unsupported.items()}
        state = {"seed": self._seed, "stage": stage, "seen": counts}
        state |= {"passed over": seen.passed_over, "failures": self._failures}
        self._state.write_text(json.dumps(state))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("state", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("seed", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("--half", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")

    worker = Worker(args.state, args.folder, half=args.half)
    end = time.monotonic() + args.seconds
    for seed in range(args.seed, args.seed + args.count):
        if time.monotonic() > end:
            break
        worker.run(seed)


if __name__ == "__main__":
    main()
