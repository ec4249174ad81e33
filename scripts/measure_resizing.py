"""Measures how onnxruntime computes the weights of `jax.image.resize`, for
docs/operator-measurements.md:

    python scripts/measure_resizing.py

Sizes are unknown at export. The time of a form is the minimum processor time of many runs on one
thread, interleaved with all others. It includes the products that read the weights, and is divided
by the time of JAX's form. The error is the largest error of a weight, against float64.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime as ort
import tables
from onnx import TensorProto, helper, numpy_helper

ROUNDS = 40
EPSILON = 1000 * float(np.finfo(np.float32).eps)
IMAGES = [
    ((32, 32), (64, 64)),
    ((64, 64), (48, 48)),
    ((224, 224), (448, 448)),
    ((480, 640), (224, 224)),
]
ROWS = [(32, 64), (224, 1024), (1024, 224)]


class Graph:
    """A graph under construction."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def op(self, op: str, *inputs: Any, **attrs: Any) -> str:
        name = f"v{len(self.nodes)}"
        names = [x if isinstance(x, str) else self.constant(x) for x in inputs]
        self.nodes.append(helper.make_node(op, names, [name], **attrs))
        return name

    def constant(self, value: Any) -> str:
        name = f"c{len(self.constants)}"
        value = np.float32(value) if isinstance(value, float) else np.asarray(value)
        self.constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def size(self, vector: str) -> tuple[str, str]:
        """Returns a size as an integer and as a float."""
        size = self.op("Squeeze", vector, [0])
        return size, self.op("Cast", size, to=TensorProto.FLOAT)

    def model(self, y: str, rank: int) -> bytes:
        shape = [None] * rank
        infos = [
            helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", "like", y)
        ]
        graph = helper.make_graph(self.nodes, "g", infos[:2], infos[2:], self.constants)
        opset = [helper.make_opsetid("", 20)]
        return bytes(
            helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()
        )


def as_in_jax(g: Graph, m: str, n: str) -> str:
    (old, old_float), (new, new_float) = g.size(m), g.size(n)
    step = g.op("Div", 1.0, g.op("Div", new_float, old_float))
    counted = g.op("Cast", g.op("Range", 0, new, 1), to=TensorProto.FLOAT)
    place = g.op("Sub", g.op("Mul", g.op("Add", counted, 0.5), step), 0.5)
    rows = g.op("Cast", g.op("Range", 0, old, 1), to=TensorProto.FLOAT)
    apart = g.op("Abs", g.op("Sub", place, g.op("Unsqueeze", rows, [1])))
    x = g.op("Div", apart, g.op("Max", step, 1.0))
    if g.method == "linear":
        weights = g.op("Relu", g.op("Sub", 1.0, g.op("Abs", x)))
    else:
        near = g.op("Mul", g.op("Sub", g.op("Mul", 1.5, x), 2.5), x)
        near = g.op("Add", g.op("Mul", near, x), 1.0)
        far = g.op("Mul", g.op("Add", g.op("Mul", -0.5, x), 2.5), x)
        far = g.op("Add", g.op("Mul", g.op("Sub", far, 4.0), x), 2.0)
        both = g.op("Where", g.op("GreaterOrEqual", x, 1.0), far, near)
        weights = g.op("Where", g.op("GreaterOrEqual", x, 2.0), 0.0, both)
    total = g.op("ReduceSum", weights, [0])
    safe = g.op("Where", g.op("Not", g.op("Equal", total, 0.0)), total, 1.0)
    enough = g.op("Greater", g.op("Abs", total), EPSILON)
    weights = g.op("Where", enough, g.op("Div", weights, safe), 0.0)
    below = g.op("LessOrEqual", place, g.op("Sub", old_float, 0.5))
    inside = g.op("And", g.op("GreaterOrEqual", place, -0.5), below)
    return g.op("Where", inside, weights, 0.0)


def by_formula(g: Graph, m: str, n: str) -> str:
    (_, old), (_, new) = g.size(m), g.size(n)
    step = g.op("Div", old, new)
    width = g.op("Max", step, 1.0)
    rows = g.op("Unsqueeze", g.op("Range", 0.5, old, 1.0), [1])
    apart = g.op("Abs", g.op("Sub", g.op("Mul", g.op("Range", 0.5, new, 1.0), step), rows))
    if g.method == "linear":
        weights = g.op("Relu", g.op("Sub", width, apart))
    else:
        v = g.op("Relu", g.op("Sub", 2.0, g.op("Div", apart, width)))
        t = g.op("Sub", v, 1.0)
        u = g.op("Relu", t)
        near = g.op("Mul", g.op("Mul", u, u), g.op("Sub", 2.0, g.op("Mul", u, 4.0)))
        weights = g.op("Add", g.op("Mul", t, g.op("Mul", v, v)), near)
    return g.op("Div", weights, g.op("ReduceSum", weights, [0]))


