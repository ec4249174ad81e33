"""Finds the node of a graph whose result differs from that of a reference graph."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._checking.compare import Tolerances, difference
from jax2onnx._checking.comparison import Comparison, Finding
from jax2onnx._checking.cut_graph import CutGraph, Expected, Outcome, computed_in
from jax2onnx._checking.graph import Graph, as_types
from jax2onnx._checking.matched_graphs import Compared, MatchedGraphs
from jax2onnx._checking.matching import match
from jax2onnx._checking.node_bodies import BodyRun, BodyRuns, has_body

if TYPE_CHECKING:
    import onnx

Program = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]

# The largest nesting depth of bodies.
_DEEPEST = 16


class GraphPair(MatchedGraphs):
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
        matches = match(one, other, inputs, by_use=by_use)
        super().__init__(one, other, matches, given_other, tolerances, keep_names=keep_names)
        self._given = given
        self._depth = depth
        self._programs: dict[int, tuple[Graph, Program]] = {}
        self._inputs = inputs
        self._types = one.types(list(one.producers), given)
        counterparts = [entry.name for entry in self.matches.values()]
        self._other_types = other.types(counterparts, given_other)

    def compare(self) -> Comparison:
        compared = self._settled()
        result = compared.comparison
        result.findings += [self._finding(outcome, compared.cut) for outcome in compared.wrong]
        return result

    def _compared(self) -> Compared:
        reasons = {name: self._why_not(name) for name in self.one.producers}
        result = Comparison(skipped=Counter(filter(None, reasons.values())))
        wanted = [name for name, why in reasons.items() if why is None]
        cut = self._cut(reasons, Counter(self.matches[name].name for name in wanted))
        return Compared(result, result.differing(cut, self._expected(wanted)), cut)

    def is_complete(self) -> bool:
        """Returns `True` if the nodes of both graphs correspond, except for their constants."""
        paired = {entry.name for name, entry in self.matches.items() if name in self.one.producers}
        return len(self.one.nodes) == len(self.other.nodes) and paired == set(self.other.producers)

    def _expected(self, wanted: Sequence[str]) -> Iterator[Expected]:
        for name, array in self.one.values(set(wanted), self._given, self._types):
            nodes = [self.one.nodes[node] for node in self.one.needed([name], self._fitting)[0]]
            made = [self._types[n].code for node in nodes for n in node.output if n in self._types]
            precision = computed_in(array.dtype.name, made, nodes)
            yield Expected(self._usable[name].name, array, name, precision=precision)

    def _finding(self, outcome: Outcome, cut: CutGraph) -> Finding:
        name = outcome.expected.reference
        nodes = cut.nodes(outcome.expected.name)
        references = [self.one.nodes[n] for n in self.one.needed([name], self._fitting)[0]]
        reference = self._tolerances.reference
        constants = different_constants(self.one, self.other, nodes, references, reference)
        return Finding(
            outcome,
            nodes,
            references,
            constants | self._different_inputs(nodes),
            operands_of(nodes, outcome),
            self._usable[name].by_name,
            self._usable[name].by_use,
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
        return any(
            self._tolerances.difference(ours[a], theirs[b], "float32")
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


def operands_of(nodes: "Sequence[onnx.NodeProto]", outcome: Outcome) -> dict[str, np.ndarray]:
    """Returns the operands of an outcome that its nodes read themselves."""
    read = {name for node in nodes for name in node.input}
    return {name: array for name, array in outcome.operands.items() if name in read}


def different_constants(
    one: Graph,
    other: Graph,
    nodes: "Sequence[onnx.NodeProto]",
    references: "Sequence[onnx.NodeProto]",
    reference: str,
) -> dict[str, str]:
    """Describes the constants that differ, by name. Both nodes and references must read them."""
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
