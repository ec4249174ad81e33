"""Finds the values of one model in another, by what they are computed from."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

# Tensors of at least this many bytes are compared by name: a model may store them elsewhere.
_LARGE = 1024


def same_values(one: "onnx.ModelProto", other: "onnx.ModelProto") -> dict[str, str]:
    """The names in `other` of the values of `one` that are computed in the same way: by the same
    operators, from the same inputs by position and the same weights by name.
    """
    found = {key: name for name, key in _values(other).items()}
    return {name: found[key] for name, key in _values(one).items() if key in found}


def _values(model: "onnx.ModelProto") -> dict[str, int]:
    graph = model.graph
    values = _constants(graph.initializer)
    inputs = [value.name for value in graph.input if value.name not in values]
    values |= {name: hash(("input", i)) for i, name in enumerate(inputs)}
    return _nodes(graph.node, values)


def _constants(tensors: "Iterable[onnx.TensorProto]") -> dict[str, int]:
    return {tensor.name: _constant(tensor) for tensor in tensors}


def _constant(tensor: "onnx.TensorProto") -> int:
    kind = ("constant", tensor.data_type, *tensor.dims)
    if tensor.HasField("raw_data") and 0 < len(tensor.raw_data) < _LARGE:
        return hash((*kind, tensor.raw_data))
    return hash((*kind, tensor.name))


def _nodes(nodes: "Iterable[onnx.NodeProto]", values: Mapping[str, int]) -> dict[str, int]:
    known = dict(values)
    for node in nodes:
        attributes = sorted(_attribute(attribute, known) for attribute in node.attribute)
        operands = [known.get(name, 0) for name in node.input]
        key = (node.domain, node.op_type, *attributes, "operands", *operands)
        for i, name in enumerate(node.output):
            known[name] = hash((key, i))
    return known


def _attribute(attribute: "onnx.AttributeProto", values: Mapping[str, int]) -> tuple[str, int]:
    graphs = [attribute.g] if attribute.HasField("g") else attribute.graphs
    if graphs:
        return attribute.name, hash(tuple(_body(graph, values) for graph in graphs))
    if attribute.HasField("t"):
        return attribute.name, _constant(attribute.t)
    return attribute.name, hash(attribute.SerializeToString(deterministic=True))


def _body(graph: "onnx.GraphProto", outer: Mapping[str, int]) -> int:
    values = {**outer, **_constants(graph.initializer)}
    values |= {value.name: hash(("formal", i)) for i, value in enumerate(graph.input)}
    values = _nodes(graph.node, values)
    return hash(tuple(values.get(value.name, 0) for value in graph.output))
