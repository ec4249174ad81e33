"""`python -m conformance`: runs all cases and writes `docs/COVERAGE.md`.

The results of an interrupted run are reused, as long as their dependencies have not changed.
"""

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from conformance import corpus, pool, report, walks
from conformance.evaluate import Result
from conformance.known_gaps import surprise

_ROOT = Path(__file__).parents[1]


def main() -> int:
    """Runs the remaining cases, and writes the page when all cases have run."""
    parser = argparse.ArgumentParser(prog="python -m conformance", description=__doc__)
    parser.add_argument("names", nargs="*", help="run only the groups or modules with these names")
    parser.add_argument("--jobs", type=int, default=2, help="the number of processes")
    parser.add_argument("--results", type=Path, default=_ROOT / "build/coverage.jsonl")
    parser.add_argument("--page", type=Path, default=_ROOT / "docs/COVERAGE.md")
    parser.add_argument(
        "--primitives", action="store_true", help="only update the table of primitives"
    )
    options = parser.parse_args()
    if options.primitives:
        page = options.page.read_text(encoding="utf-8")
        options.page.write_text(report.with_primitives(page), encoding="utf-8")
        return 0

    groups = {name: case.group for name, case in {**corpus.cases(), **walks.calls()}.items()}
    wanted = [n for n, group in groups.items() if not options.names or group in options.names]
    done = _resume(options.results)
    _run([name for name in wanted if name not in done], options.jobs, options.results, done)

    surprises = [text for name in wanted if (text := surprise(name, done[name]))]
    print("\n".join(surprises), file=sys.stderr)
    if not options.names:
        options.page.write_text(report.page({n: done[n] for n in groups}), encoding="utf-8")
    return 1 if surprises else 0


def _run(names: list[str], jobs: int, path: Path, done: dict[str, Result]) -> None:
    start = time.monotonic()
    count = 0

    def keep(name: str, result: Result) -> None:
        nonlocal count
        done[name] = result
        file.write(json.dumps([name, *result]) + "\n")
        file.flush()
        count += 1
        if count % 100 == 0 or count == len(names):
            spent = time.monotonic() - start
            left = spent / count * (len(names) - count)
            print(f"{count} of {len(names)}, {left:.0f} s left", file=sys.stderr, flush=True)

    with path.open("a", encoding="utf-8") as file:
        pool.evaluate_all(names, jobs, keep)


def _resume(path: Path) -> dict[str, Result]:
    """Returns the results that are still valid; if there are none, starts a new results file."""
    key = _measured()
    path.parent.mkdir(parents=True, exist_ok=True)
    lines: list[Any] = []
    if path.exists():
        complete = path.read_text(encoding="utf-8").split("\n")[:-1]
        lines = [json.loads(line) for line in complete]
    if lines[:1] != [key]:
        path.write_text(json.dumps(key) + "\n", encoding="utf-8")
        return {}
    return {name: Result(*result) for name, *result in lines[1:]}


def _measured() -> list[str]:
    """Returns everything that the results depend on."""
    import jax2onnx

    files = [
        *Path(jax2onnx.__file__).parent.rglob("*.py"),
        *Path(jax2onnx.__file__).parent.glob("_core*"),
        *Path(__file__).parent.glob("**/*.py"),
    ]
    code = hashlib.sha256()
    for file in sorted(files):
        code.update(file.read_bytes())
    return [*report.versions(), code.hexdigest()]


if __name__ == "__main__":
    sys.exit(main())
