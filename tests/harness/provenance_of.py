"""Reads the provenance of an exported model's nodes."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import onnx

CALLSITE = "pkg.jax2onnx.callsite"
PLUGIN = "pkg.jax2onnx.plugin"
STACKTRACE = "pkg.jax2onnx.stacktrace"
JAX_TRACEBACK = "pkg.jax2onnx.jax_traceback"

KEYS = {
    "off": (),
    "minimal": (CALLSITE, PLUGIN),
    "sourcemap": (CALLSITE, PLUGIN),
    "full": (CALLSITE, PLUGIN, STACKTRACE, JAX_TRACEBACK),
}


def all_nodes(model: onnx.ModelProto) -> list[onnx.NodeProto]:
    """Returns the nodes of the main graph, of its subgraphs and of functions."""
    bodies = [list(function.node) for function in model.functions]
    return [n for body in (list(model.graph.node), *bodies) for n in _with_inner(body)]


def _with_inner(nodes: list[onnx.NodeProto]) -> Iterator[onnx.NodeProto]:
    for node in nodes:
        yield node
        for attribute in node.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from _with_inner(list(graph.node))


def of_type(model: onnx.ModelProto, *op_types: str) -> list[onnx.NodeProto]:
    """Returns all nodes with one of the operators, including nested ones."""
    return [node for node in all_nodes(model) if node.op_type in op_types]


def metadata(node: onnx.NodeProto) -> dict[str, str]:
    """Returns the metadata of a node."""
    return {entry.key: entry.value for entry in node.metadata_props}


def callsite(node: onnx.NodeProto) -> str:
    """Returns the call site of a node, `function:line`."""
    return metadata(node)[CALLSITE]


def traceback(node: onnx.NodeProto) -> list[str]:
    """Returns the lines of a node's JAX traceback, innermost first."""
    return metadata(node)[JAX_TRACEBACK].split("\n")


def line_of(mark: str, where: Callable[..., Any] | str) -> int:
    """Returns the line that ends with `# mark`, in the file of a function or in a text."""
    if not isinstance(where, str):
        file = inspect.getsourcefile(inspect.unwrap(where))
        assert file is not None
        with open(file, encoding="utf-8") as source:
            where = source.read()
    (line,) = [
        number for number, text in enumerate(where.split("\n"), 1) if text.endswith(f"  # {mark}")
    ]
    return line


def strip(model: onnx.ModelProto) -> bytes:
    """Serialises the model without metadata and without the IR version that metadata needs."""
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    bare.ClearField("ir_version")
    del bare.metadata_props[:]
    for node in all_nodes(bare):
        del node.metadata_props[:]
    return bare.SerializeToString(deterministic=True)
