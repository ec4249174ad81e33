"""The target `tensorrt`: every node is within what TensorRT's ONNX parser documents."""

import re
import warnings
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import pytest
from onnx import helper

from harness.checking import assert_close, run
from jax2onnx import to_onnx
from jax2onnx.errors import UnsupportedError
from models import catalogue

TABLE = Path(__file__).parents[2] / "crates/optimize/src/targets/tensorrt/kernels.rs"
VERSIONS = {
    (op, int(since))
    for op, versions in re.findall(r'op: "(\w+)", versions: &\[(.*?)\]', TABLE.read_text())
    for since in versions.split(", ")
}
NEWEST = 20
TYPES = {"FLOAT", "FLOAT16", "BFLOAT16", "INT32", "INT64", "BOOL"}


def nodes_of(graph: onnx.GraphProto) -> list[tuple[onnx.NodeProto, onnx.GraphProto]]:
    found = []
    for node in graph.node:
        found.append((node, graph))
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                found += nodes_of(attribute.g)
    return found


def problems(model: onnx.ModelProto) -> list[str]:
    """Returns what is outside of the contract: operators, types and the page's restrictions."""
    opset = model.opset_import[0].version
    found = [] if opset <= NEWEST else [f"opset {opset}"]
    model = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    nodes = nodes_of(model.graph)
    ranks: dict[str, int] = {}
    constants: set[str] = set()
    for graph in [model.graph, *(graph for _, graph in nodes)]:
        for value in [*graph.value_info, *graph.input, *graph.output]:
            tensor = value.type.tensor_type
            ranks[value.name] = len(tensor.shape.dim)
            name = onnx.TensorProto.DataType.Name(tensor.elem_type)
            found += [] if name in TYPES else [f"{value.name} is {name}"]
        constants |= {tensor.name for tensor in graph.initializer}
        constants |= {n.output[0] for n in graph.node if n.op_type == "Constant"}
        for tensor in graph.initializer:
            ranks[tensor.name] = len(tensor.dims)
    for node, _ in nodes:
        op = node.op_type
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        since = onnx.defs.get_schema(op, opset).since_version
        if (op, since) not in VERSIONS:
            found.append(f"{op} {since}")
        ones = all(n == 1 for n in attributes.get("dilations", []))
        wants = {
            "AveragePool": ones and ranks[node.input[0]] in (4, 5),
            "CumSum": all(name in constants for name in node.input[1:]),
            "LayerNormalization": len(node.output) == 1,
            "LSTM": not attributes.get("layout") and not attributes.get("input_forget"),
            "MaxPool": ones and len(node.output) == 1 and ranks[node.input[0]] in (4, 5),
            "Pad": all(name in constants for name in node.input[3:]),
            "Resize": not attributes.get("antialias")
            and attributes.get("mode", b"nearest") in (b"nearest", b"linear"),
            "ScatterND": attributes.get("reduction", b"none") == b"none",
            "Slice": all(name in constants for name in node.input[3:4]),
            "Squeeze": all(name in constants for name in node.input[1:]),
            "TopK": attributes.get("sorted", 1) == 1,
            "Unsqueeze": all(name in constants for name in node.input[1:]),
        }
        reduces = op.startswith("Reduce") and not all(name in constants for name in node.input[1:])
        if reduces or not wants.get(op, True):
            found.append(f"{op} has a restriction")
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.NAMES)
def test_models_are_within_the_contract(name: str) -> None:
    fn, args = catalogue.build(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = to_onnx(fn, list(args), target="tensorrt")
    assert problems(model) == []


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: jnp.clip((x * 9).astype(jnp.int32), 0, 3),
        lambda x: x[(x[:, 0] * 9).astype(jnp.int32)],
        lambda x: jax.nn.softmax(x) @ x.T,
    ],
)
def test_types_that_the_page_lacks_are_replaced(fn: Any) -> None:
    x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
    model = to_onnx(fn, [x], target="tensorrt")
    assert problems(model) == []
    assert_close(run(model, [x]), jax.tree_util.tree_leaves(fn(jnp.asarray(x))))


def test_the_checker_finds_unsupported_nodes() -> None:
    x = np.arange(4, dtype=np.int32)
    assert problems(to_onnx(lambda x: x & 3, [x])) == ["BitwiseAnd 18"]
    with pytest.raises(UnsupportedError, match="TensorRT cannot compute `BitwiseAnd`"):
        to_onnx(lambda x: x & 3, [x], target="tensorrt")


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_older_opsets_are_within_the_contract(opset: int) -> None:
    fn, args = catalogue.build("nnx/cnn")
    model = to_onnx(fn, list(args), target="tensorrt", opset=opset)
    assert problems(model) == []
    assert_close(run(model, list(args)), [fn(*args)])
