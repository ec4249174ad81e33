"""Measures ConvNeXt blocks in each form in onnxruntime, for the table in
docs/operator-measurements.md:

    python scripts/measure_pointwise.py

A block is a depthwise convolution, a norm over channels, two dense layers and a scale, with a
shortcut. All forms run in turn on one thread. The figure of a form is its processor time divided by
that of products with channels last, as the median over the repetitions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import tables
from onnx import TensorProto, helper, numpy_helper

BLOCKS, SECONDS, EPSILON = 3, 10, 1e-6
# Channels and rows: the stages of ConvNeXt-T, channel counts that are not multiples of a block, and
# few pixels.
SIZES = ((96, 56), (192, 28), (384, 14), (768, 7), (390, 14), (774, 7), (384, 2), (384, 1))
STAGES = 4
BATCHES = (1, 8)
LAST, SECOND = [0, 2, 3, 1], [0, 3, 1, 2]


class Graph:
    """A graph under construction."""

    def __init__(self, channels: int) -> None:
        self.channels = channels
        self.random = np.random.default_rng(0)
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        value = np.asarray(value)
        value = value.astype(np.float32) if value.dtype.kind == "f" else value
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def weight(self, *shape: int) -> np.ndarray:
        return self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def depthwise(self, x: str) -> str:
        kernel, bias = self.weight(self.channels, 1, 7, 7), self.weight(self.channels)
        operands = (x, self.constant(kernel), self.constant(bias))
        return self.op("Conv", *operands, group=self.channels, pads=[3] * 4)

    def norm(self, x: str) -> str:
        scale, bias = 1 + self.weight(self.channels), self.weight(self.channels)
        operands = (x, self.constant(scale), self.constant(bias))
        return self.op("LayerNormalization", *operands, epsilon=EPSILON)

    def spelled_norm(self, x: str) -> str:
        axes = self.constant([1])
        scale, bias = 1 + self.weight(self.channels), self.weight(self.channels)
        rest = self.op("Sub", x, self.op("ReduceMean", x, axes))
        squares = self.op("ReduceSumSquare", rest, axes)
        mean = self.op("Mul", squares, self.constant(1 / self.channels))
        deviation = self.op("Sqrt", self.op("Add", mean, self.constant(EPSILON)))
        y = self.op("Mul", rest, self.op("Reciprocal", deviation))
        y = self.op("Mul", y, self.constant(scale[:, None, None]))
        return self.op("Add", y, self.constant(bias[:, None, None]))

    def dense(self, x: str, into: int, *, second: bool, of: int) -> str:
        kernel, bias = self.weight(into, of), self.weight(into)
        if second:
            kernel = kernel[:, :, None, None]
            return self.op("Conv", x, self.constant(kernel), self.constant(bias))
        return self.op("Add", self.op("MatMul", x, self.constant(kernel.T)), self.constant(bias))

    def layers(self, x: str, *, second: bool) -> str:
        """Adds the layers after the norm, with channels second or last."""
        wide = 4 * self.channels
        x = self.op("Gelu", self.dense(x, wide, second=second, of=self.channels))
        x = self.dense(x, self.channels, second=second, of=wide)
        scale = self.weight(self.channels)
        return self.op("Mul", x, self.constant(scale[:, None, None] if second else scale))

    def model(self, y: str, rows: int) -> bytes:
        sizes = ["B", self.channels, rows, rows]
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, sizes)
        result = helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * 4)
        graph = helper.make_graph(self.nodes, "g", [x], [result], self.constants)
        opset = [helper.make_opsetid("", 20)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        return bytes(model.SerializeToString())


def products(graph: Graph) -> str:
    x = graph.op("Transpose", "x", perm=LAST)
    for _ in range(BLOCKS):
        y = graph.depthwise(graph.op("Transpose", x, perm=SECOND))
        y = graph.norm(graph.op("Transpose", y, perm=LAST))
        x = graph.op("Add", x, graph.layers(y, second=False))
    return graph.op("Transpose", x, perm=SECOND)


def convolutions(graph: Graph) -> str:
    x = "x"
    for _ in range(BLOCKS):
        y = graph.norm(graph.op("Transpose", graph.depthwise(x), perm=LAST))
        y = graph.op("Transpose", y, perm=SECOND)
        x = graph.op("Add", x, graph.layers(y, second=True))
    return x


def without_transposes(graph: Graph) -> str:
    x = "x"
    for _ in range(BLOCKS):
        y = graph.spelled_norm(graph.depthwise(x))
        x = graph.op("Add", x, graph.layers(y, second=True))
    return x


FORMS: dict[str, Callable[[Graph], str]] = {
    "": products,
    "`Conv`": convolutions,
    "`Conv`, the norm spelled out": without_transposes,
}


def measured(channels: int, rows: int, batch: int) -> list[float]:
    """Returns the time of each form divided by that of the first."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = []
    for form in FORMS.values():
        graph = Graph(channels)
        model = graph.model(form(graph), rows)
        sessions.append(ort.InferenceSession(model, options, ["CPUExecutionProvider"]))
    x = np.random.default_rng(0).standard_normal((batch, channels, rows, rows), dtype=np.float32)
    expected, *others = (session.run(None, {"x": x})[0] for session in sessions)
    for other in others:
        np.testing.assert_allclose(other, expected, rtol=1e-4, atol=1e-4)
    rounds: list[list[float]] = []
    end = time.perf_counter() + SECONDS
    while len(rounds) < 10 or time.perf_counter() < end:
        times = []
        for session in sessions:
            begin = time.process_time()
            session.run(None, {"x": x})
            times.append(time.process_time() - begin)
        rounds.append([one / times[0] for one in times[1:]])
    return [float(figure) for figure in np.median(rounds, axis=0)]


