"""A model's graph as `jax2onnx.testing` sees it: all nodes, and the readers of their results."""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import onnx

Dims = tuple[int | str | None, ...]

# Tensors with more elements are shown without their values.
SHOWN = 8


@dataclass(frozen=True)
class Value:
    """A result: its name, and its element type and shape if the model has them."""

    name: str
    dtype: str | None = None
    dims: Dims | None = None

    def __str__(self) -> str:
        """The text in a golden file: `y: float32[B, 4]`."""
        if self.dtype is None:
            return self.name
        dims = "" if self.dims is None else f"[{', '.join(map(_dim, self.dims))}]"
        return f"{self.name}: {self.dtype}{dims}"


@dataclass(eq=False)
class Node:
    """A node, and the nodes that read its results."""

    op: str
    name: str
    inputs: list[str]
    outputs: list[Value]
    attributes: dict[str, Any]
    bodies: dict[str, "Body"]
    metadata: dict[str, str]
    readers: list[tuple[Value, "Node"]] = field(default_factory=list)

    def lines(self, indent: str = "", *, metadata: bool = True) -> Iterator[str]:
        """The node as text, with its metadata and the graphs inside it."""
        shown = [f"{key}={value!r}" for key, value in sorted(self.attributes.items())]
        arguments = ", ".join([*self.inputs, *shown])
        yield f"{indent}{', '.join(map(str, self.outputs))} = {self.op}({arguments})"
        if metadata:
            for key, value in self.metadata.items():
                first, *rest = value.split("\n")
                yield f"{indent}    {key} = {first}"
                yield from (f"{indent}        {line}" for line in rest)
        for name, body in self.bodies.items():
            yield f"{indent}  {name}:"
            yield from body.lines(f"{indent}    ", metadata=metadata)


@dataclass(eq=False)
class Body:
    """The main graph, a graph inside a node, or a function."""

    inputs: list[Value]
    outputs: list[Value]
    constants: dict[str, str]
    nodes: list[Node] = field(default_factory=list)

    def lines(self, indent: str = "", *, metadata: bool = True) -> Iterator[str]:
        """The graph as text."""
        yield from (f"{indent}input {value}" for value in self.inputs)
        yield from (f"{indent}constant {name}: {text}" for name, text in self.constants.items())
        for node in self.nodes:
            yield from node.lines(indent, metadata=metadata)
        yield from (f"{indent}output {value}" for value in self.outputs)

    def all_bodies(self) -> Iterator["Body"]:
        """This graph and those inside its nodes."""
        yield self
        for node in self.nodes:
            for body in node.bodies.values():
                yield from body.all_bodies()


@dataclass
class View:
    """A whole model."""

    main: Body
    functions: dict[str, Body]
    header: list[str]

    def bodies(self) -> Iterator[Body]:
        """All graphs and functions."""
        for body in (self.main, *self.functions.values()):
            yield from body.all_bodies()

    def nodes(self) -> Iterator[Node]:
        """All nodes."""
        for body in self.bodies():
            yield from body.nodes

    def text(self, *, metadata: bool = True) -> str:
        """The model as text, one line for each thing in it."""
        lines = [*self.header, *self.main.lines(metadata=metadata)]
        for name, body in self.functions.items():
            lines += ["", f"function {name}", *body.lines("  ", metadata=metadata)]
        return "\n".join(lines) + "\n"


def view(model: Any) -> View:
    """The view of a model file, an `onnx.ModelProto` or an `onnx_ir.Model`."""
    proto = _proto(model)
    opsets = {entry.domain or "ai.onnx": entry.version for entry in proto.opset_import}
    header = [f"opset {domain} {version}" for domain, version in sorted(opsets.items())]
    functions = {}
    for function in proto.functions:
        values = {info.name: _value(info) for info in function.value_info}
        inputs, outputs = (
            [values.get(name, Value(name)) for name in names]
            for names in (function.input, function.output)
        )
        body = Body(inputs, outputs, {})
        _fill(body, function.node, values, {})
        functions[_qualified(function.domain, function.name)] = body
    return View(_graph(proto.graph, {}), functions, header)


def _proto(model: Any) -> "onnx.ModelProto":
    import onnx

    if isinstance(model, (str, os.PathLike)):
        model = onnx.load(os.fspath(model), load_external_data=False)
    elif not isinstance(model, onnx.ModelProto):
        import onnx_ir

        model = onnx_ir.to_proto(model)
    assert isinstance(model, onnx.ModelProto)
    return model


Scope = Mapping[str, tuple[Node, Value]]


def _graph(graph: "onnx.GraphProto", outer: Scope) -> Body:
    infos = [*graph.input, *graph.output, *graph.value_info]
    values = {info.name: _value(info) for info in infos}
    body = Body(
        inputs=[values[info.name] for info in graph.input],
        outputs=[values[info.name] for info in graph.output],
        constants={tensor.name: _tensor(tensor) for tensor in graph.initializer},
    )
    _fill(body, graph.node, values, outer)
    return body


def _fill(body: Body, nodes: Any, values: dict[str, Value], outer: Scope) -> None:
    """Adds nodes to a graph. `outer` are the visible results of the enclosing graphs."""
    made = dict(outer)
    for proto in nodes:
        bodies, attributes = {}, {}
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                bodies[attribute.name] = _graph(attribute.g, made)
            else:
                attributes[attribute.name] = _attribute(attribute)
        outputs = [values.get(name, Value(name)) for name in proto.output]
        metadata = {entry.key: entry.value for entry in proto.metadata_props}
        op = _qualified(proto.domain, proto.op_type)
        node = Node(op, proto.name, list(proto.input), outputs, attributes, bodies, metadata)
        body.nodes.append(node)
        for name in proto.input:
            if name in made:
                producer, value = made[name]
                producer.readers.append((value, node))
        made.update({value.name: (node, value) for value in outputs})


def _qualified(domain: str, name: str) -> str:
    return name if domain in ("", "ai.onnx") else f"{domain}::{name}"


def _attribute(attribute: "onnx.AttributeProto") -> Any:
    import onnx

    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", errors="replace")
    if isinstance(value, onnx.TensorProto):
        return _tensor(value)
    return list(value) if isinstance(value, (list, tuple)) or hasattr(value, "extend") else value


def _tensor(tensor: "onnx.TensorProto") -> str:
    """Type and shape, and the elements if they are few and available."""
    import onnx

    text = f"{_dtype(tensor.data_type)}[{', '.join(map(str, tensor.dims))}]"
    count = 1
    for size in tensor.dims:
        count *= size
    if count > SHOWN or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return text
    return f"{text} = {onnx.numpy_helper.to_array(tensor).tolist()}"


def _value(info: "onnx.ValueInfoProto") -> Value:
    if not info.type.HasField("tensor_type"):
        return Value(info.name)
    tensor = info.type.tensor_type
    dims = tuple(_read_dim(dim) for dim in tensor.shape.dim) if tensor.HasField("shape") else None
    return Value(info.name, _dtype(tensor.elem_type), dims)


def _read_dim(dim: Any) -> int | str | None:
    if dim.HasField("dim_value"):
        return int(dim.dim_value)
    return str(dim.dim_param) if dim.dim_param else None


def _dtype(code: int) -> str:
    import onnx

    return str(onnx.TensorProto.DataType.Name(code)).lower()


def _dim(dim: int | str | None) -> str:
    return "?" if dim is None else str(dim)
