"""Runs models in half precision as a GPU does whose kernels compute in float32 and round once."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper

HALF = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def run_rounded(model: onnx.ModelProto, inputs: Sequence[Any]) -> list[np.ndarray]:
    """Runs a model in which every node computes in float32, and rounds its results to their type.

    This emulates kernels that accumulate in float32. onnxruntime's CPU provider does the computing,
    without its optimiser, which would remove roundings.
    """
    wide = onnx.shape_inference.infer_shapes(model, strict_mode=True)
    graph = wide.graph
    values = [*graph.value_info, *graph.input, *graph.output]
    types = {value.name: value.type.tensor_type.elem_type for value in values}
    types |= {tensor.name: tensor.data_type for tensor in graph.initializer}
    nodes = []
    # Python cannot pass bfloat16, so inputs and outputs are float32.
    names = {}
    for value in graph.input:
        if types[value.name] in HALF:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
            names[value.name] = f"narrow/{value.name}"
            types[names[value.name]] = types[value.name]
            cast = {"to": types[value.name]}
            nodes.append(helper.make_node("Cast", [value.name], [names[value.name]], **cast))
    for index, node in enumerate(graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        copy.input[:] = [names.get(name, name) for name in node.input]
        if node.op_type == "Cast" or not any(types.get(name) in HALF for name in copy.input):
            nodes.append(copy)
            continue
        for place, name in enumerate(list(copy.input)):
            if types.get(name) in HALF:
                copy.input[place] = f"wide/{index}/{place}"
                nodes.append(
                    helper.make_node("Cast", [name], [copy.input[place]], to=TensorProto.FLOAT)
                )
        nodes.append(copy)
        for place, name in enumerate(node.output):
            if types.get(name) in HALF:
                copy.output[place] = f"rounded/{index}/{place}"
                nodes.append(helper.make_node("Cast", [copy.output[place]], [name], to=types[name]))
    for value in graph.output:
        if types[value.name] in HALF:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
            cast = {"to": TensorProto.FLOAT}
            nodes.append(helper.make_node("Cast", [value.name], [f"out/{value.name}"], **cast))
            value.name = f"out/{value.name}"
    del graph.node[:], graph.value_info[:]
    graph.node.extend(nodes)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(
        wide.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    operands = {}
    for operand, value in zip(session.get_inputs(), map(np.asarray, inputs), strict=True):
        is_float = operand.type == "tensor(float)"
        operands[operand.name] = value.astype(np.float32) if is_float else value
    results: list[np.ndarray] = session.run(None, operands)
    return results
