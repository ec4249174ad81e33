"""Tests that a run omits: the selection of `--sample`, and the report on skips."""

import collections
import math
import re
from collections.abc import Callable, Container, Hashable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# Skips that are expected on every machine: these tests need other versions of JAX, onnxruntime or
# the browser, another system, an accelerator, or what other languages need.
EXPECTED = (
    r"this version of JAX does not have",
    r"newer than this JAX",
    r"the XLA of this JAX",
    r"onnxruntime (\S+ )?does not have this bug",
    r"JAX has no accelerator on this machine",
    r"the browser has no WebGPU, not even in software",
    r"the program is a shell script",
    r"Windows does not have",
    r"serving needs",
)

# Requirements that a machine may lack: the name in JAX2ONNX_WITHOUT, the reason of the skip, and
# how to install it.
NEEDS = (
    (
        "browser",
        r"no browser",
        "install Chromium (`apt install chromium`, `brew install chromium`)",
    ),
    ("npm", r"node is not on PATH", "install Node and npm, then run `make web`"),
    ("npm", r"onnxruntime-web is not here", "run `make web`, or set ONNXRUNTIME_WEB to its folder"),
    ("npm", r"axe-core is not here", "run `make web`, or set AXE_CORE to its axe.min.js"),
    ("rten", r"rten is not in build/runtimes", "run `make rten`"),
    ("runtimes", r"\S+ is not in build/runtimes", "run `make runtimes`"),
    ("serving", r"not in build/serving", "run `make serving`"),
    ("cuda", r"onnxruntime-gpu is not in build/cuda", "run `make cuda`"),
    ("packages", r"Keras runs on \S+, not on JAX", "set KERAS_BACKEND=jax"),
    ("packages", r"could not import|is not installed", "`make test` installs it"),
)


def sampled(items: Sequence[Item], path_of: Callable[[Item], tuple[str, str]]) -> list[Item]:
    """Returns a sample of the items: the square root of n for n cases of a function, and twice the
    square root of n for n such cases in a file. `path_of` returns the file and the function.
    """
    cases = _thinned(items, path_of, math.isqrt)
    return _thinned(cases, lambda item: path_of(item)[0], lambda n: min(n, math.isqrt(4 * n)))


def _thinned(
    items: Sequence[Item], group_of: Callable[[Item], Hashable], wanted: Callable[[int], int]
) -> list[Item]:
    """Keeps `wanted(n)` of each group of n items, spread evenly."""
    counts = collections.Counter(map(group_of, items))
    seen: collections.Counter[Hashable] = collections.Counter()
    kept = []
    for item in items:
        group = group_of(item)
        count, number = counts[group], seen[group]
        # Keeps the first item of each of `wanted(count)` equal parts.
        if number * wanted(count) // count != (number - 1) * wanted(count) // count:
            kept.append(item)
        seen[group] += 1
    return kept


def unexpected(reasons: Iterable[str]) -> list[str]:
    """Returns the reasons that are not expected on every machine."""
    return [r for r in reasons if not any(re.search(known, r) for known in EXPECTED)]


def avoidable(reasons: Iterable[str], without: Container[str]) -> list[str]:
    """Returns the reasons that are not expected on a machine which lacks `without`."""
    lacking = [known for need, known, _ in NEEDS if need in without]
    return [r for r in unexpected(reasons) if not any(re.search(known, r) for known in lacking)]


def summary(reasons: Iterable[str]) -> list[str]:
    """Returns one line per reason: the number of skipped tests, and the remedy."""
    lines = []
    for reason, count in collections.Counter(unexpected(reasons)).most_common():
        advice = next((text for _, known, text in NEEDS if re.search(known, reason)), None)
        tests = "1 test was" if count == 1 else f"{count} tests were"
        lines.append(f"{tests} not run: {reason}" + (f"; {advice}" if advice else ""))
    return lines
