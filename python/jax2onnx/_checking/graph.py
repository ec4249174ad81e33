"""Graphs that can run on their own: the main graph of a model, and the bodies of its nodes."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._checking.compare import within
from jax2onnx._checking.runtime import NODE_TYPES, Runnable, fetched, numpy_type, session_of

if TYPE_CHECKING:
    import onnx

# The number of bytes of values that are held at a time.
BATCH = 1 << 28

# The number of nodes in the first batch, before the sizes of results are known.
_NODES = 256

# The prefix of a computed value's name in a model that is also given the value.
_MADE = "computed "


@dataclass(frozen=True)
class Type:
    """The type of a value: ONNX's code of the element type, and the static sizes."""

    code: int
    dims: tuple[int | None, ...] | None

    @property
    def dtype(self) -> np.dtype[Any]:
        return numpy_type(self.code)


@dataclass
class Graph:
    """Nodes with the constants, functions and operator versions that they need to run.

    Attributes:
        nodes: In the order of execution.
        inputs: The names of its inputs. Bodies may also read outer values.
        outputs: The names of its results.
        constants: The initializers in scope.
        opsets: The versions of the operators, by domain.
        functions: The functions of the model, by domain and name.
        folder: The folder of external weights.
        ir_version: The version of the file format.
        producers: The index of the node that computes each value.
    """

    nodes: "list[onnx.NodeProto]"
    inputs: list[str]
    outputs: list[str]
    constants: "dict[str, onnx.TensorProto]"
    opsets: dict[str, int]
    functions: "dict[tuple[str, str], onnx.FunctionProto]"
    folder: str | None
    ir_version: int
    producers: dict[str, int] = field(init=False)
    _reads: list[list[str]] = field(init=False)

    def __post_init__(self) -> None:
        self.producers = {name: i for i, n in enumerate(self.nodes) for name in n.output if name}
        self._reads = [list(dict.fromkeys(_reads(node))) for node in self.nodes]

    @classmethod
    def of(cls, runnable: Runnable) -> "Graph":
        """Returns the main graph of a model."""
        proto = runnable.proto
        fed = [value.name for value in runnable.inputs]
        return cls(
            nodes=list(proto.graph.node),
            inputs=fed,
            outputs=[value.name for value in runnable.outputs],
            constants={t.name: t for t in proto.graph.initializer if t.name not in fed},
            opsets={entry.domain: entry.version for entry in proto.opset_import},
            functions={(f.domain, f.name): f for f in proto.functions},
            folder=runnable.folder,
            ir_version=proto.ir_version,
        )

    def reads(self, node: int) -> list[str]:
        """Returns the values that a node reads, including those that its bodies read."""
        return self._reads[node]

    def needed(self, targets: Iterable[str], stops: "set[str]") -> tuple[list[int], list[str]]:
        """Returns the nodes that compute `targets` from `stops`, inputs and constants, in order,
        and the stops and inputs that they read.
        """
        nodes: set[int] = set()
        given: dict[str, None] = {}
        todo = []
        for name in targets:
            if (maker := self.producers.get(name)) is not None:
                todo.append(maker)
            elif name not in self.constants:
                given[name] = None
        while todo:
            node = todo.pop()
            if node in nodes:
                continue
            nodes.add(node)
            for name in self.reads(node):
                if name not in stops and name in self.producers:
                    todo.append(self.producers[name])
                elif name in stops or name not in self.constants:
                    given[name] = None
        return sorted(nodes), list(given)

    def run(
        self,
        targets: Sequence[str],
        given: Mapping[str, np.ndarray],
        types: Mapping[str, Type],
        stops: "set[str] | None" = None,
    ) -> dict[str, np.ndarray]:
        """Computes `targets` from the given arrays, without optimisations.

        Nodes that read a value in `stops` read the given array instead of the computed one.
        """
        return self.program(targets, given, types, stops, sized=True)(given)

    def program(
        self,
        targets: Sequence[str],
        given: Mapping[str, np.ndarray],
        types: Mapping[str, Type],
        stops: "set[str] | None" = None,
        *,
        sized: bool = False,
    ) -> "Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]":
        """Returns a function that runs the graph on arrays of the same types as `given`. With
        `sized`, they have the same shapes, too.
        """
        stops = stops or set()
        targets = list(dict.fromkeys(targets))
        nodes, names = self.needed(targets, stops)

        def feeds(given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
            return {name: _as_type(given[name], types.get(name)) for name in names}

        model, restored = self._model(nodes, targets, feeds(given), stops, types, sized=sized)
        session = session_of(model, self.folder)
        return lambda given: dict(
            zip(targets, fetched(session, feeds(given), restored), strict=True)
        )

    def values(
        self, wanted: "set[str]", given: Mapping[str, np.ndarray], types: Mapping[str, Type]
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yields the values `wanted` in the order of execution, computed in batches."""
        last = {name: i for i in range(len(self.nodes)) for name in self.reads(i)}
        live = dict(given)
        whole = any(name not in types for name in self.producers)
        start, count = 0, len(self.nodes) if whole else _NODES
        while start < len(self.nodes):
            end = min(start + count, len(self.nodes))
            made = [name for node in self.nodes[start:end] for name in node.output if name]
            kept = [n for n in made if n in wanted or last.get(n, -1) >= end]
            # Nodes before this batch have run, so their results are given.
            stops = {name for name in live if self.producers.get(name, end) < start}
            results = self.run(kept, live, types, stops) if kept else {}
            yield from ((name, results[name]) for name in kept if name in wanted)
            live = {n: a for n, a in (live | results).items() if last.get(n, -1) >= end}
            size = sum(array.nbytes for array in results.values())
            start, count = end, max(1, min(4 * count, int(count * BATCH / max(size, 1))))

    def types(self, names: Sequence[str], given: Mapping[str, np.ndarray]) -> dict[str, Type]:
        """Returns the types that onnxruntime infers for tensors, without running the graph."""
        names = [name for name in dict.fromkeys(names) if name in self.producers]
        found = {name: Type(_code(array.dtype), array.shape) for name, array in given.items()}
        if not names:
            return found
        nodes, read = self.needed(names, set())
        feeds = {name: given[name] for name in read}
        model, _ = self._model(nodes, names, feeds, set(), {}, sized=True)
        outputs = session_of(model, self.folder).get_outputs()
        for name, output in zip(names, outputs, strict=True):
            if (code := NODE_TYPES.get(output.type)) is not None:
                sizes = tuple(size if isinstance(size, int) else None for size in output.shape)
                # onnxruntime has the same shape for a scalar and for an unknown rank.
                found[name] = Type(code, sizes or None)
        return found

    def _model(
        self,
        nodes: Sequence[int],
        targets: Sequence[str],
        feeds: Mapping[str, np.ndarray],
        stops: "set[str]",
        types: Mapping[str, Type],
        *,
        sized: bool,
    ) -> "tuple[onnx.ModelProto, list[np.dtype[Any] | None]]":
        import onnx

        model = onnx.ModelProto(ir_version=self.ir_version)
        graph = model.graph
        graph.name = "part"
        for name, array in feeds.items():
            value = graph.input.add(name=name)
            value.type.tensor_type.elem_type = _code(array.dtype)
            for size in array.shape:
                dim = value.type.tensor_type.shape.dim.add()
                # Inference of some operators fails for unknown sizes.
                if sized:
                    dim.dim_value = size
            value.type.tensor_type.shape.SetInParent()
        read = {name for node in nodes for name in self.reads(node)} | set(targets)
        graph.initializer.extend(
            self.constants[name] for name in sorted(read) if name in self.constants
        )
        made: dict[str, str] = {}
        for index in nodes:
            node = graph.node.add()
            node.CopyFrom(self.nodes[index])
            for i, name in enumerate(node.output):
                made[name] = name
                if name in stops:
                    node.output[i] = made[name] = _MADE + name
        restored: list[np.dtype[Any] | None] = []
        for i, name in enumerate(targets):
            known = types.get(name)
            foreign = None if known is None or known.dtype.isbuiltin == 1 else known.dtype
            if foreign is not None:
                to = onnx.helper.make_node("Cast", [made.get(name, name)], [f"as_float_{i}"], to=1)
                graph.node.append(to)
                graph.output.add(name=f"as_float_{i}").type.tensor_type.elem_type = 1
            elif name not in made:
                # Neither an input nor a constant can be returned directly.
                graph.node.add(op_type="Identity", input=[name], output=[f"as_it_is_{i}"])
                graph.output.add(name=f"as_it_is_{i}")
            else:
                graph.output.add(name=made[name])
            restored.append(foreign)
        model.functions.extend(self.functions.values())
        opsets = {domain: 1 for domain, _ in self.functions} | self.opsets
        for domain, version in opsets.items():
            model.opset_import.add(domain=domain, version=version)
        return model, restored

    def part(self, target: str, stops: "set[str]") -> "Graph":
        """Returns the subgraph that computes one value from `stops`."""
        nodes, given = self.needed([target], stops)
        return replace(
            self, nodes=[self.nodes[node] for node in nodes], inputs=given, outputs=[target]
        )

    def constant(self, name: str) -> np.ndarray:
        import onnx

        return onnx.numpy_helper.to_array(self.constants[name], self.folder or "")

    def function(self, node: "onnx.NodeProto") -> "onnx.FunctionProto | None":
        return self.functions.get((node.domain, node.op_type))

    def body(self, node: "onnx.NodeProto", attribute: str) -> "Graph":
        """Returns a graph inside a node. It may read the values in the node's scope."""
        (inner,) = (entry.g for entry in node.attribute if entry.name == attribute)
        return replace(
            self,
            nodes=list(inner.node),
            inputs=[value.name for value in inner.input],
            outputs=[value.name for value in inner.output],
            constants=self.constants | {tensor.name: tensor for tensor in inner.initializer},
        )

    def called(self, node: "onnx.NodeProto") -> "Graph":
        """Returns the body of the function that a node calls."""
        function = self.functions[node.domain, node.op_type]
        given = {entry.name: entry for entry in node.attribute}
        given = {entry.name: entry for entry in function.attribute_proto} | given
        return replace(
            self,
            nodes=[_bound(inner, given) for inner in function.node],
            inputs=list(function.input),
            outputs=list(function.output),
            constants={},
            opsets={entry.domain: entry.version for entry in function.opset_import},
        )

    def inlined(self) -> "Graph":
        """Inlines calls of functions. Values of a body are named after the call, or after its first
        result if it has no name: `/blocks.0/Block:/Block/Add_output_0`. Calls in branches and loops
        stay.
        """
        nodes: list[onnx.NodeProto] = []
        for node in self.nodes:
            nodes.extend(self._inlined(node))
        return replace(self, nodes=nodes)

    def _inlined(self, call: "onnx.NodeProto") -> "Iterator[onnx.NodeProto]":
        import onnx

        if self.function(call) is None:
            yield call
            return
        body = self.called(call).inlined()
        names = dict(zip(body.inputs, call.input, strict=False))
        names |= dict.fromkeys(body.inputs[len(call.input) :], "")
        outer = dict(zip(body.outputs, call.output, strict=False))
        # A body may return one of its inputs, or a value twice.
        names |= {name: new for name, new in outer.items() if name in body.producers and new}
        for node in body.nodes:
            copy = deepcopy(node)
            _rename(copy, names, f"{call.name or call.output[0]}:")
            yield copy
        for name, new in zip(body.outputs, call.output, strict=False):
            if new and names.get(name) != new:
                yield onnx.helper.make_node("Identity", [names[name]], [new])


def _rename(node: "onnx.NodeProto", names: dict[str, str], prefix: str) -> None:
    node.name = prefix + node.name
    for i, name in enumerate(node.input):
        node.input[i] = names.get(name, name)
    for i, name in enumerate(node.output):
        if name:
            node.output[i] = names.setdefault(name, prefix + name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                _rename(inner, names, prefix)
            for output in graph.output:
                output.name = names.get(output.name, output.name)


def _bound(node: "onnx.NodeProto", given: "dict[str, onnx.AttributeProto]") -> "onnx.NodeProto":
    """Replaces references to attributes of the call in a function's node."""
    if not any(entry.ref_attr_name for entry in node.attribute):
        return node
    copy = deepcopy(node)
    del copy.attribute[:]
    for entry in node.attribute:
        if not entry.ref_attr_name:
            copy.attribute.append(entry)
        elif entry.ref_attr_name in given:
            copy.attribute.append(given[entry.ref_attr_name])
            copy.attribute[-1].name = entry.name
    return copy


def _reads(node: "onnx.NodeProto") -> Iterator[str]:
    yield from (name for name in node.input if name)
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            own = {value.name for value in graph.input} | {t.name for t in graph.initializer}
            for inner in graph.node:
                yield from (name for name in _reads(inner) if name not in own)
                own.update(inner.output)
            yield from (value.name for value in graph.output if value.name not in own)


def as_types(arrays: Mapping[str, np.ndarray], types: Mapping[str, Type]) -> dict[str, np.ndarray]:
    """Converts arrays to the element types of a graph."""
    return {name: _as_type(array, types.get(name)) for name, array in arrays.items()}


def _as_type(array: np.ndarray, known: Type | None) -> np.ndarray:
    if known is None or array.dtype == known.dtype:
        return array
    return within(array, known.dtype).astype(known.dtype)


def _code(dtype: np.dtype[Any]) -> int:
    import onnx

    return int(onnx.helper.np_dtype_to_tensor_dtype(dtype))
