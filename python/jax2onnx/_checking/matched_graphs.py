"""Two graphs whose values are matched."""

from collections.abc import Iterable, Mapping

import numpy as np

from jax2onnx._checking.compare import Tolerances
from jax2onnx._checking.cut_graph import CutGraph
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
from jax2onnx._checking.misnamed import Compared, compare_without_names


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
        """Compares all values. Matches by name count only as far as they are right."""
        if self.keeps_names:
            return self._compared()
        return compare_without_names(self.one, self.matches, self._misnamed, self._compared)

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