def run(model: bytes, x: np.ndarray) -> np.ndarray:
    """Runs the model on one thread."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(model, options, ["CPUExecutionProvider"])
    (y,) = session.run(None, {"x": x})
    return np.asarray(y)


def error(channels: int, rows: int, mean: float) -> float:
    """Returns the ratio of the decomposed norm's error to the operator's (root mean squares)."""
    x = mean + np.random.default_rng(0).standard_normal((1, channels, rows, rows))
    x = x.astype(np.float32)
    graph = Graph(channels)
    scale, bias = (
        y.astype(np.float32) for y in (1 + graph.weight(channels), graph.weight(channels))
    )
    wide = x.astype(np.float64)
    rest = wide - wide.mean(1, keepdims=True)
    exact = rest / np.sqrt((rest * rest).mean(1, keepdims=True) + EPSILON)
    exact = exact * scale[:, None, None].astype(np.float64) + bias[:, None, None]
    errors = []
    for is_spelled in (True, False):
        graph = Graph(channels)
        if is_spelled:
            y = graph.spelled_norm("x")
        else:
            y = graph.op("Transpose", "x", perm=LAST)
            y = graph.op("Transpose", graph.norm(y), perm=SECOND)
        difference = run(graph.model(y, rows), x) - exact
        errors.append(float(np.sqrt(np.mean(difference * difference))))
    return errors[0] / errors[1]


def errors_text() -> str:
    sizes = SIZES[:STAGES]
    figures = [[error(*size, mean) for size in sizes] for mean in (0.0, 3.0)]
    centred, shifted = (f"{min(each):.1f} to {max(each):.1f}" for each in figures)
    return (
        "The error of the norm spelled out, divided by that of `LayerNormalization`:"
        f" {centred} on normal random numbers, {shifted} if their mean is 3.\n"
    )


def table() -> str:
    columns = [
        f"{name}, {batch} image{'s'[: batch > 1]}" for name in FORMS if name for batch in BATCHES
    ]
    lines = [
        f"onnxruntime {ort.__version__}, {BLOCKS} blocks on one thread:",
        "",
        "| | " + " | ".join(columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for channels, rows in SIZES:
        figures = np.array([measured(channels, rows, batch) for batch in BATCHES]).T
        cells = " | ".join(f"{figure:.2f}" for figure in figures.ravel())
        lines.append(f"| {channels} channels, {rows} × {rows} pixels | {cells} |")
    return "\n".join([*lines, "", errors_text()])


if __name__ == "__main__":
    tables.write("pointwise", __file__, table())
