"""Measures how fast onnxruntime repeats pixels in each form, for the table in
docs/operator-measurements.md:

    python scripts/measure_upsampling.py

The time of a form is the minimum processor time of many runs on one thread, interleaved with all
others. It is divided by that of JAX's form: `Reshape`, `Expand` and `Reshape` for each axis.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import tables
from onnx import TensorProto, helper, numpy_helper

SIZE, CHANNELS, FACTOR = 32, 64, 2
ROUNDS = 300
LAYOUTS = {"channels last": (1, 2), "channels second": (2, 3)}


class Graph:
    """A graph under construction."""

    def __init__(self, axes: tuple[int, int], is_symbolic: bool) -> None:
        self.axes = axes
        self.shape: list[Any] = [1, CHANNELS, CHANNELS, CHANNELS]
        for axis in axes:
            self.shape[axis] = SIZE
        self.is_symbolic = is_symbolic
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def op(self, op: str, *inputs: str, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def reshape(self, x: str, shape: list[int], factors: list[int]) -> str:
        """Reshapes `x` to `shape`, which is the shape of the input times `factors`."""
        if not self.is_symbolic:
            return self.op("Reshape", x, self.constant(shape))
        sizes = self.op("Mul", self.op("Shape", "x"), self.constant(factors))
        return self.op("Reshape", x, sizes)

    def model(self, y: str) -> bytes:
        shape = [f"d{i}" for i in range(4)] if self.is_symbolic else self.shape
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        result = helper.make_tensor_value_info(y, TensorProto.FLOAT, [None] * 4)
        graph = helper.make_graph(self.nodes, "g", [x], [result], self.constants)
        opset = [helper.make_opsetid("", 20)]
        model = helper.make_model(graph, opset_imports=opset, ir_version=9)
        return bytes(model.SerializeToString())


def copied(graph: Graph, op: str, axes: tuple[int, ...], x: str, done: list[int]) -> str:
    """Repeats `x` along `axes` with one `op`, which acts on a new axis behind each."""
    new = [axis + 1 + i for i, axis in enumerate(axes)]
    counts = [FACTOR if i in new else 1 for i in range(4 + len(axes))]
    wide = graph.op("Unsqueeze", x, graph.constant(new))
    many = graph.op(op, wide, graph.constant(counts))
    factors = [FACTOR if i in (*axes, *done) else 1 for i in range(4)]
    return graph.reshape(many, [n * f for n, f in zip(graph.shape, factors, strict=True)], factors)


def each_axis(graph: Graph) -> str:
    first, second = graph.axes
    return copied(graph, "Expand", (second,), copied(graph, "Expand", (first,), "x", []), [first])


def gathered(graph: Graph) -> str:
    y = "x"
    for axis in graph.axes:
        places: str
        if graph.is_symbolic:
            size = graph.op("Shape", "x", start=axis, end=axis + 1)
            count = graph.op("Squeeze", graph.op("Mul", size, graph.constant([FACTOR])))
            numbers = graph.op("Range", graph.constant(0), count, graph.constant(1))
            places = graph.op("Div", numbers, graph.constant([FACTOR]))
        else:
            places = graph.constant(np.repeat(np.arange(SIZE), FACTOR))
        y = graph.op("Gather", y, places, axis=axis)
    return y


def resized(graph: Graph) -> str:
    scales = np.ones(4, np.float32)
    scales[list(graph.axes)] = FACTOR
    how = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    return graph.op("Resize", "x", "", graph.constant(scales), mode="nearest", **how)


FORMS: dict[str, Callable[[Graph], str]] = {
    "": each_axis,
    "`Gather` for each axis": gathered,
    "one `Expand`": lambda graph: copied(graph, "Expand", graph.axes, "x", []),
    "one `Tile`": lambda graph: copied(graph, "Tile", graph.axes, "x", []),
    "`Resize`": resized,
}


def measured(axes: tuple[int, int], is_symbolic: bool) -> list[float]:
    """Returns the time of each form divided by that of the first."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = []
    for form in FORMS.values():
        graph = Graph(axes, is_symbolic)
        model = graph.model(form(graph))
        sessions.append(ort.InferenceSession(model, options, ["CPUExecutionProvider"]))
    x = np.random.default_rng(0).standard_normal(graph.shape).astype(np.float32)
    expected = x.repeat(FACTOR, axes[0]).repeat(FACTOR, axes[1])
    best = [np.inf] * len(sessions)
    for _ in range(ROUNDS):
        for i, session in enumerate(sessions):
            begin = time.process_time()
            (y,) = session.run(None, {"x": x})
            best[i] = min(best[i], time.process_time() - begin)
            assert np.array_equal(y, expected)
    return [one / best[0] for one in best[1:]]


def table() -> str:
    lines = [
        f"onnxruntime {ort.__version__}, {SIZE} × {SIZE} pixels of {CHANNELS} channels,"
        f" {FACTOR} times as many in each direction:",
        "",
        "| | " + " | ".join(name for name in FORMS if name) + " |",
        "|---" * len(FORMS) + "|",
    ]
    for suffix, is_symbolic in (("", False), (", sizes not known", True)):
        for name, axes in LAYOUTS.items():
            figures = [f"{figure:.2f}" for figure in measured(axes, is_symbolic)]
            lines.append(f"| {name}{suffix} | " + " | ".join(figures) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    tables.write("upsampling", __file__, table())
