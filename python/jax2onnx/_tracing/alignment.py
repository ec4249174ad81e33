"""Aligns two sequences: a longest common subsequence, found by Myers' greedy algorithm.

It takes time in proportion to the length times the number of differences, which are few between
two traces of one function.
"""

from collections.abc import Hashable, Sequence
from typing import Any

# Sequences that differ in more places than this are left apart from where that shows.
_DIFFERENCES = 3_000

# The path before, and a run of equal entries: where it starts in each sequence, and its length.
_Path = tuple[Any, int, int, int]


def aligned(one: Sequence[Any], other: Sequence[Any]) -> list[tuple[int, int]]:
    """The positions of entries that are equal, ascending in both sequences."""
    numbers: dict[Hashable, int] = {}
    a = [numbers.setdefault(entry, len(numbers)) for entry in one]
    b = [numbers.setdefault(entry, len(numbers)) for entry in other]
    start = 0
    while start < min(len(a), len(b)) and a[start] == b[start]:
        start += 1
    end = 0
    while end < min(len(a), len(b)) - start and a[-1 - end] == b[-1 - end]:
        end += 1
    middle = _middle(a[start : len(a) - end], b[start : len(b) - end])
    return [
        *((i, i) for i in range(start)),
        *((i + start, j + start) for i, j in middle),
        *((len(a) - i, len(b) - i) for i in range(end, 0, -1)),
    ]


def _middle(a: list[int], b: list[int]) -> list[tuple[int, int]]:
    """As `aligned`. The frontier holds how far each diagonal was followed, and the path there."""
    frontier: dict[int, tuple[int, _Path | None]] = {1: (0, None)}
    for differences in range(min(len(a) + len(b), _DIFFERENCES) + 1):
        for diagonal in range(-differences, differences + 1, 2):
            down = frontier.get(diagonal + 1, (-1, None))
            right = frontier.get(diagonal - 1, (-1, None))
            x, path = down if down[0] > right[0] else (right[0] + 1, right[1])
            y = x - diagonal
            if x > len(a) or y > len(b) or x < 0 or y < 0:
                continue
            first = x
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            if x > first:
                path = (path, first, first - diagonal, x - first)
            frontier[diagonal] = x, path
            if x == len(a) and y == len(b):
                return _pairs(path)
    furthest = max(frontier.items(), key=lambda entry: 2 * entry[1][0] - entry[0])
    return _pairs(furthest[1][1])


def _pairs(path: Any) -> list[tuple[int, int]]:
    runs = []
    while path is not None:
        path, i, j, count = path
        runs.append((i, j, count))
    return [(i + k, j + k) for i, j, count in reversed(runs) for k in range(count)]
