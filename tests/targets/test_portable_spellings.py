"""Spellings that every runtime accepts, in all models that are exported without options."""

from collections.abc import Iterator
from typing import Any

import jax
import onnx
import pytest
from flax import nnx
from onnx import TensorProto, helper, numpy_helper

from jax2onnx import onnx_function, to_onnx
from models import catalogue, typical

WINDOWS = {"AveragePool", "Conv", "ConvTranspose", "LpPool", "MaxPool"}
LAYERS = {"GRU": [5], "LSTM": [5, 6], "RNN": [5]}
BYTES = {TensorProto.INT8, TensorProto.UINT8}
OPERATORS = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}


def graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """Yields a graph and those inside its nodes."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from graphs(attribute.g)


class Checked:
    """A model and the complaints about its nodes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self.model = model
        self.graphs = [*graphs(model.graph)]
        self.nodes = [node for graph in self.graphs for node in graph.node]
        self.constants: dict[str, Any] = {}
        self.types: dict[str, onnx.TypeProto.Tensor] = {}
        for graph in self.graphs:
            for value in (*graph.input, *graph.value_info, *graph.output):
                self.types[value.name] = value.type.tensor_type
            for tensor in graph.initializer:
                if tensor.data_type != TensorProto.BFLOAT16:
                    self.constants[tensor.name] = numpy_helper.to_array(tensor)

    def complaints(self) -> list[str]:
        found = [f"{node.name}: {text}" for node in self.nodes for text in self.of_node(node)]
        used = {node.domain for node in self.nodes}
        for function in self.model.functions:
            used |= {function.domain} | {node.domain for node in function.node}
            if function.name in OPERATORS:
                found.append(f"a function has the name of the operator {function.name}")
        if used != {opset.domain for opset in self.model.opset_import}:
            found.append(f"the imported opsets are not those of {used}")
        return found

    def of_node(self, node: onnx.NodeProto) -> Iterator[str]:
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        if node.op_type in WINDOWS and "kernel_shape" not in attributes:
            yield "no kernel_shape"
        if node.op_type == "Reshape" and attributes.get("allowzero"):
            shape = self.constants.get(node.input[1])
            if shape is not None and 0 not in shape:
                yield "allowzero without a zero"
        if node.op_type.startswith("Reduce") and self.dtype(node.input[0]) in BYTES:
            yield "a reduction of bytes"
        tests_nan = node.op_type == "IsNaN" or (
            node.op_type == "Equal" and node.input[0] == node.input[1]
        )
        if tests_nan and self.dtype(node.input[0]) == TensorProto.DOUBLE:
            yield "a test for NaN in float64"
        batch = self.types[node.input[0]].shape.dim[1] if node.op_type in LAYERS else None
        if batch is not None and batch.dim_param:
            for index in LAYERS[node.op_type]:
                if len(node.input) <= index or not node.input[index]:
                    yield f"no initial state {index}"

    def dtype(self, name: str) -> int | None:
        return self.types[name].elem_type if name in self.types else None


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name.startswith("nnx/") else pytest.mark.slow)
        for name in catalogue.NAMES
    ],
)
def test_models_of_the_catalogue(name: str) -> None:
    pytest.importorskip(catalogue.FRAMEWORKS[name.partition("/")[0]])
    fn, args = catalogue.build(name)
    assert Checked(to_onnx(fn, list(args))).complaints() == []


@pytest.mark.parametrize("name", [*typical.MODELS, *typical.BACKWARDS])
def test_models_with_symbolic_sizes(name: str) -> None:
    model = (typical.MODELS | typical.BACKWARDS)[name]()
    assert Checked(to_onnx(model.fn, list(model.types))).complaints() == []


def test_the_causal_mask_of_a_symbolic_length_is_a_triangle() -> None:
    model = typical.MODELS["GPT"]()
    operators = [node.op_type for node in to_onnx(model.fn, list(model.types)).graph.node]
    assert operators.count("Trilu") == 1


def test_functions_do_not_have_names_of_operators() -> None:
    @onnx_function
    class Gelu(nnx.Module):  # type: ignore[misc]
        def __call__(self, x: jax.Array) -> jax.Array:
            return jax.nn.gelu(x) + x

    model = to_onnx(Gelu(), [("B", 3)])
    assert len(model.functions) == 1
    assert Checked(model).complaints() == []
