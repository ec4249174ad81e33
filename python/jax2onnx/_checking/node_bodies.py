"""Runs of the bodies of calls, branches and loops, with the inputs of each run."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._checking.graph import Graph

if TYPE_CHECKING:
    import onnx

Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class BodyRun:
    """A run of the body of a node in two graphs.

    Attributes:
        what: A description of the run.
        one: The body in the reference.
        other: The body in the graph that is compared.
        given: The inputs of the reference's body, by name, with the outer values that it reads.
        given_other: The inputs of the other body.
    """

    what: str
    one: Graph
    other: Graph
    given: dict[str, np.ndarray]
    given_other: dict[str, np.ndarray]


def has_body(graph: Graph, node: "onnx.NodeProto") -> bool:
    return graph.function(node) is not None or any(a.HasField("g") for a in node.attribute)


class BodyRuns:
    """The runs of a node of the reference and of its counterpart in another graph."""

    def __init__(
        self,
        one: tuple[Graph, "onnx.NodeProto", Arrays],
        other: tuple[Graph, "onnx.NodeProto", Arrays],
    ) -> None:
        self._graph, self._node, self._given = one
        self._other, self._other_node, self._given_other = other
        self._bodies: dict[str, tuple[Graph, Graph]] = {}
        self._program: Callable[[Arrays], dict[str, np.ndarray]] | None = None

    def __iter__(self) -> Iterator[BodyRun]:
        node, other = self._node, self._other_node
        if self._graph.function(node) and self._other.function(other):
            yield self._call()
        elif node.op_type != other.op_type:
            return
        elif node.op_type == "If":
            condition = bool(self._operand(0))
            branch = "then_branch" if condition else "else_branch"
            yield self._body_run(f"in the {branch} of", branch, [])
        elif node.op_type == "Loop":
            yield from self._loop()
        elif node.op_type == "Scan":
            yield from self._scan()

    def _call(self) -> BodyRun:
        one, other = self._graph.called(self._node), self._other.called(self._other_node)
        operands = [self._operand(i) for i in range(len(self._node.input))]
        theirs = []
        for i, name in enumerate(self._other_node.input):
            known = name in self._other.constants and name not in self._given_other
            theirs.append(self._other.constant(name) if known else self._given_other.get(name))
            if theirs[i] is None and i < len(operands):
                theirs[i] = operands[i]
        return BodyRun(
            f"in {self._node.name or self._node.op_type}",
            one,
            other,
            _named(one.inputs, operands),
            _named(other.inputs, theirs),
        )

    def _body_run(self, what: str, attribute: str, formals: list[np.ndarray]) -> BodyRun:
        if attribute not in self._bodies:
            one = self._graph.body(self._node, attribute)
            self._bodies[attribute] = one, self._other.body(self._other_node, attribute)
        one, other = self._bodies[attribute]
        return BodyRun(
            f"{what} {self._node.name or self._node.op_type}",
            one,
            other,
            dict(self._given) | _named(one.inputs, formals),
            dict(self._given_other) | _named(other.inputs, formals),
        )

    def _loop(self) -> Iterator[BodyRun]:
        limit = self._operand(0)
        condition = self._operand(1)
        going = True if condition is None else bool(condition)
        count = None if limit is None else int(limit)
        carried: list[Any] = [self._operand(i) for i in range(2, len(self._node.input))]
        number = 0
        while going and (count is None or number < count):
            formals = [np.array(number, np.int64), np.array(going), *carried]
            current = self._body_run(f"in iteration {number} of", "body", formals)
            yield current
            outputs = self._results(current)
            going, carried = bool(outputs[0]), outputs[1 : 1 + len(carried)]
            number += 1

    def _scan(self) -> Iterator[BodyRun]:
        attributes: dict[str, Any] = {a.name: list(a.ints) or a.i for a in self._node.attribute}
        operands: list[Any] = [self._operand(i) for i in range(len(self._node.input))]
        first = len(operands) - int(attributes["num_scan_inputs"])
        state, scanned = operands[:first], operands[first:]
        axes = attributes.get("scan_input_axes") or [0] * len(scanned)
        backwards = attributes.get("scan_input_directions") or [0] * len(scanned)
        length = scanned[0].shape[axes[0]]
        for number in range(length):
            at = [length - 1 - number if reverse else number for reverse in backwards]
            slices = [np.take(a, i, x) for a, i, x in zip(scanned, at, axes, strict=True)]
            current = self._body_run(f"in iteration {number} of", "body", [*state, *slices])
            yield current
            state = self._results(current)[:first]

    def _results(self, current: BodyRun) -> list[np.ndarray]:
        """Returns the results of the reference's body, which is the same in all iterations."""
        body, given = current.one, current.given
        if self._program is None:
            types = body.types(body.outputs, given)
            self._program = body.program(body.outputs, given, types)
        results = self._program(given)
        return [results[name] for name in body.outputs]

    def _operand(self, i: int) -> np.ndarray | None:
        if i >= len(self._node.input) or not (name := self._node.input[i]):
            return None
        if name in self._given:
            return self._given[name]
        return self._graph.constant(name)


def _named(names: list[str], arrays: list[Any]) -> dict[str, np.ndarray]:
    return {n: a for n, a in zip(names, arrays, strict=False) if a is not None}
