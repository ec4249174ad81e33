"""Finds the bodies of branches and loops that a run of a model does not enter.

Every body sets a flag, which the nodes around it return. So one run of the model answers for all
bodies, however deeply they are nested and however often a loop runs.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jax2onnx._checking.graph import Graph
from jax2onnx._checking.source_lines import SourceLines

if TYPE_CHECKING:
    import onnx

# The number of bodies that get a reason of their own.
_LISTED = 8


@dataclass(frozen=True)
class _Body:
    """A body: its node and attribute, its nodes, and the body around it."""

    node: "onnx.NodeProto"
    attribute: str
    nodes: "Sequence[onnx.NodeProto]"
    outer: int | None


def not_run(
    graph: Graph, given: Mapping[str, np.ndarray], source_lines: SourceLines
) -> Counter[str]:
    """Counts the values in bodies that do not run for the given inputs, by reason."""
    marking = _Marking()
    nodes, flags = marking.marked(graph.inlined(), None)
    if not flags:
        return Counter()
    names = list(flags.values())
    results = replace(graph, nodes=nodes).run(names, given, {})
    idle = {body for body, name in flags.items() if not results[name]}
    found: Counter[str] = Counter()
    for body in sorted(idle):
        about = marking.bodies[body]
        if about.outer not in idle and (count := _values(about.nodes)):
            found[_reason(about, source_lines)] += count
    if len(found) > _LISTED:
        return Counter({"is in a branch or a loop that did not run": found.total()})
    return found


def _reason(body: _Body, source_lines: SourceLines) -> str:
    node = body.node
    known = (source_lines.lines(name) for name in (node.name, *node.output) if name)
    lines = next(filter(None, known), [])
    at = f" ({lines[0]})" if lines and lines[0].file else ""
    return f"is in the {body.attribute} of {node.name or node.op_type}{at}, which did not run"


def _values(nodes: "Sequence[onnx.NodeProto]") -> int:
    inner = (a.g.node for node in nodes for a in node.attribute if a.HasField("g"))
    return sum(bool(name) for node in nodes for name in node.output) + sum(map(_values, inner))


class _Marking:
    """Adds flags to nodes with bodies."""

    def __init__(self) -> None:
        self.bodies: list[_Body] = []
        self._names = 0

    def marked(
        self, graph: Graph, outer: int | None
    ) -> "tuple[list[onnx.NodeProto], dict[int, str]]":
        """Returns the nodes of a graph with flags, and the names of the flags by body."""
        nodes: list[onnx.NodeProto] = []
        flags: dict[int, str] = {}
        for node in graph.nodes:
            if node.op_type in ("If", "Loop", "Scan") and not node.domain:
                before, copy, names = self._node(graph, node, outer)
                nodes += [*before, copy]
                flags |= names
            else:
                nodes.append(node)
        return nodes, flags

    def _node(
        self, graph: Graph, node: "onnx.NodeProto", outer: int | None
    ) -> "tuple[list[onnx.NodeProto], onnx.NodeProto, dict[int, str]]":
        copy = deepcopy(node)
        inside: dict[str, dict[int, str]] = {}
        for attribute in (a for a in copy.attribute if a.HasField("g")):
            body = graph.body(node, attribute.name).inlined()
            number = len(self.bodies)
            self.bodies.append(_Body(node, attribute.name, body.nodes, outer))
            nodes, flags = self.marked(body, number)
            entered = self._constant(value=True)
            inside[attribute.name] = {number: entered.output[0]} | flags
            del attribute.g.node[:]
            attribute.g.node.extend([*nodes, entered])
        names = {body: self._fresh() for flags in inside.values() for body in flags}
        bodies = [(a.g, inside[a.name]) for a in copy.attribute if a.HasField("g")]
        if node.op_type == "If":
            for graph_proto, flags in bodies:
                for number in names:
                    if number not in flags:
                        absent = self._constant(value=False)
                        graph_proto.node.append(absent)
                        flags[number] = absent.output[0]
                    graph_proto.output.append(_flag(flags[number]))
            copy.output.extend(names.values())
            return [], copy, names
        return self._carried(copy, bodies[0], names), copy, names

    def _carried(
        self,
        node: "onnx.NodeProto",
        body: "tuple[onnx.GraphProto, dict[int, str]]",
        names: Mapping[int, str],
    ) -> "list[onnx.NodeProto]":
        """Adds the flags to the state of a loop. Returns the nodes that compute the first ones."""
        import onnx

        graph, flags = body
        if node.op_type == "Loop":
            state = len(node.input) - 2
            at_operand, at_formal, at_result = len(node.input), len(graph.input), state + 1
        else:
            (scanned,) = (a.i for a in node.attribute if a.name == "num_scan_inputs")
            state = len(node.input) - scanned
            at_operand = at_formal = at_result = state
        before = [self._constant(value=False) for _ in names]
        formals, results = [self._fresh() for _ in names], [self._fresh() for _ in names]
        for formal, result, number in zip(formals, results, names, strict=True):
            graph.node.append(onnx.helper.make_node("Or", [formal, flags[number]], [result]))
        operands, outputs = list(node.input), list(node.output)
        outputs += [""] * (state - len(outputs))
        operands[at_operand:at_operand] = [constant.output[0] for constant in before]
        outputs[state:state] = names.values()
        node.input[:], node.output[:] = operands, outputs
        given, returned = list(graph.input), list(graph.output)
        given[at_formal:at_formal] = map(_flag, formals)
        returned[at_result:at_result] = map(_flag, results)
        del graph.input[:], graph.output[:]
        graph.input.extend(given)
        graph.output.extend(returned)
        return before

    def _constant(self, *, value: bool) -> "onnx.NodeProto":
        import onnx

        tensor = onnx.numpy_helper.from_array(np.array(value))
        return onnx.helper.make_node("Constant", [], [self._fresh()], value=tensor)

    def _fresh(self) -> str:
        self._names += 1
        return f"entered {self._names}"


def _flag(name: str) -> "onnx.ValueInfoProto":
    import onnx

    return onnx.helper.make_tensor_value_info(name, onnx.TensorProto.BOOL, [])