def by_resizing(g: Graph, m: str, n: str) -> str:
    zeros = g.op("ConstantOfShape", g.op("Concat", m, m, axis=0))
    how = {"antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5}
    return g.op("Resize", g.op("EyeLike", zeros), "", "", n, mode=g.method, axes=[1], **how)


Weights = Callable[[Graph, str, str], str]
FORMS: list[Weights] = [as_in_jax, by_formula, by_resizing]


def images(weights: Weights, method: str) -> bytes:
    g = Graph(method)
    ends = [
        [g.op("Shape", name, start=axis, end=axis + 1) for name in ("x", "like")] for axis in (1, 2)
    ]
    y = g.op("Transpose", "x", perm=[0, 2, 3, 1])
    y = g.op("Transpose", g.op("MatMul", y, weights(g, *ends[0])), perm=[3, 0, 2, 1])
    return g.model(g.op("Transpose", g.op("MatMul", y, weights(g, *ends[1])), perm=[1, 0, 3, 2]), 4)


def rows(weights: Weights, method: str) -> bytes:
    g = Graph(method)
    ends = [g.op("Shape", name, start=1) for name in ("x", "like")]
    return g.model(g.op("MatMul", "x", weights(g, *ends)), 2)


def exact(m: int, n: int, method: str) -> Any:
    step = m / n
    place = (np.arange(n) + 0.5) * step - 0.5
    x = np.abs(place - np.arange(m)[:, None]) / max(step, 1)
    weights = np.maximum(1 - x, 0)
    if method == "cubic":
        far = np.where(x < 2, ((-0.5 * x + 2.5) * x - 4) * x + 2, 0)
        weights = np.where(x < 1, ((1.5 * x - 2.5) * x) * x + 1, far)
    return weights / weights.sum(0)


def measured(models: list[bytes], old: tuple[int, ...], new: tuple[int, ...]) -> list[float]:
    """Returns the time of each form divided by that of the first."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    sessions = [ort.InferenceSession(m, options, ["CPUExecutionProvider"]) for m in models]
    x = np.random.default_rng(0).standard_normal(old).astype(np.float32)
    feeds = {"x": x, "like": np.zeros(new, np.float32)}
    best = [np.inf] * len(sessions)
    for _ in range(ROUNDS):
        for i, session in enumerate(sessions):
            begin = time.process_time()
            session.run(None, feeds)
            best[i] = min(best[i], time.process_time() - begin)
    return [one / best[0] for one in best[1:]]


def errors(models: list[bytes], m: int, n: int, method: str) -> list[float]:
    """Returns the mean error of each form divided by that of the first, over similar sizes.

    A product with the identity yields the weights.
    """
    sessions = [ort.InferenceSession(model) for model in models]
    error = np.zeros(len(models))
    for i in range(1, 11):
        old, new = m + i, n + i
        feeds = {"x": np.eye(old, dtype=np.float32), "like": np.zeros((1, new), np.float32)}
        weights = [session.run(None, feeds)[0] for session in sessions]
        error += [np.abs(one - exact(old, new, method)).max() for one in weights]
    return [float(one / error[0]) for one in error[1:]]


def table() -> str:
    lines = [
        f"onnxruntime {ort.__version__}, on one thread:",
        "",
        "| | formula, time | formula, error | identity resized, time | identity resized, error |",
        "|---|---|---|---|---|",
    ]
    for method in ("linear", "cubic"):
        of_rows = [rows(form, method) for form in FORMS]
        of_images = [images(form, method) for form in FORMS]
        for old, new in IMAGES:
            name = f"{method}, {old[0]} × {old[1]} to {new[0]} × {new[1]} pixels"
            times = measured(of_images, (1, *old, 3), (1, *new, 3))
            lines.append(row(name, times, errors(of_rows, old[0], new[0], method)))
        for m, n in ROWS:
            times = measured(of_rows, (1, m), (1, n))
            name = f"{method}, a row of {m} to {n}"
            lines.append(row(name, times, errors(of_rows, m, n, method)))
    return "\n".join(lines) + "\n"


def row(name: str, times: list[float], errors: list[float]) -> str:
    figures = [f"{one:.2f}" for pair in zip(times, errors, strict=True) for one in pair]
    return f"| {name} | " + " | ".join(figures) + " |"


if __name__ == "__main__":
    tables.write("resizing", __file__, table())
