"""Finds values that have the name of another value in the graph that they are compared with.

Two exports of a program with different options number their values differently. A value that is
matched only by such a name may differ although both graphs are right.
"""

from collections.abc import Callable
from dataclasses import dataclass

from jax2onnx._checking.comparison import Comparison
from jax2onnx._checking.cut_graph import CutGraph, Outcome
from jax2onnx._checking.graph import Graph
from jax2onnx._checking.matching import Match

# The comparison after which no name counts. Each one reveals only the next values downstream.
_LAST = 3


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: the values that differ, in order, and the graph that was cut."""

    comparison: Comparison
    wrong: list[Outcome]
    cut: CutGraph


def compare_without_names(
    one: Graph, matches: dict[str, Match], misnamed: set[str], compare: Callable[[], Compared]
) -> Compared:
    """Compares two graphs whose names mean different values, and returns the last comparison.

    Values that differ and match only by name leave `matches` for `misnamed`. If the rest is right,
    they were never the same. If something is still wrong, the first of them that explains it is
    matched again: with the reference's value in its place, the rest is right.
    """
    original, doubtful = dict(matches), dict[str, Outcome]()
    found = _settled(one, matches, misnamed, compare, doubtful)
    culprit = _culprit(found, doubtful) if found.wrong else None
    if culprit is None:
        return found
    misnamed.intersection_update(doubtful)
    misnamed.discard(culprit)
    matches.update((name, entry) for name, entry in original.items() if name not in misnamed)
    return _settled(one, matches, misnamed, compare, {}, culprit)


def _settled(
    one: Graph,
    matches: dict[str, Match],
    misnamed: set[str],
    compare: Callable[[], Compared],
    doubtful: dict[str, Outcome],
    kept: str = "",
) -> Compared:
    """Removes contradicted matches by name, except `kept`. `doubtful` gets those that differ."""
    found = compare()
    for attempt in range(1, _LAST + 1):
        names = _guessed(one, found.cut.graph, matches)
        names.pop(kept, None)
        if attempt < _LAST:
            names = _contradicted(found, names)
        if not found.wrong or not names:
            break
        by_name = {outcome.expected.name: outcome for outcome in reversed(found.wrong)}
        doubtful |= {name: by_name[names[name]] for name in names if names[name] in by_name}
        misnamed.update(names)
        for name in names:
            del matches[name]
        found = compare()
    return found


def _guessed(one: Graph, other: Graph, matches: dict[str, Match]) -> dict[str, str]:
    """Returns the counterparts of the values that match only by name. Outputs match by position."""
    results = set(zip(one.outputs, other.outputs, strict=False))
    return {
        name: entry.name
        for name, entry in matches.items()
        if entry.by_name and name in one.producers and (name, entry.name) not in results
    }


def _contradicted(found: Compared, names: dict[str, str]) -> dict[str, str]:
    """Returns those that differ, or are operands of values that differ and were not compared."""
    targets = {outcome.expected.name for outcome in found.wrong}
    operands = {name for target in targets for name in found.cut.operands(target)}
    doubtful = targets | (operands - found.comparison.agreed)
    return {name: other for name, other in names.items() if other in doubtful}


def _culprit(found: Compared, doubtful: dict[str, Outcome]) -> str | None:
    """Returns the first value that explains the first difference."""
    target = found.wrong[0]
    made = {name for node in found.cut.nodes(target.expected.name) for name in node.output}
    for name, outcome in sorted(doubtful.items(), key=lambda item: item[1].number):
        if outcome.expected.name in made and found.cut.explains(outcome.expected, target):
            return name
    return None
