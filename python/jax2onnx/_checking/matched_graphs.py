"""Two graphs whose values are matched.

Two exports of a program with different options number their values differently. A value that is
matched only by such a name may differ although both graphs are right.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from jax2onnx._checking.compare import Tolerances
from jax2onnx._checking.comparison import Comparison
from jax2onnx._checking.cut_graph import CutGraph, Outcome
from jax2onnx._checking.graph import Graph, Type
from jax2onnx._checking.matching import (
    ABSENT,
    MISNAMED,
    RESHAPED,
    Match,
    comparable,
    keeps_names,
    same_shape,
    same_types,
)

# The comparison after which no name counts. Each one reveals only the next values downstream.
_LAST = 3


@dataclass(frozen=True)
class Compared:
    """The result of a comparison: the values that differ, in order, and the graph that was cut."""

    comparison: Comparison
    wrong: list[Outcome]
    cut: CutGraph

    def contradicted(self, names: dict[str, str]) -> dict[str, str]:
        """Returns those that differ, or are uncompared operands of values that differ."""
        targets = {outcome.expected.name for outcome in self.wrong}
        operands = {name for target in targets for name in self.cut.operands(target)}
        doubtful = targets | (operands - self.comparison.agreed)
        return {name: other for name, other in names.items() if other in doubtful}

    def culprit(self, doubtful: dict[str, Outcome]) -> str | None:
        """Returns the first of these values that explains the first difference, if there is one."""
        if not self.wrong:
            return None
        target = self.wrong[0]
        made = {name for node in self.cut.nodes(target.expected.name) for name in node.output}
        for name, outcome in sorted(doubtful.items(), key=lambda item: item[1].number):
            if outcome.expected.name in made and self.cut.explains(outcome.expected, target):
                return name
        return None


class MatchedGraphs:
    """A reference and another graph. Subclasses compare their values.

    Attributes:
        one: The reference.
        other: The graph that is compared.
        matches: The counterparts of the reference's values.
        keeps_names: `True` if equal names mean the same value in both graphs.
    """

    _types: Mapping[str, Type]
    _other_types: Mapping[str, Type]

    def __init__(
        self,
        one: Graph,
        other: Graph,
        matches: dict[str, Match],
        given_other: Mapping[str, np.ndarray],
        tolerances: Tolerances,
        *,
        keep_names: bool | None = None,
    ) -> None:
        self.one, self.other, self.matches = one, other, matches
        self.keeps_names = keeps_names(one, other, matches) if keep_names is None else keep_names
        self._given_other = given_other
        self._tolerances = tolerances
        self._misnamed: set[str] = set()
        # The values with comparable types, and those among them whose shapes are the same.
        self._usable: dict[str, Match] = {}
        self._fitting: set[str] = set()

    def _compared(self) -> Compared:
        """Compares all values with the current matches."""
        raise NotImplementedError

    def _settled(self) -> Compared:
        """Compares all values, several times if names mean different values in the two graphs.

        Then values that differ and match only by name are misnamed. If the rest is right, they were
        never the same. If something is still wrong, the first of them that explains it is matched
        again: with the reference's value in its place, the rest is right.
        """
        if self.keeps_names:
            return self._compared()
        original, doubtful = dict(self.matches), dict[str, Outcome]()
        found = self._without_names(doubtful)
        culprit = found.culprit(doubtful)
        if culprit is None:
            return found
        self._misnamed = self._misnamed & doubtful.keys() - {culprit}
        known = ((name, entry) for name, entry in original.items() if name not in self._misnamed)
        self.matches.update(known)
        return self._without_names({}, culprit)

    def _without_names(self, doubtful: dict[str, Outcome], kept: str = "") -> Compared:
        """Removes contradicted matches by name, except `kept`. Those that differ are doubtful."""
        # Outputs match by position.
        results = set(zip(self.one.outputs, self.other.outputs, strict=False))
        found = self._compared()
        for attempt in range(1, _LAST + 1):
            names = {
                name: entry.name
                for name, entry in self.matches.items()
                if entry.by_name and name in self.one.producers and name != kept
                if (name, entry.name) not in results
            }
            if attempt < _LAST:
                names = found.contradicted(names)
            if not found.wrong or not names:
                break
            by_name = {outcome.expected.name: outcome for outcome in reversed(found.wrong)}
            doubtful |= {name: by_name[names[name]] for name in names if names[name] in by_name}
            self._misnamed.update(names)
            for name in names:
                del self.matches[name]
            found = self._compared()
        return found

    def _select(self, names: Iterable[str]) -> None:
        """Chooses the values with comparable types among those with these names."""
        made = (name for name in names if name in self.one.producers and name in self.matches)
        self._usable = {name: self.matches[name] for name in made if self._wrong_type(name) is None}
        self._fitting = {name for name in self._usable if self._fits(name)}

    def _wrong_type(self, name: str) -> str | None:
        other = self._other_types.get(self.matches[name].name)
        return comparable(self._types.get(name), other)

    def _why_not(self, name: str) -> str | None:
        """Returns the reason that a value of the reference is not compared, or None."""
        entry = self.matches.get(name)
        if entry is None:
            return MISNAMED if name in self._misnamed else ABSENT
        why = self._wrong_type(name)
        if why is not None or self._fits(name) or self._same_operator(name):
            return why
        return MISNAMED if entry.by_name and not self.keeps_names else RESHAPED

    def _fits(self, name: str) -> bool:
        return same_shape(self._types[name], self._other_types[self.matches[name].name])

    def _same_operator(self, name: str) -> bool:
        entry = self.matches[name]
        if entry.by_name and not self.keeps_names:
            return False
        ours, theirs = self.one.producers[name], self.other.producers[entry.name]
        return self.one.nodes[ours].op_type == self.other.nodes[theirs].op_type

    def _cut(self, names: Iterable[str], times: Mapping[str, int]) -> CutGraph:
        """Cuts the other graph at the values that have these names in the reference, as far as they
        can be compared. `times` counts the comparisons of each value.
        """
        self._select(names)
        usable, fitting = self._usable, self._fitting
        # The counterparts of the values that the reference computes each value from.
        kept = {
            entry.name: [usable[n].name for n in self.one.needed([name], fitting)[1] if n in usable]
            for name, entry in usable.items()
        }
        return CutGraph(
            self.other,
            self._given_other,
            self._other_types,
            {usable[name].name for name in fitting},
            kept,
            times,
            self._tolerances,
            same_types(self.one, self.other, self.matches),
        )
