"""Hunts for onnxruntime rewrites that change results. Runs random graphs of two or three operators
on hostile numbers, optimised and unoptimised.

    python scripts/hunt_runtime_rewrites.py --seconds 300 --seed 0 [--out findings/]

Each class of difference is reported once: the responsible optimiser, the kind of change (NaN,
infinities, signs of zero, numbers, shapes, a session that cannot be created), and the smallest
graph found, as ONNX text. `crates/optimize/src/legalize/runtime_bugs/` avoids the cases that our
exports can contain; each entry there holds such a graph.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path
from queue import Empty
from typing import Any

import onnxruntime as ort
from optimiser_differences import SILENT, Finding, examine, text_of
from random_graphs import draw

# A worker that is silent for this many seconds hangs.
PATIENCE = 60
SEEDS_A_WORKER = 400


def work(seeds: range, queue: Any) -> None:
    ort.set_default_logger_severity(SILENT)
    for seed in seeds:
        queue.put(("seed", seed))
        found = examine(seed)
        if found is not None:
            queue.put(("found", found))
    queue.put(("done", None))


def hunt(seconds: float, seed: int) -> Iterator[Finding]:
    """Yields findings from a separate process, because onnxruntime may crash."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        queue: Any = multiprocessing.Queue()
        worker = multiprocessing.Process(
            target=work, args=(range(seed, seed + SEEDS_A_WORKER), queue)
        )
        worker.start()
        current, quiet = seed, time.monotonic()
        while True:
            try:
                kind, item = queue.get(timeout=0.5)
            except Empty:
                if worker.is_alive() and time.monotonic() - quiet < PATIENCE:
                    continue
                if worker.is_alive():
                    worker.kill()
                drawn = draw(current)
                if drawn is not None:
                    text, size = text_of(drawn[0]), len(drawn[1].nodes)
                    yield Finding("unknown", "crash", text, size, current)
                break
            quiet = time.monotonic()
            if kind == "done":
                current = seed + SEEDS_A_WORKER - 1
                break
            if kind == "seed":
                current = item
            else:
                yield item
        worker.join()
        seed = current + 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="a folder for the smallest graph of each class")
    args = parser.parse_args()
    best: dict[tuple[str, str], Finding] = {}
    counts: dict[tuple[str, str], int] = {}
    for finding in hunt(args.seconds, args.seed):
        counts[finding.key] = counts.get(finding.key, 0) + 1
        if finding.key not in best or finding.size < best[finding.key].size:
            if finding.key not in best:
                print(f"{finding.optimiser}: {finding.what} (seed {finding.seed})", flush=True)
            best[finding.key] = finding
    for key, finding in sorted(best.items()):
        print(f"\n== {key[0]}: {key[1]}, {counts[key]} times, seed {finding.seed}\n{finding.text}")
        if args.out is not None:
            args.out.mkdir(parents=True, exist_ok=True)
            name = f"{key[0]}-{key[1].split(':')[0]}".replace(" ", "_")
            (args.out / f"{name}.txt").write_text(finding.text + "\n")
    print(f"\nonnxruntime {ort.__version__}: {len(best)} classes, {sum(counts.values())} graphs")


if __name__ == "__main__":
    main()
