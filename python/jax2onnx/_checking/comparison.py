"""The result of comparing two graphs."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._checking.compare import Error, coarser
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome
from jax2onnx._checking.matching import LEFT, UNFIT

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class Finding:
    """A value that differs although its operands are right.

    Attributes:
        outcome: The difference.
        nodes: The nodes that compute it from values that agree.
        references: The reference's nodes that compute it.
        constants: Descriptions of the constants of these nodes that differ, by name.
        operands: The values that it is computed from, by name.
        by_name: `True` if it was matched by its name alone.
        by_use: `True` if it was matched by the node that reads it.
        inside: The calls, branches and iterations around it, from the outside in, each with the
            name of a value that the enclosing node computes in the reference.
        keeps_names: `True` if equal names mean the same value in both graphs.
        others: The number of other values around it that differ on their own.
    """

    outcome: Outcome
    nodes: "list[onnx.NodeProto]"
    references: "list[onnx.NodeProto]"
    constants: dict[str, str]
    operands: dict[str, np.ndarray]
    by_name: bool
    by_use: bool = False
    inside: tuple[tuple[str, str], ...] = ()
    keeps_names: bool = True
    others: int = 0

    @property
    def culprit(self) -> str:
        """The operator of the only node, or else the name of the value."""
        return self.nodes[0].op_type if len(self.nodes) == 1 else self.outcome.expected.name


@dataclass
class Comparison:
    """The result of comparing two graphs.

    Attributes:
        findings: The values that differ on their own, in the order of the reference.
        compared: The number of values that agree.
        skipped: The numbers of values that were not compared, by reason.
        errors: The error that each value adds, by its name in the reference.
        precision: The coarsest precision that a value is computed in.
        agreed: The names of the values that agree.
    """

    findings: list[Finding] = field(default_factory=list)
    compared: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    errors: dict[str, Error] = field(default_factory=dict)
    precision: str = "float64"
    agreed: set[str] = field(default_factory=set)

    def first(self, others: int = 0) -> Finding:
        """Returns the first value that differs, given the number of those elsewhere."""
        return replace(self.findings[0], others=others + len(self.findings) - 1)

    def differing(self, cut: CutGraph, expected: Iterator[Expected]) -> list[Outcome]:
        """Compares values. Returns those that differ, in the order of the reference."""
        found: list[Outcome] = []
        for outcome in cut.compare(expected):
            self.precision = coarser(self.precision, outcome.precision)
            if outcome.error is not None:
                self.errors[outcome.expected.reference] = outcome.error
            if outcome.apart and outcome.unfit:
                self.skipped[UNFIT] += 1
            elif outcome.apart:
                found.append(outcome)
            else:
                self.compared += 1
                self.agreed.add(outcome.expected.name)
        if cut.left:
            self.skipped[LEFT] += cut.left
        return sorted(found, key=lambda outcome: outcome.number)
