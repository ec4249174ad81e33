"""Finds the node of a graph whose result differs from that of a reference graph."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._checking.compare import difference
from jax2onnx._checking.comparison import Comparison, Finding
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome, Tolerances, computed_in
from jax2onnx._checking.graph import Graph, as_types
from jax2onnx._checking.matching import (
    ABSENT,
    MISNAMED,
    RESHAPED,
    Match,
    comparable,
    keeps_names,
    match,
    same_shape,
    same_types,
)
from jax2onnx._checking.misnamed import Compared, compare_without_names
from jax2onnx._checking.node_bodies import BodyRun, BodyRuns, has_body

if TYPE_CHECKING:
    import onnx

Program = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

# The largest nesting depth of bodies.
_DEEPEST = 16


def kept_operands(
    one: Graph, usable: Mapping[str, Match], fitting: "set[str]"
) -> dict[str, list[str]]:
    """Returns the counterparts of the values that the reference computes each value from."""
    return {
        entry.name: [usable[n].name for n in one.needed([name], fitting)[1] if n in usable]
        for name, entry in usable.items()
    }


class GraphPair:
    """Two graphs whose values are compared: a reference and another one."""

    def __init__(
        self,
        one: Graph,
        other: Graph,
        inputs: Sequence[tuple[str, str]],
        given: Mapping[str, np.ndarray],
        given_other: Mapping[str, np.ndarray],
        tolerances: Tolerances,
        depth: int = 0,
        *,
        by_use: bool = False,
        keep_names: bool | None = None,
    ) -> None:
        missing = {(n.domain, n.op_type) for n in one.nodes if one.function(n)}
        if any(key not in other.functions for key in missing):
            one = one.inlined()
        self.one, self.other = one, other
        self._given, self._given_other = given, given_other
        self._tolerances = tolerances
        self._depth = depth
        self._programs: dict[int, tuple[Graph, Program]] = {}
        self._inputs = inputs
        self._misnamed: set[str] = set()
        self.matches = match(one, other, inputs, by_use=by_use)
        if keep_names is None:
            keep_names = keeps_names(one, other, self.matches)
        self.keeps_names = keep_names
        self._types = one.types(list(one.makers), given)
        counterparts = [entry.name for entry in self.matches.values()]
        self._other_types = other.types(counterparts, given_other)

    def compare(self) -> Comparison:
        """Compares all values."""
        if self.keeps_names:
            compared = self._compared()
        else:
            names = self._misnamed
            compared = compare_without_names(self.one, self.matches, names, self._compared)
        result, cut = compared.comparison, compared.cut
        for outcome in compared.wrong:
            result.findings.append(self._finding(outcome, self._counterparts, self._fitting, cut))
        return result

    def _compared(self) -> Compared:
        result = Comparison()
        self._counterparts = usable = self._usable(result)
        self._fitting = fitting = {
            name for name, entry in usable.items() if self._fits(name, entry)
        }
        cut = CutGraph(
            self.other,
            self._given_other,
            self._other_types,
            {usable[name].name for name in fitting},
            kept_operands(self.one, usable, fitting),
            Counter(entry.name for entry in usable.values()),
            self._tolerances,
            same_types(self.one, self.other, self.matches),
        )
        return Compared(result, result.differing(cut, self._expected(usable)), cut)

    def is_complete(self) -> bool:
        """Returns `True` if the nodes of both graphs correspond, except for their constants."""
        paired = {entry.name for name, entry in self.matches.items() if name in self.one.makers}
        return len(self.one.nodes) == len(self.other.nodes) and paired == set(self.other.makers)

    def _usable(self, result: Comparison) -> dict[str, Match]:
        usable: dict[str, Match] = {}
        for name in self.one.makers:
            entry = self.matches.get(name)
            if entry is None:
                result.skipped[MISNAMED if name in self._misnamed else ABSENT] += 1
                continue
            why = comparable(self._types.get(name), self._other_types.get(entry.name))
            if why is not None:
                result.skipped[why] += 1
            elif self._fits(name, entry) or self._same_operator(name, entry.name):
                usable[name] = entry
            elif entry.by_name and not self.keeps_names:
                result.skipped[MISNAMED] += 1
            else:
                result.skipped[RESHAPED] += 1
        return usable

    def _fits(self, name: str, entry: Match) -> bool:
        return same_shape(self._types[name], self._other_types[entry.name])

    def _same_operator(self, name: str, other: str) -> bool:
        if self.matches[name].by_name and not self.keeps_names:
            return False
        ours, theirs = self.one.makers[name], self.other.makers[other]
        return self.one.nodes[ours].op_type == self.other.nodes[theirs].op_type

    def _expected(self, usable: Mapping[str, Match]) -> Iterator[Expected]:
        for name, array in self.one.values(set(usable), self._given, self._types):
            nodes = [self.one.nodes[node] for node in self.one.needed([name], self._fitting)[0]]
            made = [self._types[n].code for node in nodes for n in node.output if n in self._types]
            precision = computed_in(array.dtype.name, made, nodes)
            yield Expected(usable[name].name, array, name, precision=precision)

    def _finding(
        self, outcome: Outcome, usable: Mapping[str, Match], fitting: "set[str]", cut: CutGraph
    ) -> Finding:
        name = outcome.expected.reference
        nodes = cut.nodes(outcome.expected.name)
        references, _ = self.one.needed([name], fitting)
        return Finding(
            outcome,
            nodes,
            [self.one.nodes[node] for node in references],
            different_constants(
                self.one,
                self.other,
                nodes,
                [self.one.nodes[node] for node in references],
                self._tolerances.reference,
            )
            | self._different_inputs(nodes),
            {n: a for n, a in outcome.operands.items() if any(n in node.input for node in nodes)},
            usable[name].by_name,
            usable[name].by_use,
            keeps_names=self.keeps_names,
        )

    def _different_inputs(self, nodes: "Sequence[onnx.NodeProto]") -> dict[str, str]:
        """Returns descriptions of the constant operands of a call that differ, by name."""
        names = {name for node in nodes for name in node.input}
        formals = set(self.one.inputs), set(self.other.inputs)
        found = {}
        for one, other in self._inputs:
            if one not in formals[0] or other not in formals[1] or other not in names:
                continue
            if one in self._given and other in self._given_other:
                a, b = self._given[one], self._given_other[other]
                if a is not b and (apart := _constant_apart(a, b, self._tolerances.reference)):
                    found[other] = apart
        return found

    def deepest(self, finding: Finding) -> Finding:
        """Descends into the body of the node that differs, if it has one."""
        if len(finding.nodes) > 1:
            finding = self._narrowed(finding)
        if len(finding.nodes) != 1 or len(finding.references) != 1 or self._depth > _DEEPEST:
            return finding
        (node,), (reference,) = finding.nodes, finding.references
        if not (has_body(self.one, reference) and has_body(self.other, node)):
            return finding
        name = finding.outcome.expected.reference
        for current in self._body_runs(finding.outcome.operands, reference, node):
            if not self._differs(current):
                continue
            inner = self._inner(current)
            comparison = inner.compare()
            if comparison.findings:
                found = inner.deepest(comparison.first(finding.others))
                return replace(found, inside=((current.what, name), *found.inside))
        return finding

    def _narrowed(self, finding: Finding) -> Finding:
        """Narrows a finding with several nodes to the first of its values that differs, matched by
        their consumers. If several differ, the matches must pair all nodes.
        """
        outcome = finding.outcome
        stops = {self.matches[name].name for name in self._fitting}
        one = self.one.part(outcome.expected.reference, self._fitting)
        other = self.other.part(outcome.expected.name, stops)
        counterpart = {entry.name: name for name, entry in self.matches.items()}
        right = {counterpart[n]: a for n, a in outcome.operands.items() if n in counterpart}
        given_other = dict(self._given_other) | as_types(outcome.operands, self._other_types)
        given = dict(self._given) | right
        inputs = [(n, self.matches[n].name) for n in one.inputs if n in self.matches]
        inputs += [(n, m) for n, m in self._inputs if n in one.inputs]
        if any(n not in given for n in one.inputs) or any(
            n not in given_other for n in other.inputs
        ):
            return finding
        pair = GraphPair(
            one,
            other,
            inputs,
            given,
            given_other,
            self._tolerances,
            by_use=True,
            keep_names=self.keeps_names,
        )
        comparison = pair.compare()
        count = len(comparison.findings)
        if count == 1 or (count > 1 and pair.is_complete()):
            return comparison.first(finding.others)
        return finding

    def _body_runs(
        self,
        operands: Mapping[str, np.ndarray],
        reference: "onnx.NodeProto",
        node: "onnx.NodeProto",
    ) -> BodyRuns:
        theirs = dict(self._given_other) | as_types(operands, self._other_types)
        counterpart = {entry.name: name for name, entry in self.matches.items()}
        ours = dict(self._given)
        ours |= {counterpart[name]: a for name, a in operands.items() if name in counterpart}
        return BodyRuns((self.one, reference, ours), (self.other, node, theirs))

    def _differs(self, current: BodyRun) -> bool:
        """Returns `True` if the results of a body's run differ."""
        one, other = current.one, current.other
        for graph, given in ((one, current.given), (other, current.given_other)):
            if id(graph) not in self._programs:
                types = graph.types(graph.outputs, given)
                self._programs[id(graph)] = graph, graph.program(graph.outputs, given, types)
        ours = self._programs[id(one)][1](current.given)
        theirs = self._programs[id(other)][1](current.given_other)
        limits = self._tolerances
        return any(
            difference(ours[a], theirs[b], limits.rtol, limits.atol, precision="float32")
            for a, b in zip(one.outputs, other.outputs, strict=False)
        )

    def _inner(self, current: BodyRun) -> "GraphPair":
        formals = list(zip(current.one.inputs, current.other.inputs, strict=False))
        outer = [(n, e.name) for n, e in self.matches.items() if n in current.given]
        inputs = [(n, n) for n in self._given if n in current.given and n in current.given_other]
        return GraphPair(
            current.one,
            current.other,
            [*formals, *outer, *inputs],
            current.given,
            current.given_other,
            self._tolerances,
            self._depth + 1,
            keep_names=self.keeps_names,
        )


def different_constants(
    one: Graph,
    other: Graph,
    nodes: "Sequence[onnx.NodeProto]",
    references: "Sequence[onnx.NodeProto]",
    reference: str,
) -> dict[str, str]:
    """Returns descriptions of the constants that differ, by name. Both nodes and references must
    read them.
    """
    found = {}
    theirs = {name for node in references for name in node.input}
    for name in dict.fromkeys(name for node in nodes for name in node.input):
        if name in theirs and name in one.constants and name in other.constants:
            apart = _constant_apart(one.constant(name), other.constant(name), reference)
            if apart:
                found[name] = apart
    return found


def _constant_apart(one: np.ndarray, other: np.ndarray, reference: str) -> str:
    if one.dtype != other.dtype and one.dtype.kind not in "iub" and other.dtype.kind not in "iub":
        return difference(one, other, precision="bfloat16", reference=reference) or ""
    if one.shape == other.shape and one.dtype == other.dtype:
        same = np.array_equal(one, other) or one.tobytes() == other.tobytes()
        if same:
            return ""
    return difference(one, other, 0.0, 0.0, reference=reference) or ""
