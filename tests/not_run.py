"""What a test run left out: which cases `--sample` leaves out, and what to say about skips."""

import collections
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

Item = TypeVar("Item")

# A test function with at most this many cases runs all of them.
FEW = 3

# Skips that are right on every machine: other versions of JAX and onnxruntime run these tests.
EXPECTED = (
    r"this version of JAX does not have",
    r"onnxruntime \S+ does not have this bug",
)

# How to get what a test needs, by the reason it was skipped for.
HELP = (
    (r"no browser", "install Chromium (`apt install chromium`, `brew install --cask chromium`)"),
    (r"could not import|is not installed", "`make test-all` installs it"),
)


def sampled(items: Sequence[Item], function_of: Callable[[Item], str]) -> list[bool]:
    """Which cases a sample has: a third of those of each test function, spread evenly."""
    counts = collections.Counter(map(function_of, items))
    seen: collections.Counter[str] = collections.Counter()
    kept = []
    for item in items:
        function = function_of(item)
        kept.append(counts[function] <= FEW or seen[function] % 3 == 0)
        seen[function] += 1
    return kept


def unexpected(reasons: Iterable[str]) -> list[str]:
    """The reasons that are not right on every machine."""
    return [r for r in reasons if not any(re.search(known, r) for known in EXPECTED)]


def summary(reasons: Iterable[str]) -> list[str]:
    """One line for each reason: how many tests it kept from running, and what helps."""
    lines = []
    for reason, count in collections.Counter(unexpected(reasons)).most_common():
        advice = next((text for known, text in HELP if re.search(known, reason)), None)
        tests = "1 test was" if count == 1 else f"{count} tests were"
        lines.append(f"{tests} not run: {reason}" + (f"; {advice}" if advice else ""))
    return lines
